package process

import (
	"slices"
	"strings"
)

// Overlay joins arguments of the form name=value. The values in a later list replace all earlier
// values of the same name.
func Overlay(lists ...[]string) []string {
	nameOf := func(argument string) string {
		name, _, _ := strings.Cut(argument, "=")
		return name
	}
	var all []string
	for _, list := range lists {
		all = slices.DeleteFunc(all, func(argument string) bool {
			return slices.ContainsFunc(list, func(later string) bool { return nameOf(later) == nameOf(argument) })
		})
		all = append(all, list...)
	}
	return all
}

// Flags are overlaid arguments as they stand in a command line.
func Flags(lists ...[]string) []string {
	all := Overlay(lists...)
	for i := range all {
		all[i] = "--" + all[i]
	}
	return all
}
