package planner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/drover-project/drover/releases"
)

// settings are arguments of the distribution by name, as they go into its config.yaml: texts,
// booleans, json.Number, lists and maps.
type settings map[string]any

// key matches a valid name in config.yaml; with + its value is added to the value in other files
// (k3s pkg/configfilearg).
var key = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\+?$`)

// merge puts a layer over the settings: its values replace earlier ones, and null takes one away.
// Where names the layer in errors, which never have the value in them: it may be a secret.
func (s settings) merge(layer []argument, where string, kind func(string) (releases.Kind, bool)) error {
	var errs []error
	for _, given := range layer {
		name, value, err := given.name, given.value, given.err
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", where, err))
			continue
		}
		wanted, mine := kind(strings.TrimSuffix(name, "+"))
		switch {
		case value == nil || !mine:
			delete(s, name)
			continue
		case wanted != releases.Unknown:
			value, err = check(value, wanted)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s %w", where, name, err))
			continue
		}
		s[name] = value
	}
	if len(errs) > 5 {
		errs = append(errs[:5], fmt.Errorf("and %d more", len(errs)-5))
	}
	return errors.Join(errs...)
}

// decode keeps numbers as they were written. checkBounds has bounded the value.
func decode(raw apiextensionsv1.JSON) (any, error) {
	if len(raw.Raw) == 0 {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw.Raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil || decoder.More() {
		return nil, errors.New("is not a valid JSON value")
	}
	return value, nil
}

var whole = regexp.MustCompile(`^-?[0-9]{1,18}$`)

// check is the value as the kind has it.
func check(value any, kind releases.Kind) (any, error) {
	if text, isText := value.(string); isText && strings.ContainsRune(text, 0) {
		return nil, errors.New("has a zero byte")
	}
	ok := false
	switch kind {
	case releases.Boolean:
		if value == "true" || value == "false" {
			return value == "true", nil
		}
		_, ok = value.(bool)
	case releases.Number:
		text, isText := value.(string)
		number, isNumber := value.(json.Number)
		ok = isText && whole.MatchString(text) || isNumber && whole.MatchString(number.String())
	case releases.List:
		items, isList := value.([]any)
		ok = isScalar(value) || isList && !slices.ContainsFunc(items, func(item any) bool { return !isScalar(item) })
	case releases.Text:
		ok = isScalar(value)
	case releases.Unknown:
		ok = true
	}
	if !ok {
		return nil, fmt.Errorf("must be %s, and is %s", kind, described(value))
	}
	return value, nil
}

func isScalar(value any) bool {
	switch value.(type) {
	case string, bool, json.Number:
		return true
	}
	return false
}

// described is a value's kind in words.
func described(value any) string {
	switch v := value.(type) {
	case string:
		return "text"
	case bool:
		return "true or false"
	case json.Number:
		return "a number"
	case map[string]any:
		return "a map"
	case []any:
		for _, item := range v {
			if !isScalar(item) {
				return "a list with " + described(item) + " in it"
			}
		}
		return "a list"
	}
	return "null"
}

// list is a setting as a list, which it may be when it is written as one text.
func (s settings) list(name string) []any {
	switch v := s[name].(type) {
	case nil:
		return nil
	case []any:
		return v
	default:
		return []any{v}
	}
}

// all returns all values of an argument; the ones that are added with + come last.
func (s settings) all(name string) []any { return slices.Concat(s.list(name), s.list(name+"+")) }

// add puts texts at the end of a list.
func (s settings) add(name string, texts ...string) {
	if len(texts) == 0 {
		return
	}
	items := slices.Clone(s.list(name))
	for _, text := range texts {
		items = append(items, text)
	}
	s[name] = items
}

// has reports whether a list has an item that begins so.
func (s settings) has(name, prefix string) bool {
	return slices.ContainsFunc(s.all(name), func(item any) bool {
		text, _ := item.(string)
		return strings.HasPrefix(text, prefix)
	})
}
