package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Limits of a plan. MaxBytes is the capacity of a Secret; the others are far above any plan that a
// planner makes.
const (
	MaxBytes        = 1 << 20
	MaxFiles        = 1024
	MaxInstructions = 128
	MaxProbes       = 64
	MaxArguments    = 512
	maxName         = 253
	maxPath         = 4096
	maxSeconds      = 7 * 24 * 3600
	maxID           = 1<<31 - 1
)

// Decode reads a plan and checks all of it, so that the first step of a plan is not done when the
// last cannot be. Fields it does not know are passed over: a newer planner may have them.
func Decode(raw []byte) (Plan, error) {
	var p Plan
	if len(raw) > MaxBytes {
		return p, fmt.Errorf("decoding a plan of %d bytes: at most %d are read", len(raw), MaxBytes)
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return Plan{}, fmt.Errorf("decoding a plan: %w", err)
	}
	if err := p.Validate(); err != nil {
		return Plan{}, fmt.Errorf("checking a plan: %w", err)
	}
	return p, nil
}

// Validate runs the checks of Decode, for planners that check a plan before they deliver it.
func (p Plan) Validate() error {
	for _, count := range []struct {
		what   string
		is, at int
	}{
		{"files", len(p.Files), MaxFiles},
		{"instructions", len(p.Instructions), MaxInstructions},
		{"periodic instructions", len(p.PeriodicInstructions), MaxInstructions},
		{"probes", len(p.Probes), MaxProbes},
	} {
		if count.is > count.at {
			return fmt.Errorf("it has %d %s, more than %d", count.is, count.what, count.at)
		}
	}
	var errs []error
	for i, file := range p.Files {
		errs = append(errs, at("file", i, file.Path, file.validate()))
	}
	for i, instruction := range p.Instructions {
		errs = append(errs, at("instruction", i, instruction.Name, instruction.validate()))
	}
	names := map[string]bool{"": true}
	for i, instruction := range p.PeriodicInstructions {
		err := errors.Join(instruction.validate(), seconds("periodSeconds", instruction.PeriodSeconds))
		if names[instruction.Name] {
			err = errors.Join(err, errors.New("it needs a name of its own"))
		}
		names[instruction.Name] = true
		errs = append(errs, at("periodic instruction", i, instruction.Name, err))
	}
	for name, probe := range p.Probes {
		errs = append(errs, at("probe", 0, name, errors.Join(nameOf(name), probe.validate())))
	}
	return errors.Join(errs...)
}

func at(what string, index int, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %d (%.200q): %w", what, index, name, err)
}

func (f File) validate() error {
	if !isAbsolute(f.Path) || len(f.Path) > maxPath || strings.ContainsRune(f.Path, 0) {
		return errors.New("its path is not absolute, or longer than a path can be")
	}
	if slices.Contains(strings.FieldsFunc(f.Path, func(r rune) bool { return r == '/' || r == '\\' }), "..") {
		return errors.New("its path has .. in it")
	}
	if f.Action != "" && f.Action != ActionDelete {
		return fmt.Errorf("its action %.40q is not known", f.Action)
	}
	if f.UID < -1 || f.GID < -1 || f.UID > maxID || f.GID > maxID {
		return errors.New("its owner is not a valid user or group ID")
	}
	if _, err := f.Mode(); err != nil {
		return err
	}
	if f.Directory && f.Content != "" {
		return errors.New("a directory has no content")
	}
	_, err := f.Bytes()
	return err
}

// isAbsolute reports whether a path is absolute on Linux, or on Windows with a drive.
func isAbsolute(path string) bool {
	if strings.HasPrefix(path, "/") {
		return true
	}
	return len(path) > 2 && path[1] == ':' && (path[2] == '/' || path[2] == '\\')
}

// Modes of files and directories that say none, as system-agent has them.
const (
	DefaultFileMode      = 0o600
	DefaultDirectoryMode = 0o755
)

// Mode parses Permissions.
func (f File) Mode() (uint32, error) {
	switch {
	case f.Permissions != "":
		mode, err := strconv.ParseUint(f.Permissions, 8, 12)
		if err != nil || mode > 0o777 {
			return 0, fmt.Errorf("its permissions %.40q are not octal, or more than 0777", f.Permissions)
		}
		return uint32(mode), nil
	case f.Directory:
		return DefaultDirectoryMode, nil
	}
	return DefaultFileMode, nil
}

func (c Command) validate() error {
	if len(c.Env) > MaxArguments || len(c.Args) > MaxArguments {
		return fmt.Errorf("it has more than %d arguments or variables", MaxArguments)
	}
	for _, variable := range c.Env {
		if strings.Index(variable, "=") < 1 || strings.ContainsRune(variable, 0) {
			return errors.New("a variable of its environment is not NAME=value")
		}
	}
	for _, arg := range append([]string{c.Command, c.Image}, c.Args...) {
		if strings.ContainsRune(arg, 0) {
			return errors.New("there is a zero byte in its command")
		}
	}
	return nameOf(c.Name)
}

func nameOf(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("its name is longer than %d bytes", maxName)
	}
	return nil
}

func (p Probe) validate() error {
	return errors.Join(seconds("initialDelaySeconds", p.InitialDelaySeconds), seconds("timeoutSeconds", p.TimeoutSeconds),
		seconds("successThreshold", p.SuccessThreshold), seconds("failureThreshold", p.FailureThreshold))
}

func seconds(what string, n int) error {
	if n < 0 || n > maxSeconds {
		return fmt.Errorf("its %s of %d is not from 0 to %d", what, n, maxSeconds)
	}
	return nil
}
