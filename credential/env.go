package credential

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/crdgen"
)

// Env turns the data of a credential Secret into the environment variables through which the driver
// takes it. A key is a field's name, or Rancher's form <driver>credentialConfig-<field>. A key that
// does not match a field becomes <PREFIX>_<UPPER_SNAKE>, because drivers and SDKs read more
// variables than the flags name. Env leaves out keys whose field is a file: Files has them. The
// error names every missing required key.
func Env(driverName string, fields []crdgen.Field, secretData map[string][]byte) (map[string]string, error) {
	byField, extra := match(driverName, fields, secretData)
	env := map[string]string{}
	var problems []error
	set := func(name, key string, value []byte) {
		text, err := envValue(value)
		if err != nil {
			problems = append(problems, fmt.Errorf("key %s: %w", key, err))
			return
		}
		if text != "" {
			env[name] = text
		}
	}
	for i, field := range fields {
		key, ok := byField[i]
		if err := field.CheckRule(strings.TrimRight(string(secretData[key]), "\r\n")); ok && err != nil {
			problems = append(problems, fmt.Errorf("key %s: %w", key, err))
			continue
		}
		if ok && !field.File {
			set(Variable(driverName, field), key, secretData[key])
		}
	}
	for _, key := range extra {
		name, err := looseVariable(driverName, key)
		if err != nil {
			problems = append(problems, fmt.Errorf("key %s: %w", key, err))
			continue
		}
		if env[name] == "" {
			set(name, key, secretData[key])
		}
	}
	problems = append(problems, missingKeys(driverName, fields, byField, secretData)...)
	if len(problems) > 0 {
		return nil, fmt.Errorf("reading the credential of driver %s: %w", driverName, errors.Join(problems...))
	}
	// The schema has no defaults for these fields, because a default written into an object would
	// win over the Secret.
	for _, field := range fields {
		if name := Variable(driverName, field); field.Credential != "" && field.Default != nil && env[name] == "" {
			env[name] = crdgen.DefaultText(field.Default)
		}
	}
	return env, nil
}

// looseVariable returns the variable for a key that does not match a field of the driver.
func looseVariable(driverName, key string) (string, error) {
	name, err := upperSnake(lastSegment(key))
	if err != nil {
		return "", err
	}
	if prefix := clouds.Of(driverName).EnvPrefix + "_"; !strings.HasPrefix(name, prefix) {
		name = prefix + name
	}
	if ofProcess.MatchString(name) {
		return "", fmt.Errorf("%s is a setting of the driver's process or names a file, and is not an option of the driver: remove the key", name)
	}
	return name, nil
}

// ofProcess matches variables that are not credentials: with them an SDK, the plugin or the runtime
// would read files of the pod, run programs, or connect to another host. A driver with a flag for
// one still gets it.
var ofProcess = regexp.MustCompile(`^(LD|DYLD|GO|MACHINE|SSL|KUBERNETES|NO|ALL|HTTPS?|GRPC)_|` +
	`_(FILES?|PATH|DIR|HOME|PROXY|CONFIG|PROFILE|BUNDLE|PROCESS|COMMAND|EXECUTABLES?|APPLICATION_CREDENTIALS)$`)

// KeepOwn reduces a kept credential to the parts that Env and Files can produce, and returns the
// names of the variables that it removed: a user with write access to the Secret that kept it can
// write any variable there.
func KeepOwn(driverName string, fields []crdgen.Field, env map[string]string, files map[string][]byte) (dropped []string) {
	own, ownFiles := map[string]bool{}, map[string]bool{}
	for _, field := range fields {
		own[Variable(driverName, field)], ownFiles[field.Flag] = !field.File, field.File
	}
	prefix := clouds.Of(driverName).EnvPrefix + "_"
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if spelled, err := upperSnake(name); !own[name] && (err != nil || spelled != name || !strings.HasPrefix(name, prefix) || ofProcess.MatchString(name)) {
			delete(env, name)
			dropped = append(dropped, name)
		}
	}
	maps.DeleteFunc(files, func(flag string, _ []byte) bool { return !ownFiles[flag] })
	return dropped
}

// Files returns the parts of a credential that the driver takes as files, by flag name. A value in
// a machine's spec takes precedence.
func Files(driverName string, fields []crdgen.Field, secretData map[string][]byte) map[string][]byte {
	byField, _ := match(driverName, fields, secretData)
	files := map[string][]byte{}
	for i, field := range fields {
		if key, ok := byField[i]; ok && field.File && len(secretData[key]) > 0 {
			files[field.Flag] = crdgen.FileContent(secretData[key])
		}
	}
	return files
}

