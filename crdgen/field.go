package crdgen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// Names of the fields that every <X>Machine has beside its driver's own.
const (
	CommonField     = rkev1.CommonField
	ProviderIDField = rkev1.ProviderIDField
)

// Credential is the field's role in the cloud credential.
type Credential string

// Parts of a credential.
const (
	PublicCredential  Credential = "public"
	PrivateCredential Credential = "private"
)

// Field is a field of an <X>Config or of the spec of an <X>Machine: one per flag of the driver.
type Field struct {
	// Name is the key in the object.
	Name string `json:"name"`
	// Flag is the driver's flag, exactly; names cannot always be mapped back to it.
	Flag string `json:"flag"`
	// EnvVar is the environment variable the driver reads instead of the flag; empty if it has
	// none.
	EnvVar string `json:"envVar,omitempty"`
	// Type is the flag's.
	Type FlagType `json:"type"`
	// Default is the driver's default, as in Flag; for a credential field the NodeDriver's default,
	// if it has one.
	Default any `json:"default,omitempty"`
	// Preset is the value that the NodeDriver's annotation "defaults" fills into an <X>Config
	// without a value. No other kind gets it: a machine's options would change after its creation
	// with the annotation.
	Preset any `json:"preset,omitempty"`
	// Usage is the driver's help text on one line.
	Usage string `json:"usage,omitempty"`
	// Secret fields are never shown.
	Secret bool `json:"secret,omitempty"`
	// File fields hold content, which the driver gets as the path of a file.
	File bool `json:"file,omitempty"`
	// Credential is set if the credential Secret usually gives the field.
	Credential Credential `json:"credential,omitempty"`
	// Optional credential fields may be missing from the Secret.
	Optional bool `json:"optional,omitempty"`
}

// FieldsOf maps a driver's flags to fields, in the order of the flags.
func FieldsOf(driverName string, flags []Flag, rules Rules) ([]Field, error) {
	flags = append([]Flag(nil), flags...)
	if err := CheckFlags(flags); err != nil {
		return nil, err
	}
	names, err := assignNames(driverName, flags)
	if err != nil {
		return nil, fmt.Errorf("naming the fields of driver %s: %w", driverName, err)
	}
	fields := make([]Field, len(flags))
	for i, flag := range flags {
		fields[i] = Field{Name: names[flag.Name], Flag: flag.Name, Type: flag.Type, Default: flag.Default, Usage: oneLine(flag.Usage)}
		for name := range strings.SplitSeq(flag.EnvVar, ",") {
			fields[i].EnvVar = cmp.Or(fields[i].EnvVar, strings.TrimSpace(name)) // the driver reads the first that is set
		}
	}
	if err := applyAliases(driverName, fields, rules.FileAliases); err != nil {
		return nil, fmt.Errorf("applying the file aliases of driver %s: %w", driverName, err)
	}
	applyCredentials(driverName, fields, rules)
	if err := applyDefaults(driverName, fields, rules.Defaults); err != nil {
		return nil, fmt.Errorf("applying the defaults of driver %s: %w", driverName, err)
	}
	return fields, nil
}

// Unmatched lists, as sentences for a warning, the names in rules that match no field or have no
// effect. It leaves out unknown file aliases: FieldsOf rejects those, because the field would take
// a path instead of content.
func Unmatched(driverName string, fields []Field, rules Rules) []string {
	var out []string
	report := func(what string, names []string) {
		for _, name := range names {
			if len(Find(driverName, fields, name)) == 0 {
				out = append(out, fmt.Sprintf("%s %q matches no flag of the driver", what, name))
			}
		}
	}
	report("public credential field", rules.PublicCredentialFields)
	report("private credential field", rules.PrivateCredentialFields)
	report("optional credential field", rules.OptionalCredentialFields)
	report("password field", rules.PasswordFields)
	for _, d := range rules.Defaults {
		report("default for field", []string{d.Field})
		for _, i := range Find(driverName, fields, d.Field) {
			if fields[i].Secret {
				out = append(out, fmt.Sprintf("default for field %q is left out: the field is secret, and kinds are readable by all users", d.Field))
			}
		}
	}
	return out
}

