package agent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/drover-project/drover/api/plan"
)

// Variables that instructions of Rancher's planner expect (§7.3).
const (
	envFolder  = "CATTLE_AGENT_EXECUTION_PWD"
	envAttempt = "CATTLE_AGENT_ATTEMPT_NUMBER"
)

const (
	// endGrace is the time that a terminated command gets to end, and the time that its children
	// get to close its output.
	endGrace = 10 * time.Second
	// instructionTimeout ends a one-time instruction that hangs, or whose registry trickles: its
	// attempt has failed. Installers wait for a distribution to start.
	instructionTimeout = time.Hour
	// maxSavedBytes is how much of each output is kept, its end, and of all that is saved together:
	// a Secret holds 1 MiB.
	maxSavedBytes = 128 << 10
	// maxLineBytes is how much of a line goes into one line of our log.
	maxLineBytes = 4 << 10
)

// Images unpacks the file system of an image into an empty folder.
type Images interface {
	Unpack(ctx context.Context, image, folder string) error
}

// Runner runs the commands of instructions.
type Runner struct {
	// Work is the folder that has one for each command while it runs.
	Work string
	// KeepWork leaves those, to look into.
	KeepWork bool
	// Env returns the environment of commands, to which the plan adds variables. It is called for
	// each command, because the files of a plan may change it.
	Env    func() []string
	Images Images
	// Timeout is how long an instruction may take; instructionTimeout or periodicTimeout when 0.
	Timeout time.Duration
	Log     logr.Logger
}

// clear removes the files of interrupted commands and terminates their processes. Without it, a
// plan that was overtaken would never do so.
func (r *Runner) clear() error {
	if r.KeepWork {
		return nil
	}
	left, err := os.ReadDir(r.Work)
	if err != nil {
		return ignoreMissing(err)
	}
	for _, folder := range left {
		path := filepath.Join(r.Work, folder.Name())
		killLeft(path)
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// outcome is the result of a command.
type outcome struct {
	stdout, stderr, both []byte
	exit                 int
}

// run runs one command in a folder of its own, into which its image is unpacked. The error says why
// it did not end with 0.
func (r *Runner) run(ctx context.Context, id string, c plan.Command, attempt int) (outcome, error) {
	none := outcome{exit: -1}
	folder := filepath.Join(r.Work, id)
	if err := os.RemoveAll(folder); err != nil {
		return none, fmt.Errorf("clearing its folder: %w", err)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return none, fmt.Errorf("making its folder: %w", err)
	}
	if !r.KeepWork {
		defer func() { _ = os.RemoveAll(folder) }()
	}
	if c.Image != "" {
		r.Log.Info("Unpacking image", "instruction", id, "image", c.Image)
		if err := r.Images.Unpack(ctx, c.Image, folder); err != nil {
			return none, fmt.Errorf("unpacking image %s: %w", c.Image, cmp.Or(context.Cause(ctx), err))
		}
	}
	argv, err := commandLine(c, folder)
	if err != nil {
		return none, err
	}
	env := slices.Concat(r.Env(), c.Env)
	path := strings.Trim(lastOf(env, "PATH")+string(os.PathListSeparator)+folder, string(os.PathListSeparator))
	env = append(env, envFolder+"="+folder, envAttempt+"="+strconv.Itoa(attempt), "PATH="+path)
	program, err := lookUp(argv[0], path)
	if err != nil {
		return none, err
	}
	r.Log.Info("Running instruction", "instruction", id, "name", c.Name, "attempt", attempt)
	cmd := exec.CommandContext(ctx, program, argv[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = folder, env, endGrace
	ownGroup(cmd)
	return r.wait(ctx, id, cmd)
}

func (r *Runner) wait(ctx context.Context, id string, cmd *exec.Cmd) (outcome, error) {
	var both tail
	stdout, stderr := &stream{also: &both, log: r.Log.WithValues("instruction", id)}, &stream{also: &both, log: r.Log.WithValues("instruction", id)}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	stdout.end()
	stderr.end()
	o := outcome{stdout: stdout.own.bytes(), stderr: stderr.own.bytes(), both: both.bytes(), exit: -1}
	if cmd.ProcessState != nil {
		o.exit = cmd.ProcessState.ExitCode()
	}
	if ctx.Err() != nil {
		killGroup(cmd)
		return o, context.Cause(ctx)
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // the command ended with 0, and one of its children holds its output open
	}
	return o, err
}

// commandLine is the program and arguments of a command: its script, its command, or the
// command of its image.
func commandLine(c plan.Command, folder string) ([]string, error) {
	if c.Script != "" {
		path := filepath.Join(folder, "script"+filepath.Ext(defaultCommand))
		if err := WriteFile(path, []byte(c.Script), 0o700); err != nil {
			return nil, fmt.Errorf("writing its script: %w", err)
		}
		if strings.HasPrefix(c.Script, "#!") {
			return append([]string{path}, c.Args...), nil
		}
		return slices.Concat(shell, []string{path}, c.Args), nil
	}
	if c.Command == "" {
		return append([]string{filepath.Join(folder, defaultCommand)}, c.Args...), nil
	}
	return append([]string{c.Command}, c.Args...), nil
}

// lookUp finds a program by the PATH that it gets, which is not ours.
func lookUp(name, path string) (string, error) {
	if strings.ContainsAny(name, `/\`) {
		return name, nil
	}
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			continue
		}
		if found, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("finding its command %q: it is neither in PATH nor in the image", name)
}

// lastOf is the value that counts of a variable.
func lastOf(env []string, name string) string {
	value := ""
	for _, variable := range env {
		if is, what, _ := strings.Cut(variable, "="); is == name {
			value = what
		}
	}
	return value
}

// tail keeps the end of an output. Two streams may write to one tail.
type tail struct {
	mu      sync.Mutex
	content []byte
}

func (t *tail) write(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.content = append(t.content, p...)
	if extra := len(t.content) - maxSavedBytes; extra > maxSavedBytes {
		t.content = append([]byte{}, t.content[extra:]...)
	}
}

func (t *tail) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.content[max(0, len(t.content)-maxSavedBytes):]
}

// stream keeps the end of an output, and hands it on and to the log, line by line; a line of any
// length is cut there, and only there.
type stream struct {
	own  tail
	also *tail
	log  logr.Logger
	line []byte
}

// Write never fails: a command must not end because its output is long.
func (s *stream) Write(p []byte) (int, error) {
	s.own.write(p)
	s.also.write(p)
	rest := p
	for len(rest) > 0 {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		room := maxLineBytes - len(s.line)
		if len(line) > room {
			ended, line, after = true, line[:room], rest[room:]
		}
		s.line = append(s.line, line...)
		if ended {
			s.end()
		}
		rest = after
	}
	return len(p), nil
}

// end logs a last line that has no line end.
func (s *stream) end() {
	if len(s.line) > 0 {
		s.log.Info("Output", "line", string(s.line))
	}
	s.line = s.line[:0]
}
