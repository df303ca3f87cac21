package crdgen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Change is a field that a new schema breaks for existing objects, described to a user.
type Change struct{ Field, What string }

// Incompatible lists by name the fields of old that next drops, retypes or gives another meaning.
// It allows new fields, and other flags, help texts and defaults.
func Incompatible(old, next []Field) []Change {
	byName := make(map[string]Field, len(next))
	for _, field := range next {
		byName[field.Name] = field
	}
	meaning := map[bool]string{true: "content", false: "path"} // of a field that is a file, or not
	var changes []Change
	for _, was := range old {
		is, ok := byName[was.Name]
		switch {
		case !ok:
			// The API server would prune it from every object.
			changes = append(changes, Change{was.Name, fmt.Sprintf("%s (%s) is dropped", was.Name, was.Type)})
		case is.Type != was.Type:
			// Stored values no longer fit the schema, and the object could not be updated.
			changes = append(changes, Change{was.Name, fmt.Sprintf("%s is retyped from %s to %s", was.Name, was.Type, is.Type)})
		case is.File != was.File:
			changes = append(changes, Change{was.Name, fmt.Sprintf("%s is reinterpreted from %s to %s", was.Name, meaning[was.File], meaning[is.File])})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Field, b.Field) })
	return changes
}

// IsDefault reports whether a config may have the value from the API server, which fills in
// defaults.
func (f Field) IsDefault(value any) bool {
	if !f.hasSchemaDefault() {
		return false
	}
	has, err := json.Marshal(value)
	written, wrong := json.Marshal(f.configDefault())
	return err == nil && wrong == nil && bytes.Equal(has, written)
}
