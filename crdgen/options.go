package crdgen

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/clouds"
)

// Options turns the spec of an <X>Machine (or an <X>Config without its top-level names) into what its driver is given:
// values by flag name as string, int, bool or []string, and the content of files by flag name. Fields without a value
// are left to the driver's defaults; an explicit false counts as a value where the default is true. All errors are
// reported together; they name fields and never repeat a value.
func Options(fields []Field, spec map[string]any) (values map[string]any, files map[string][]byte, err error) {
	byName := make(map[string]Field, len(fields))
	for _, field := range fields {
		byName[field.Name] = field
	}
	values, files = map[string]any{}, map[string][]byte{}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		if name == CommonField || name == ProviderIDField {
			continue
		}
		field, ok := byName[name]
		if !ok {
			problems = append(problems, fmt.Errorf("field %s: the driver has no such option", name))
			continue
		}
		value, err := field.option(spec[name])
		if err != nil {
			problems = append(problems, fmt.Errorf("field %s: %w", name, err))
			continue
		}
		if value == nil {
			continue
		}
		if field.File {
			files[field.Flag] = FileContent([]byte(value.(string)))
			continue
		}
		values[field.Flag] = value
	}
	if len(problems) > 0 {
		return nil, nil, errors.Join(problems...)
	}
	return values, files, nil
}

// CheckRules refuses values that are known to lead nowhere. The schema refuses them too; this is for objects that were there before
// it did. It is apart from Options because a server is removed with whatever values it was made.
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

// contentRule is for files: one line that begins like a path is one, on a computer that is not the Job's pod.
var contentRule = clouds.Rule{Without: `^~?/[^\n]*\n?$`, Says: "must be the content of the file, not its path"}

// rule is that of the field's flag, if it is about values of the field's type, else that of a file.
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

// option is the driver's value, or nil when there is none to give.
func (f Field) option(value any) (any, error) {
	if value == nil {
		return nil, nil
	}
	switch f.Type {
	case String:
		text, ok := value.(string)
		if !ok {
			return nil, fmt.Errorf("must be a string, is a %s", jsonType(value))
		}
		if strings.ContainsRune(text, 0) {
			return nil, errors.New("has a NUL character")
		}
		if text == "" {
			return nil, nil
		}
		return text, nil
	case Int:
		return intOption(value)
	case Bool:
		given, ok := value.(bool)
		if !ok {
			return nil, fmt.Errorf("must be true or false, is a %s", jsonType(value))
		}
		if !given && f.Default != true {
			return nil, nil
		}
		return given, nil
	case StringSlice:
		return sliceOption(value)
	}
	return nil, fmt.Errorf("has the unknown type %q", f.Type)
}

func intOption(value any) (any, error) {
	if text, ok := value.(string); ok {
		if text == "" {
			return nil, nil
		}
		number, err := strconv.Atoi(text)
		if err != nil {
			return nil, errors.New("must be an integer, is a string that is none")
		}
		return number, nil
	}
	number, err := toInt(value)
	if err != nil {
		return nil, fmt.Errorf("must be an integer, is a %s", jsonType(value))
	}
	return int(number), nil
}

func sliceOption(value any) (any, error) {
	items, err := toStrings(value)
	if err != nil {
		return nil, fmt.Errorf("must be a list of strings: %w", err)
	}
	for i, item := range items {
		if strings.ContainsRune(item, 0) {
			return nil, fmt.Errorf("item %d has a NUL character", i)
		}
	}
	if len(items) == 0 {
		return nil, nil
	}
	return slices.Clone(items), nil
}

// FileContent ends with a line break: OpenSSH refuses a private key without one.
func FileContent(content []byte) []byte {
	if bytes.HasSuffix(content, []byte("\n")) {
		return bytes.Clone(content)
	}
	return append(bytes.Clone(content), '\n')
}

func jsonType(value any) string {
	switch value.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case []any, []string:
		return "list"
	case map[string]any:
		return "map"
	case int, int32, int64, float64, json.Number:
		return "number"
	case nil:
		return "null"
	}
	return fmt.Sprintf("%T", value)
}