// Options returns the values of a credential's fields whose flags name no variable, by flag name:
// the driver would not read a derived variable. A value in a machine's spec takes precedence.
func Options(driverName string, fields []crdgen.Field, env map[string]string) map[string]any {
	options := map[string]any{}
	for _, field := range fields {
		if value := env[Variable(driverName, field)]; value != "" && field.EnvVar == "" && field.Credential != "" && !field.File {
			options[field.Flag] = value
		}
	}
	return options
}

// RequiredKeys returns the keys that the Secret of a machine of this driver must have, given the
// values in its spec.
func RequiredKeys(fields []crdgen.Field, spec map[string]any) []string {
	var keys []string
	for _, field := range givenIn(fields, spec) {
		if isRequired(field) {
			keys = append(keys, field.Name)
		}
	}
	slices.Sort(keys)
	return keys
}

func isRequired(f crdgen.Field) bool { return f.Credential != "" && !f.Optional && f.Default == nil }

// givenIn returns fields in which those with a value in spec are optional for the credential,
// because a value in the spec takes precedence.
func givenIn(fields []crdgen.Field, spec map[string]any) []crdgen.Field {
	out := slices.Clone(fields)
	for i := range out {
		out[i].Optional = out[i].Optional || out[i].IsGiven(spec)
	}
	return out
}

// match finds the key of each field (by position), and the keys that match no field, both
// regardless of spelling; an exact spelling wins.
func match(driverName string, fields []crdgen.Field, data map[string][]byte) (byField map[int]string, extra []string) {
	byField = map[int]string{}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		i, ok := fieldOfKey(driverName, fields, key)
		if !ok {
			extra = append(extra, key)
			continue
		}
		if _, taken := byField[i]; !taken || lastSegment(key) == fields[i].Name {
			byField[i] = key
		}
	}
	return byField, extra
}

// fieldOfKey tries the whole key first, then Rancher's form; it also accepts the name of the
// field's environment variable.
func fieldOfKey(driverName string, fields []crdgen.Field, key string) (int, bool) {
	for i, field := range fields {
		if field.EnvVar != "" && field.EnvVar == key {
			return i, true
		}
	}
	for _, name := range []string{key, lastSegment(key)} {
		if matches := crdgen.Find(driverName, fields, name); len(matches) == 1 {
			return matches[0], true
		}
	}
	return 0, false
}

func missingKeys(driverName string, fields []crdgen.Field, byField map[int]string, data map[string][]byte) []error {
	var problems []error
	for i, field := range fields {
		if !isRequired(field) {
			continue
		}
		if key, ok := byField[i]; !ok || len(bytes.TrimSpace(data[key])) == 0 {
			problems = append(problems, fmt.Errorf("key %s is missing or empty: set %[1]s, or %scredentialConfig-%[1]s, in the Secret", field.Name, driverName))
		}
	}
	return problems
}

// Variable returns the variable that the driver itself names for a field, or a derived one if it
// names none.
func Variable(driverName string, f crdgen.Field) string {
	if f.EnvVar != "" {
		return f.EnvVar
	}
	name, err := upperSnake(f.Name)
	if err != nil {
		return ""
	}
	return clouds.Of(driverName).EnvPrefix + "_" + name
}

func lastSegment(key string) string {
	return key[strings.LastIndex(key, "-")+1:]
}

var (
	spelling = regexp.MustCompile(`^[a-zA-Z0-9._]*$`)
	// hump matches the beginning of a word in camel case.
	hump = regexp.MustCompile(`([a-z0-9])([A-Z])`)
)

func upperSnake(name string) (string, error) {
	switch {
	case name == "":
		return "", errors.New("cannot become an environment variable: it ends with a dash")
	case !spelling.MatchString(name):
		return "", errors.New("cannot become an environment variable: use letters, digits, dots and underscores")
	}
	return strings.ToUpper(strings.ReplaceAll(hump.ReplaceAllString(name, "${1}_${2}"), ".", "_")), nil
}

// envValue drops the line break that kubectl create secret --from-file leaves after a token; text
// of several lines, such as a key, stays unchanged.
func envValue(value []byte) (string, error) {
	if bytes.IndexByte(value, 0) >= 0 {
		return "", errors.New("has a NUL character")
	}
	trimmed := bytes.TrimRight(value, "\r\n")
	if bytes.IndexByte(trimmed, '\n') >= 0 {
		return string(value), nil
	}
	return string(trimmed), nil
}
