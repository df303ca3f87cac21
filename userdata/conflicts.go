package userdata

import (
	"fmt"
	"maps"
	"slices"

	"github.com/drover-project/drover/clouds"
)

// Conflict is an option that cannot be used together with the bootstrap data.
type Conflict struct {
	// Flag is the option's flag.
	Flag string
	// Why names the reason and the way on.
	Why string
}

// Passes reports whether a driver passes user data on to the server. values are its flags' values,
// with defaults.
func Passes(way clouds.UserData, values map[string]any) bool {
	for flag, value := range way.Unless {
		if fmt.Sprint(values[flag]) == value {
			return false
		}
	}
	return way.Flag != ""
}

// Conflicts returns the options that a user may not set because the driver passes the bootstrap
// data on as way describes. They conflict without bootstrap data too: Drover passes the user's own
// data on in the same way. options and files are those that the user set, by flag; name returns the
// name by which the user knows a flag.
func Conflicts(driver string, way clouds.UserData, options map[string]any, files map[string][]byte, name func(flag string) string) []Conflict {
	var out []Conflict
	for _, flag := range way.Excludes {
		if isSet(options[flag]) || len(files[flag]) > 0 {
			out = append(out, Conflict{flag, fmt.Sprintf("driver %s does not support this option together with %s, which carries the bootstrap data: put your user data into %s, and Drover merges both",
				driver, name(way.Flag), name(way.Flag))})
		}
	}
	for _, flag := range slices.Sorted(maps.Keys(way.With)) {
		if given := options[flag]; given != nil && fmt.Sprint(given) != way.With[flag] {
			out = append(out, Conflict{flag, fmt.Sprintf("must be %s or unset: with another value, driver %s interprets the bootstrap data in %s differently",
				way.With[flag], driver, name(way.Flag))})
		}
	}
	isPath := way.Habit == clouds.PathAtCreate || way.Habit == clouds.PathEarly
	if text, _ := options[way.Flag].(string); isPath && len(files[way.Flag]) == 0 && Detect([]byte(text)) == Opaque {
		out = append(out, Conflict{way.Flag, "must hold user data, not the path of a file"})
	}
	return out
}

// isSet reports whether an option has a value that a driver takes for user data.
func isSet(value any) bool {
	switch v := value.(type) {
	case string:
		return v != ""
	case bool:
		return v
	case []string:
		return len(v) > 0
	}
	return false
}
