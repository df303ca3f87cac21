package process

import (
	"slices"
	"strings"
)

// Overlay joins arguments of the form name=value. What stands in one of the later lists takes the place of all of that name before.
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
