package crdgen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// ChangeKind says how a field of an old schema fares in a new one.
type ChangeKind string

// Changes that objects with the field would suffer from.
const (
	// Dropped: the field is gone, and the API server would prune it from every object.
	Dropped ChangeKind = "dropped"
	// Retyped: stored values no longer fit the schema, and the object could not be updated.
	Retyped ChangeKind = "retyped"
	// Reinterpreted: content became a path, or a path content.
	Reinterpreted ChangeKind = "reinterpreted"
)

// Change is one field that a new schema breaks.
type Change struct {
	Field string
	Kind  ChangeKind
	// From and To are the types, or "content" and "path"; To is empty for Dropped.
	From, To string
}

// String tells the change to a user.
func (c Change) String() string {
	if c.Kind == Dropped {
		return fmt.Sprintf("%s (%s) is dropped", c.Field, c.From)
	}
	return fmt.Sprintf("%s is %s from %s to %s", c.Field, c.Kind, c.From, c.To)
}

// Incompatible lists the fields of old that next drops, retypes or gives another meaning, by name. New fields, other flags,
// help texts and defaults are no hindrance.
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
			changes = append(changes, Change{Field: was.Name, Kind: Dropped, From: string(was.Type)})
		case is.Type != was.Type:
			changes = append(changes, Change{Field: was.Name, Kind: Retyped, From: string(was.Type), To: string(is.Type)})
		case is.File != was.File:
			changes = append(changes, Change{Field: was.Name, Kind: Reinterpreted, From: meaning[was.File], To: meaning[is.File]})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Field, b.Field) })
	return changes
}

// FieldsInUse counts, for each key, the specs that give it a value; null, "", false and empty lists count too, because a
// user wrote them. A machine's spec and a config's whole object are both fit.
func FieldsInUse(specs ...map[string]any) map[string]int {
	used := map[string]int{}
	for _, spec := range specs {
		for name := range spec {
			if !topLevelNames[name] {
				used[name]++
			}
		}
	}
	return used
}

// IsDefault tells whether a config may have the value from the API server, which writes in what nobody gave.
func (f Field) IsDefault(value any) bool {
	if !f.hasSchemaDefault() {
		return false
	}
	has, err := json.Marshal(value)
	written, wrong := json.Marshal(f.configDefault())
	return err == nil && wrong == nil && bytes.Equal(has, written)
}
