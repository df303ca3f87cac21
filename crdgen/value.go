package crdgen

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Value converts a JSON, YAML or Go value for a flag of this type to string, int64, bool or
// []string, or to nil if no value is given. An integer may be a text. Errors do not quote the
// value, which may be secret.
func (t FlagType) Value(given any) (any, error) {
	switch {
	case !slices.Contains([]FlagType{String, Int, Bool, StringSlice}, t):
		return nil, fmt.Errorf("the type %q is not one of string, int, bool, stringSlice", t)
	case given == nil:
		return nil, nil
	}
	switch t {
	case String:
		text, ok := given.(string)
		if !ok {
			return nil, fmt.Errorf("must be a string, is a %s", jsonType(given))
		}
		if text == "" {
			return nil, nil
		}
		return text, nil
	case Int:
		return toInt(given)
	case Bool:
		if _, ok := given.(bool); !ok {
			return nil, fmt.Errorf("must be true or false, is a %s", jsonType(given))
		}
		return given, nil
	case StringSlice:
	}
	items, err := toStrings(given)
	if err != nil || len(items) == 0 {
		return nil, err
	}
	return items, nil
}

// Parse is Value of a text, as an environment variable has it: a list has commas.
func (t FlagType) Parse(text string) (any, error) {
	switch {
	case text == "":
		return nil, nil
	case t == Int:
		return toInt(strings.TrimSpace(text))
	case t == StringSlice:
		return strings.Split(text, ","), nil
	case t == Bool:
		value, err := strconv.ParseBool(text)
		if err != nil {
			return nil, errors.New("must be true or false")
		}
		return value, nil
	}
	return t.Value(text)
}

func toInt(given any) (any, error) {
	kind, text := jsonType(given), fmt.Sprint(given)
	switch value := given.(type) {
	case string:
		if kind = "string that is not one"; value == "" {
			return nil, nil
		}
	case float64:
		if math.Abs(value) <= 1<<53 { // beyond that a float cannot hold every integer
			text = strconv.FormatFloat(value, 'f', -1, 64)
		}
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("must be an integer, is a %s", kind)
	}
	return number, nil
}

func toStrings(given any) ([]string, error) {
	switch items := given.(type) {
	case []string:
		return slices.Clone(items), nil
	case []any:
		out := make([]string, 0, len(items))
		for i, item := range items {
			text, ok := item.(string)
			if !ok {
				return nil, fmt.Errorf("must be a list of strings: item %d is not a string but a %s", i, jsonType(item))
			}
			out = append(out, text)
		}
		return out, nil
	}
	return nil, fmt.Errorf("must be a list of strings: not a list of strings but a %s", jsonType(given))
}

// normalDefault returns a flag's default, or nil for the zero value: a driver's flag cannot
// distinguish "no default" from zero.
func normalDefault(t FlagType, given any) (any, error) {
	value, err := t.Value(given)
	if err != nil {
		return nil, fmt.Errorf("the default: %w", err)
	}
	text, _ := value.(string)
	items, _ := value.([]string)
	switch {
	case value == false, value == int64(0):
		return nil, nil
	case len(text) > maxDefaultLength:
		return nil, fmt.Errorf("the default has %d bytes, at most %d are accepted", len(text), maxDefaultLength)
	case len(items) > maxDefaultItems:
		return nil, fmt.Errorf("the default has %d items, at most %d are accepted", len(items), maxDefaultItems)
	}
	for _, item := range items {
		if len(item) > maxDefaultLength {
			return nil, fmt.Errorf("an item of the default has %d bytes, at most %d are accepted", len(item), maxDefaultLength)
		}
	}
	return value, nil
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
