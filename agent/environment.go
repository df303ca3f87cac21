package agent

import (
	"errors"
	"io/fs"
	"slices"
	"sync"

	"github.com/go-logr/logr"

	"github.com/drover-project/drover/api/plan"
)

// maxEnvironmentBytes bounds the environment file. The variables of a control plane have 64 KiB, and
// escapes at most double them.
const maxEnvironmentBytes = 256 << 10

// Environment is the agent's environment: the variables that it was started with, and the variables
// of its environment file. A plan may write this file at any time.
type Environment struct {
	file    string
	started []string
	log     logr.Logger

	mu sync.Mutex
	// known are the variables of the file when it was last readable.
	known []string
	// failed is the last error of reading the file, which is logged once.
	failed string
}

// NewEnvironment reads the environment file. systemd has put the variables of the file into the
// environment that the agent was started with. They are left out there, because otherwise a
// variable that a plan removes would stay.
func NewEnvironment(file string, started []string, log logr.Logger) *Environment {
	e := &Environment{file: file, log: log}
	ours := e.read()
	e.started = slices.DeleteFunc(slices.Clone(started), func(v string) bool { return slices.Contains(ours, v) })
	return e
}

// Variables returns the environment of now, as NAME=value. If the file cannot be read, the variables
// of its last reading count.
func (e *Environment) Variables() []string { return slices.Concat(e.started, e.read()) }

// Get returns the value of the first of these variables that is set and not empty.
func (e *Environment) Get(names ...string) string {
	all := e.Variables()
	for _, name := range names {
		if value := lastOf(all, name); value != "" {
			return value
		}
	}
	return ""
}

func (e *Environment) read() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	content, err := ReadBounded(e.file, maxEnvironmentBytes)
	if errors.Is(err, fs.ErrNotExist) {
		content, err = nil, nil
	}
	var variables []plan.EnvVar
	if err == nil {
		variables, err = plan.DecodeEnvironment(content)
	}
	if err != nil {
		if text := err.Error(); text != e.failed {
			e.failed = text
			e.log.Error(err, "The environment file cannot be read; its last variables are used", "path", e.file)
		}
		return e.known
	}
	e.failed, e.known = "", nil
	for _, v := range variables {
		e.known = append(e.known, v.Name+"="+v.Value)
	}
	return e.known
}
