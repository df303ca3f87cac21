package crdgen

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/clouds"
)

// Options turns the spec of an <X>Machine (or an <X>Config without its top-level names) into its
// driver's input: values by flag name as string, int, bool or []string, and the content of files by
// flag name. Fields without a value are left to the driver's defaults; an explicit false counts as
// a value if the default is true. All errors are reported together; they name fields and never
// quote a value.
func Options(fields []Field, spec map[string]any) (values map[string]any, files map[string][]byte, err error) {
	values, files = map[string]any{}, map[string][]byte{}
	var problems []error
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(spec)), func(name string) bool { return slices.Contains([]string{CommonField, ProviderIDField}, name) })
	for _, name := range names {
		at := slices.IndexFunc(fields, func(field Field) bool { return field.Name == name })
		if at < 0 {
			problems = append(problems, fmt.Errorf("field %s: the driver has no such option", name))
			continue
		}
		value, err := fields[at].option(spec[name])
		if err != nil {
			problems = append(problems, fmt.Errorf("field %s: %w", name, err))
			continue
		}
		if content, isText := value.(string); isText && fields[at].File {
			files[fields[at].Flag] = FileContent([]byte(content))
		} else if value != nil {
			values[fields[at].Flag] = value
		}
	}
	if len(problems) > 0 {
		return nil, nil, errors.Join(problems...)
	}
	return values, files, nil
}

// CheckRules rejects values that certainly fail. The schema rejects them, too; this check is for
// older objects. It is separate from Options, because a server is removed with the values with
// which it was made.
func CheckRules(fields []Field, spec map[string]any) error {
	var problems []error
	for _, field := range fields {
		value := spec[field.Name]
		if value == nil {
			value = field.Default
		}
		if err := field.CheckRule(value); err != nil {
			problems = append(problems, fmt.Errorf("field %s: %w", field.Name, err))
		}
	}
	return errors.Join(problems...)
}

// CheckRule refuses a value of this field that is known to lead nowhere.
func (f Field) CheckRule(value any) error {
	if rule, ok := f.rule(); ok {
		return rule.Check(value)
	}
	return nil
}

// contentRule is for files: a single line that begins like a path is a path on another computer
// than the Job's pod.
var contentRule = clouds.Rule{Without: `^~?/[^\n]*\n?$`, Says: "must be the content of the file, not its path"}

// rule returns the rule of the field's flag if it fits the field's type, else the rule of a file.
func (f Field) rule() (clouds.Rule, bool) {
	rule, ok := clouds.RuleOf(f.Flag)
	if !ok && f.File {
		return contentRule, true
	}
	return rule, ok && (f.Type == String && rule.Most == 0 || f.Type == Int && rule.Most > 0)
}

// IsGiven reports whether a spec has a value for the field.
func (f Field) IsGiven(spec map[string]any) bool {
	value, err := f.option(spec[f.Name])
	return err == nil && value != nil
}

// option returns the driver's value, or nil without one.
func (f Field) option(given any) (any, error) {
	value, err := f.Type.Value(given)
	switch v := value.(type) {
	case string:
		if strings.ContainsRune(v, 0) {
			return nil, errors.New("has a NUL character")
		}
	case int64:
		return int(v), err
	case bool:
		if !v && f.Default != true {
			return nil, err
		}
	case []string:
		if i := slices.IndexFunc(v, func(item string) bool { return strings.ContainsRune(item, 0) }); i >= 0 {
			return nil, fmt.Errorf("item %d has a NUL character", i)
		}
	}
	return value, err
}

// FileContent ends with a line break: OpenSSH refuses a private key without one.
func FileContent(content []byte) []byte {
	if bytes.HasSuffix(content, []byte("\n")) {
		return bytes.Clone(content)
	}
	return append(bytes.Clone(content), '\n')
}
