package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Self as a Path runs the running executable again, even when its file has
// been replaced since.
const Self = "/proc/self/exe"

// Spec says how to run one component.
type Spec struct {
	// Name identifies the component in messages; unique in a Supervisor.
	Name string
	// Path is the executable and Args its arguments, without argv[0].
	Path string
	Args []string
	// Env is added to the environment of the parent, whose proxy settings are
	// left out: components speak to each other and to pods, directly.
	Env []string
	// Log is the file that stdout and stderr are appended to.
	Log string
	// Restart runs the component again when it ends by itself. Without it the
	// end of the component is the end of the whole.
	Restart bool
}

const (
	// restartDelay keeps a component that dies at once from spinning.
	restartDelay = time.Second
	// restartLimit is how often a component may die within restartWindow.
	restartLimit  = 5
	restartWindow = time.Minute
)

// Supervisor runs components until it is told to stop.
type Supervisor struct {
	spawn *spawner
	fail  chan error
	delay time.Duration

	mu       sync.Mutex
	order    []string
	children map[string]*child
}

type child struct {
	spec    Spec
	stop    chan struct{}
	stopped chan struct{}

	mu      sync.Mutex
	cmd     *exec.Cmd
	running bool
}

// New returns a Supervisor without components.
func New() *Supervisor {
	return &Supervisor{spawn: newSpawner(), fail: make(chan error, 1), delay: restartDelay, children: map[string]*child{}}
}

// Failed delivers the first unexpected end of a component that is not
// restarted, or dies again and again.
func (s *Supervisor) Failed() <-chan error { return s.fail }

// Start runs a component; the error is about starting it, not about its end.
func (s *Supervisor) Start(spec Spec) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.children[spec.Name] != nil {
		return fmt.Errorf("starting %s: it has been started already", spec.Name)
	}
	c := &child{spec: spec, stop: make(chan struct{}), stopped: make(chan struct{})}
	if err := s.launch(c); err != nil {
		return err
	}
	s.children[spec.Name] = c
	s.order = append(s.order, spec.Name)
	go s.watch(c)
	return nil
}

func (s *Supervisor) launch(c *child) error {
	log, err := openLog(c.spec.Log)
	if err != nil {
		return fmt.Errorf("starting %s: %w", c.spec.Name, err)
	}
	cmd := exec.Command(c.spec.Path, c.spec.Args...)
	if c.spec.Path == Self {
		cmd.Args[0] = filepath.Base(os.Args[0])
	}
	cmd.Env = append(environment(os.Environ()), c.spec.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := s.spawn.start(cmd); err != nil {
		return errors.Join(fmt.Errorf("starting %s: %w", c.spec.Name, err), log.Close())
	}
	c.cmd, c.running = cmd, true
	return log.Close()
}

// watch waits for the component's end and decides what it means.
func (s *Supervisor) watch(c *child) {
	defer close(c.stopped)
	var ends []time.Time
	for {
		err := c.wait()
		if c.stopping() {
			return
		}
		ends = slices.DeleteFunc(append(ends, time.Now()), func(end time.Time) bool { return time.Since(end) > restartWindow })
		if !c.spec.Restart || len(ends) > restartLimit {
			s.report(c, err)
			return
		}
		select {
		case <-c.stop:
			return
		case <-time.After(s.delay):
		}
		if err := s.launch(c); err != nil {
			s.report(c, err)
			return
		}
		if c.stopping() { // Stop may have signalled the run before this one
			c.signal(syscall.SIGKILL)
		}
	}
}

func (s *Supervisor) report(c *child, cause error) {
	if cause == nil {
		cause = errors.New("exit status 0")
	}
	err := fmt.Errorf("%s ended: %w\n%slast lines of %s:\n%s", c.spec.Name, cause, diskFull(filepath.Dir(c.spec.Log)), c.spec.Log, Tail(c.spec.Log, 8))
	select {
	case s.fail <- err:
	default:
	}
}

// diskFull says so when a directory's file system is: a component that ended
// for want of space could not write that to its log either.
func diskFull(dir string) string {
	const enough = 1 << 20
	var state unix.Statfs_t
	if err := unix.Statfs(dir, &state); err != nil || state.Bavail*uint64(max(state.Bsize, 1)) >= enough {
		return ""
	}
	return "no space is left on the file system of " + dir + "\n"
}

// Stop ends one component: SIGTERM, then SIGKILL after the grace time. It does
// nothing for a component that does not run.
func (s *Supervisor) Stop(name string, grace time.Duration) {
	s.mu.Lock()
	c := s.children[name]
	delete(s.children, name)
	s.order = slices.DeleteFunc(s.order, func(other string) bool { return other == name })
	s.mu.Unlock()
	if c == nil {
		return
	}
	close(c.stop)
	if grace > 0 {
		c.signal(syscall.SIGTERM)
		select {
		case <-c.stopped:
			return
		case <-time.After(grace):
		}
	}
	c.signal(syscall.SIGKILL)
	<-c.stopped
}

// StopAll ends all components, the last started first.
func (s *Supervisor) StopAll(grace time.Duration) {
	s.mu.Lock()
	order := append([]string(nil), s.order...)
	s.mu.Unlock()
	for _, name := range slices.Backward(order) {
		s.Stop(name, grace)
	}
}

// Processes maps the running components to their process ids.
func (s *Supervisor) Processes() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	pids := map[string]int{}
	for name, c := range s.children {
		c.mu.Lock()
		if c.running {
			pids[name] = c.cmd.Process.Pid
		}
		c.mu.Unlock()
	}
	return pids
}

// wait waits for the present run's end.
func (c *child) wait() error {
	c.mu.Lock()
	cmd := c.cmd
	c.mu.Unlock()
	err := cmd.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
	return err
}

func (c *child) stopping() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

func (c *child) signal(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.cmd.Process.Signal(sig) // it may have ended by itself
}

// environment leaves out the proxy settings.
func environment(all []string) []string {
	return slices.DeleteFunc(all, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return strings.HasSuffix(strings.ToLower(name), "_proxy")
	})
}
