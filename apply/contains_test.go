package apply

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestContains(t *testing.T) {
	type m = map[string]any
	tests := []struct {
		name          string
		live, desired any
		want          bool
	}{
		{"server filled in a default", m{"a": "b", "c": "d"}, m{"a": "b"}, true},
		{"value differs", m{"a": "b"}, m{"a": "c"}, false},
		{"key is missing", m{}, m{"a": "c"}, false},
		{"zero values are left out by the server", m{}, m{"a": "", "b": false, "c": int64(0), "d": m{}, "e": []any{}}, true},
		{"numbers of two Go types", m{"a": int64(3)}, m{"a": float64(3)}, true},
		{"numbers differ", m{"a": int64(3)}, m{"a": int64(4)}, false},
		{"a default inside a list's item", m{"a": []any{m{"x": "1", "y": "2"}}}, m{"a": []any{m{"x": "1"}}}, true},
		{"a list has one item more", m{"a": []any{"1", "2"}}, m{"a": []any{"1"}}, false},
		{"a map where a string is wanted", m{"a": m{}}, m{"a": "x"}, false},
		{"other owners", m{"ownerReferences": []any{m{"uid": "2"}, m{"uid": "1", "controller": true}}}, m{"ownerReferences": []any{m{"uid": "1"}}}, true},
		{"an owner is missing", m{"ownerReferences": []any{m{"uid": "2"}}}, m{"ownerReferences": []any{m{"uid": "1"}}}, false},
		{"a string where a map is wanted", m{"a": "x"}, m{"a": m{}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, contains(tt.live, tt.desired))
		})
	}
}

func TestPrune(t *testing.T) {
	obj := map[string]any{"metadata": map[string]any{"creationTimestamp": nil, "name": "x"}, "list": []any{map[string]any{"a": nil}}}
	prune(obj)
	require.Equal(t, map[string]any{"metadata": map[string]any{"name": "x"}, "list": []any{map[string]any{}}}, obj)
}
