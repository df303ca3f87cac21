package apply

import (
	"reflect"
	"slices"
)

// contains reports whether live has everything that desired has. Lists must have the same items.
// Maps of live may have more keys, because the server sets defaults, and may lack zero values,
// which the server omits. Numbers may be of different Go types.
func contains(live, desired any) bool {
	switch want := desired.(type) {
	case map[string]any:
		return containsMap(live, want)
	case []any:
		have, ok := live.([]any)
		return (ok || live == nil) && slices.EqualFunc(have, want, contains)
	}
	if live == nil {
		return desired == nil || reflect.ValueOf(desired).IsZero()
	}
	have, ok := number(live)
	want, isNumber := number(desired)
	return live == desired || ok && isNumber && have == want
}

func containsMap(live any, want map[string]any) bool {
	have, ok := live.(map[string]any)
	if !ok && (len(want) > 0 || live != nil) {
		return false
	}
	for key, item := range want {
		matches := contains
		if key == "ownerReferences" {
			matches = containsOwners
		}
		if !matches(have[key], item) {
			return false
		}
	}
	return true
}

// containsOwners reports whether live has every desired owner, in any order and among others:
// controllers add their own. The API server merges this list by the UID.
func containsOwners(live, desired any) bool {
	have, _ := live.([]any)
	want, _ := desired.([]any)
	for _, owner := range want {
		if !slices.ContainsFunc(have, func(one any) bool { return contains(one, owner) }) {
			return false
		}
	}
	return true
}

func number(value any) (float64, bool) {
	switch n := value.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}
