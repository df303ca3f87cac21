package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/releases"
)

// Schema is the part of a Config's OpenAPI schema that is needed to set its options.
type Schema struct {
	// Kind is the Config's kind, and Driver the driver's name for messages.
	Kind, Driver string
	// Options by name.
	Options map[string]Option
}

// Option is the schema of one option.
type Option struct {
	Type        string `json:"type"`
	Format      string `json:"format"`
	Description string `json:"description"`
	IntOrString bool   `json:"x-kubernetes-int-or-string"`
}

// common are the properties of a Config that are not options of its driver.
var common = []string{"apiVersion", "kind", "metadata", "common", "providerID"}

// ErrNoSchema means that an OpenAPI document does not have the kind.
var ErrNoSchema = errors.New("the API server has no schema of this kind")

// ParseSchema finds a kind in the OpenAPI v3 document of its group.
func ParseSchema(document []byte, kind, driver string) (*Schema, error) {
	var parsed struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]Option `json:"properties"`
				Kinds      []struct {
					Kind string `json:"kind"`
				} `json:"x-kubernetes-group-version-kind"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &parsed); err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", kind, err)
	}
	for _, schema := range parsed.Components.Schemas {
		if len(schema.Kinds) == 1 && schema.Kinds[0].Kind == kind {
			for _, name := range common {
				delete(schema.Properties, name)
			}
			return &Schema{Kind: kind, Driver: driver, Options: schema.Properties}, nil
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrNoSchema, kind)
}

// credentialNote begins the description of an option that the credential Secret usually has.
const credentialNote = "Usually key "

// Signs of a secret. Of the types, only strings have a format that says so. A driver whose NodeDriver
// does not name its secret fields has only their names.
var (
	secretNote = regexp.MustCompile(`(^|\s)Secret\.(\s|$)`)
	secretName = regexp.MustCompile(`(?i)(password|passwd|passphrase|secret|token|api-?key|access-?key|secret-?key|private-?key)$`)
)

// isSecret reports whether an option is secret.
func isSecret(name string, o Option) bool {
	return o.Format == "password" || secretNote.MatchString(o.Description) || secretName.MatchString(name)
}

// flag is the driver's flag that an option stands for; empty if unknown.
func (o Option) flag() string {
	_, rest, found := strings.Cut(o.Description, "Driver flag --")
	if !found {
		return ""
	}
	return strings.TrimSuffix(strings.TrimSpace(rest), ".")
}

// NeedsCredential reports whether the credential Secret usually has secrets for the driver.
func (s *Schema) NeedsCredential() bool {
	for name, option := range s.Options {
		if isSecret(name, option) && strings.Contains(option.Description, credentialNote) {
			return true
		}
	}
	return false
}

// Names lists the options that a flag may set.
func (s *Schema) Names() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.Options)) {
		if !isSecret(name, s.Options[name]) {
			names = append(names, name)
		}
	}
	return names
}

// set sets an option in a Config. A list gets one item with each call.
func (s *Schema) set(config map[string]any, name, value string) error {
	option, known := s.Options[name]
	switch {
	case !known:
		return s.unknown(name)
	case isSecret(name, option):
		return fmt.Errorf("option %s is secret and is not taken from a flag, which other users of this computer can read: put it into the credential Secret as key %s, and name the Secret with --credential", name, name)
	case option.Type == "array":
		items, _ := config[name].([]any)
		config[name] = append(items, value)
		return nil
	case config[name] != nil:
		return fmt.Errorf("option %s is given twice", name)
	}
	var parsed any = value
	var err error
	switch {
	case option.IntOrString, option.Type == "integer":
		if parsed, err = strconv.ParseInt(value, 10, 64); err != nil {
			return fmt.Errorf("option %s takes a whole number, not %q", name, value)
		}
	case option.Type == "boolean":
		if parsed, err = strconv.ParseBool(value); err != nil {
			return fmt.Errorf("option %s takes true or false, not %q", name, value)
		}
	case option.Type != "string":
		return fmt.Errorf("option %s cannot be set with a flag: write the manifest to a file with --dry-run, and add the option there", name)
	}
	config[name] = parsed
	return nil
}

// unknown is the error for an option that the driver does not have.
func (s *Schema) unknown(name string) error {
	hint := ""
	near := releases.Nearest(name, slices.Sorted(maps.Keys(s.Options)))
	for known, option := range s.Options {
		if flag := option.flag(); flag != "" && flag == strings.TrimLeft(name, "-") {
			near = known
		}
	}
	if near != "" {
		hint = fmt.Sprintf(" (did you mean %q?)", near)
	}
	return fmt.Errorf("driver %s has no option %q%s; list the options with: kubectl explain %ss.rke-machine-config.cattle.io", s.Driver, name, hint, strings.ToLower(s.Kind))
}
