package apply

import (
	"reflect"
)

// contains tells whether live has everything that desired has. Lists must have the same items; maps of live may have more
// keys, for the server fills in defaults.
func contains(live, desired any) bool {
	switch want := desired.(type) {
	case map[string]any:
		have, ok := live.(map[string]any)
		return (ok || len(want) == 0 && live == nil) && containsMap(have, want)
	case []any:
		have, ok := live.([]any)
		return (ok || len(want) == 0 && live == nil) && containsList(have, want)
	}
	return sameScalar(live, desired)
}

func containsMap(live, desired map[string]any) bool {
	for key, want := range desired {
		if !contains(live[key], want) {
			return false
		}
	}
	return true
}

func containsList(live, desired []any) bool {
	if len(live) != len(desired) {
		return false
	}
	for i := range desired {
		if !contains(live[i], desired[i]) {
			return false
		}
	}
	return true
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
