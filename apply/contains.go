package apply

import (
	"reflect"
	"slices"
)

// contains tells whether live has everything that desired has. Lists must have the same items; maps of live may have more
// keys, for the server fills in defaults.
func contains(live, desired any) bool {
	switch want := desired.(type) {
	case map[string]any:
		have, ok := live.(map[string]any)
		if !ok && (len(want) > 0 || live != nil) {
			return false
		}
		for key, item := range want {
			if !contains(have[key], item) {
				return false
			}
		}
		return true
	case []any:
		have, ok := live.([]any)
		return (ok || live == nil) && slices.EqualFunc(have, want, contains)
	}
	return sameScalar(live, desired)
}

// sameScalar holds numbers of different Go types for the same, and a zero value for one that is not there: the server
// leaves those out.
func sameScalar(live, desired any) bool {
	if live == desired {
		return true
	}
	if live == nil {
		return reflect.ValueOf(desired).IsZero()
	}
	have, ok := number(live)
	want, isNumber := number(desired)
	return ok && isNumber && have == want
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
