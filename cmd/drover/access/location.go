package access

import (
	"errors"
	"strings"
)

// Location is one side of a copy: a path here, or a path on a machine's server.
type Location struct {
	// Machine is empty for a path here.
	Machine string
	Path    string
}

// ParseLocation reads NAME:path; what has no colon, or a slash before it, is a path here.
func ParseLocation(text string) (Location, error) {
	machine, path, qualified := strings.Cut(text, ":")
	// kind/NAME is a machine, any other slash before the colon makes it a path.
	if !qualified || strings.IndexAny(text, "./") == 0 || strings.Count(machine, "/") > 1 {
		if text == "" {
			return Location{}, errors.New("a path is empty")
		}
		return Location{Path: text}, nil
	}
	if machine == "" {
		return Location{}, errors.New("a machine's name is missing before the colon in " + text)
	}
	path = strings.TrimPrefix(path, "~/")
	if path == "" || path == "~" {
		path = "."
	}
	return Location{Machine: machine, Path: path}, nil
}

// Copy is what to copy where; all sources are here, or all on servers.
type Copy struct {
	Sources     []Location
	Destination Location
	Recursive   bool
	// Note is told what is left out, and why; may be nil.
	Note func(error)
}

// ParseCopy reads the arguments of a copy.
func ParseCopy(args []string, recursive bool) (Copy, error) {
	if len(args) < 2 {
		return Copy{}, errors.New("a source and a destination are needed")
	}
	c := Copy{Recursive: recursive}
	for i, arg := range args {
		location, err := ParseLocation(arg)
		if err != nil {
			return Copy{}, err
		}
		if i == len(args)-1 {
			c.Destination = location
			break
		}
		c.Sources = append(c.Sources, location)
	}
	for _, source := range c.Sources {
		if (source.Machine == "") == (c.Destination.Machine == "") {
			return Copy{}, errors.New("either the sources or the destination are on a machine, written NAME:path, and not both")
		}
	}
	return c, nil
}