func applyAliases(driverName string, fields []Field, aliases []Pair) error {
	for _, alias := range aliases {
		matches := Find(driverName, fields, alias.Value)
		if len(matches) != 1 {
			return fmt.Errorf("%q matches %d flags of the driver, must match one", alias.Value, len(matches))
		}
		field := &fields[matches[0]]
		if field.Type != String || field.File {
			return fmt.Errorf("%q is not a plain string flag", alias.Value)
		}
		if err := checkName(alias.Field); err != nil {
			return err
		}
		if isTaken(alias.Field) {
			return fmt.Errorf("the alias %q has another meaning already", alias.Field)
		}
		for i := range fields {
			if i != matches[0] && fields[i].Name == alias.Field {
				return fmt.Errorf("the alias %q is also the name of flag --%s", alias.Field, fields[i].Flag)
			}
		}
		field.Name = alias.Field
		// Rancher lists it as a file although the driver needs the content itself: given a path, it
		// tries to parse that as JSON.
		if field.Flag == "google-auth-encoded-json" {
			continue
		}
		// A path on the driver author's machine is not valid content.
		field.File, field.Default = true, nil
	}
	return nil
}

// OnlyURL reports whether a flag takes a path or an address. Drover accepts only addresses: a file
// would be in the Job's own pod, which holds the request with the credential, and its content would
// go to the server or the cloud.
func OnlyURL(flag string) bool {
	return flag == "vmwarevsphere-cloudinit" || strings.HasSuffix(flag, "-boot2docker-url")
}

func applyCredentials(driverName string, fields []Field, rules Rules) {
	each := func(names []string, do func(*Field)) {
		for _, name := range names {
			for _, i := range Find(driverName, fields, name) {
				do(&fields[i])
			}
		}
	}
	each(rules.PublicCredentialFields, func(f *Field) { f.Credential = PublicCredential })
	each(rules.PrivateCredentialFields, func(f *Field) { f.Credential, f.Secret = PrivateCredential, true })
	each(rules.PasswordFields, func(f *Field) { f.Secret = true })
	each(rules.OptionalCredentialFields, func(f *Field) { f.Optional = true })
	for i := range fields {
		switch fields[i].Name {
		case "sshKeyContents", "sshKey", "privateKeyFile":
			fields[i].Secret = true
		}
		if fields[i].Secret {
			// A schema is read by more people than a secret should be.
			fields[i].Default = nil
		}
	}
}

func applyDefaults(driverName string, fields []Field, defaults []Pair) error {
	for _, d := range defaults {
		for _, i := range Find(driverName, fields, d.Field) {
			if fields[i].Secret {
				continue
			}
			value, err := fields[i].Type.Parse(d.Value)
			if err == nil && fields[i].Credential != "" {
				fields[i].Default, err = normalDefault(fields[i].Type, value)
			} else if err == nil {
				fields[i].Preset, err = fields[i].normalPreset(value)
			}
			if err != nil {
				return fmt.Errorf("default of field %s: %q %w", d.Field, d.Value, err)
			}
		}
	}
	return nil
}

// normalPreset returns value in the form of Preset: the zero value is kept if the driver's default
// differs.
func (f Field) normalPreset(value any) (any, error) {
	normal, err := normalDefault(f.Type, value)
	if err == nil && normal == nil && value != nil && f.Default != nil {
		normal = map[FlagType]any{String: "", Int: int64(0), Bool: false, StringSlice: []string{}}[f.Type]
	}
	return normal, err
}

// Find returns the positions of the fields that name matches: by their name or their flag, with or
// without the driver's prefix, regardless of spelling. An exact match excludes the others, and a
// match by name takes precedence over one by flag.
func Find(driverName string, fields []Field, name string) []int {
	for _, spelled := range []func(Field) bool{
		func(f Field) bool { return f.Name == name },
		func(f Field) bool { return strings.TrimPrefix(name, "--") == f.Flag },
		func(f Field) bool { return driverName+"-"+name == f.Flag },
	} {
		if i := slices.IndexFunc(fields, spelled); i >= 0 {
			return []int{i}
		}
	}
	want := fold(name)
	var loose []int
	for i, field := range fields {
		if want == fold(field.Name) || want == fold(field.Flag) || want == fold(strings.TrimPrefix(field.Flag, driverName+"-")) {
			loose = append(loose, i)
		}
	}
	return loose
}

// oneLine drops line breaks, control characters, and characters of the class Cf, which are
// invisible or change the direction of writing: terminals and web pages show a description.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	return strings.Join(strings.Fields(text), " ")
}
