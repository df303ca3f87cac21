package access

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// location is one argument of a copy: a local path, or a path on a machine's server.
type location struct {
	// machine is empty for a local path.
	machine string
	path    string
}

// parseLocation reads NAME:path or KIND/NAME:path; everything else is a local path.
func parseLocation(text string) (location, error) {
	machine, path, qualified := strings.Cut(text, ":")
	if !qualified || strings.IndexAny(text, "./") == 0 || strings.Count(machine, "/") > 1 {
		if text == "" {
			return location{}, errors.New("a path is empty")
		}
		return location{path: text}, nil
	}
	if machine == "" {
		return location{}, errors.New("a machine's name is missing before the colon in " + text)
	}
	return location{machine: machine, path: path}, nil
}

// scpArgument is the location as scp reads it; alias stands for the machine.
func (l location) scpArgument(alias string) string {
	if l.machine != "" {
		return alias + ":" + l.path
	}
	// scp would take these local paths for an option or for a path on another host.
	before, _, colon := strings.Cut(l.path, ":")
	if strings.HasPrefix(l.path, "-") || colon && !strings.Contains(before, "/") {
		return "./" + l.path
	}
	return l.path
}

// Copy is a copy between this computer and one machine's server.
type Copy struct {
	// Machine is the machine as the user named it.
	Machine string

	recursive bool
	options   []string
	locations []location
}

// ParseCopy reads the sources and the destination of a copy. Options are passed to scp unchanged.
func ParseCopy(paths, options []string, recursive bool) (Copy, error) {
	if len(paths) < 2 {
		return Copy{}, errors.New("a source and a destination are needed")
	}
	c := Copy{recursive: recursive, options: options}
	for _, text := range paths {
		at, err := parseLocation(text)
		if err != nil {
			return Copy{}, err
		}
		c.locations = append(c.locations, at)
	}
	destination := c.locations[len(c.locations)-1]
	for _, source := range c.locations[:len(c.locations)-1] {
		if (source.machine == "") == (destination.machine == "") {
			return Copy{}, errors.New("either the sources or the destination are on a machine, written NAME:path, and not both")
		}
		machine := source.machine + destination.machine
		if c.Machine != "" && c.Machine != machine {
			return Copy{}, errors.New("all sources must be on the same machine: copy from one machine at a time")
		}
		c.Machine = machine
	}
	return c, nil
}

// CheckLocal reports a local source that does not exist, before a login.
func (c Copy) CheckLocal() error {
	for _, source := range c.locations[:len(c.locations)-1] {
		if source.machine != "" {
			continue
		}
		if _, err := os.Stat(source.path); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the local file %s does not exist", source.path)
		}
	}
	return nil
}

// Args are the arguments of scp; alias stands for the machine.
func (c Copy) Args(alias string) []string {
	var args []string
	if c.recursive {
		args = append(args, "-r")
	}
	args = append(args, c.options...)
	args = append(args, "--")
	for _, at := range c.locations {
		args = append(args, at.scpArgument(alias))
	}
	return args
}
