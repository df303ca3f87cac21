package userdata

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/crdgen"
)

// habits are the words of the annotation.
var habits = map[string]clouds.Habit{
	"none": clouds.None, "inline": clouds.Inline, "base64": clouds.Base64, "path": clouds.PathAtCreate, "path-early": clouds.PathEarly,
}

const maxAnnotation = 1024

var flagName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// ParseWay reads the annotation drover.cattle.io/user-data of a NodeDriver:
//
//	flag=<flag>,habit=<inline|base64|path|path-early|none>[,with=<flag>=<value>][,unless=<flag>=<value>][,excludes=<flag>][,merges=<flag>]
//
// All fields but flag and habit may be repeated. They are the fields in clouds.UserData.
func ParseWay(text string) (clouds.UserData, error) {
	var way clouds.UserData
	if len(text) > maxAnnotation {
		return way, fmt.Errorf("it is longer than %d characters", maxAnnotation)
	}
	for item := range strings.SplitSeq(text, ",") {
		if err := addItem(&way, strings.TrimSpace(item)); err != nil {
			return way, err
		}
	}
	if way.Habit == clouds.Unknown || (way.Flag == "") != (way.Habit == clouds.None) {
		return way, fmt.Errorf("it is not of the form %s; habit=none takes no flag", wayForm)
	}
	return way, nil
}

// addItem adds one item; flag and habit may occur once.
func addItem(way *clouds.UserData, item string) error {
	key, value, _ := strings.Cut(item, "=")
	name, setting, paired := strings.Cut(value, "=")
	if key != "habit" && !flagName.MatchString(name) {
		return fmt.Errorf("%q names no flag", item)
	}
	known := paired == (key == "with" || key == "unless")
	switch key {
	case "flag":
		known = known && way.Flag == ""
		way.Flag = name
	case "habit":
		known = habits[value] != clouds.Unknown && way.Habit == clouds.Unknown
		way.Habit = habits[value]
	case "with", "unless":
		pairs := map[string]*map[string]string{"with": &way.With, "unless": &way.Unless}[key]
		if *pairs == nil {
			*pairs = map[string]string{}
		}
		(*pairs)[name] = setting
	case "excludes":
		way.Excludes = append(way.Excludes, name)
	case "merges":
		way.Merges = append(way.Merges, name)
	default:
		known = false
	}
	if !known {
		return fmt.Errorf("%q is not of the form %s", item, wayForm)
	}
	return nil
}

const wayForm = "flag=<flag>,habit=<inline|base64|path|path-early|none>[,with=<flag>=<value>][,unless=<flag>=<value>][,excludes=<flag>][,merges=<flag>]"

// UnknownHabitError means that a driver has flags whose names look like user data, and Drover does
// not know the form of their values.
type UnknownHabitError struct {
	Driver string
	Flags  []string
}

// Error explains how to find out the form and where to set it.
func (e *UnknownHabitError) Error() string {
	return fmt.Sprintf("it is not known how driver %s takes user data: %s may want the text itself, base64 or the path of a file. The driver's documentation or source says it, "+
		"often its help text too (a file or path means path). Then annotate its NodeDriver: %s=flag=%s,habit=<inline|base64|path|path-early|none>",
		e.Driver, strings.Join(e.Flags, ", "), v3.UserDataAnnotation, e.Flags[0])
}

// lookalikes are parts of names that mark a flag as one for user data: rancher/machine's four
// (libmachine/drivers/drivers.go) and those in the flags of drivers that it does not recognize
// (nutanix, ionoscloud).
var lookalikes = []string{"user-data", "userdata", "custom-data", "customdata", "cloud-config", "cloudconfig", "cloud-init", "cloudinit"}

// Way finds out how a driver takes user data: from its NodeDriver's annotation, from Drover's data
// about the driver, or from an alias of the NodeDriver that makes a file of the field. A driver
// without a flag that looks like user data takes none. Anything else is an *UnknownHabitError: with
// a wrong guess a server would boot without its data and without an error.
func Way(driver, annotation string, fields []crdgen.Field) (clouds.UserData, error) {
	known := map[string]bool{}
	for _, field := range fields {
		known[field.Flag] = true
	}
	if annotation != "" {
		way, err := ParseWay(annotation)
		if err == nil {
			err = checkFlags(way, known)
		}
		if err != nil {
			return clouds.UserData{}, fmt.Errorf("the annotation %s of driver %s cannot be used: %w", v3.UserDataAnnotation, driver, err)
		}
		return way, nil
	}
	way := clouds.Of(driver).UserData
	if way.Habit == clouds.None || way.Habit != clouds.Unknown && checkFlags(way, known) == nil {
		return way, nil
	}
	// A driver that has not the flags it should have is another of the same name.
	unknown := &UnknownHabitError{Driver: driver}
	for _, field := range fields {
		if field.Type != crdgen.String || !slices.ContainsFunc(lookalikes, func(part string) bool { return strings.Contains(field.Flag, part) }) {
			continue
		}
		if field.File {
			return clouds.UserData{Habit: clouds.PathAtCreate, Flag: field.Flag}, nil
		}
		unknown.Flags = append(unknown.Flags, field.Flag)
	}
	if len(unknown.Flags) > 0 {
		return clouds.UserData{}, unknown
	}
	return clouds.UserData{Habit: clouds.None}, nil
}

func checkFlags(way clouds.UserData, known map[string]bool) error {
	var problems []error
	named := slices.Concat([]string{way.Flag}, slices.Sorted(maps.Keys(way.With)))
	for _, flag := range named {
		if flag != "" && !known[flag] {
			problems = append(problems, fmt.Errorf("the driver has no flag %s", flag))
		}
	}
	return errors.Join(problems...)
}
