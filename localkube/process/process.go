package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Self as a Path runs the running executable again, even when its file has
// been replaced since.
const Self = "/proc/self/exe"

// Spec says how to run one component.
type Spec struct {
	// Name identifies the component in messages.
	Name string
	// Path is the executable and Args its arguments, without argv[0]. The environment is the
	// parent's without the proxy settings, because components connect to each other and to pods
	// directly, and without systemd's notification socket, because only the parent reports
	// readiness.
	Path string
	Args []string
	// Log is the file that stdout and stderr are appended to.
	Log string
	// Restart runs the component again if it ends unexpectedly. Without it the end of the component
	// ends the Supervisor.
	Restart bool
}

const (
	// restartDelay keeps a component that dies at once from spinning.
	restartDelay = time.Second
	// restartLimit is how often a component may die before it has lived for restartWindow.
	restartLimit  = 5
	restartWindow = time.Minute
	// portGrace is how long a port may stay taken: the children of a server that
	// was killed are buried by the kernel a moment after its lock.
	portGrace = 3 * time.Second
)

// Supervisor runs components until it is stopped.
type Supervisor struct {
	fail   chan error
	thread chan func()

	mu       sync.Mutex
	children []*child
}

type child struct {
	spec    Spec
	stop    chan struct{}
	stopped chan struct{}

	mu  sync.Mutex
	cmd *exec.Cmd
}

// New returns a Supervisor without components.
func New() *Supervisor {
	s := &Supervisor{fail: make(chan error, 1), thread: make(chan func())}
	go func() {
		// The kernel sends the parent-death signal when the thread that started a child ends, so
		// one that never does starts them all.
		runtime.LockOSThread()
		for start := range s.thread {
			start()
		}
	}()
	return s
}

// Run calls a start function with a time limit, reports readiness, and waits until the context
// ends, which is not an error, or until a component fails: it ends unexpectedly without Restart, or
// dies repeatedly.
func (s *Supervisor) Run(ctx context.Context, limit time.Duration, start func(context.Context) error, ready func() error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-s.fail:
			cancel(err)
		case <-ctx.Done():
		}
	}()
	starting, stop := context.WithTimeoutCause(ctx, limit, errors.New("not ready within "+limit.String()))
	err := start(starting)
	stop()
	if err == nil {
		if err := ready(); err != nil {
			return fmt.Errorf("reporting readiness: %w", err)
		}
		<-ctx.Done()
	}
	if ctx.Err() != nil { // a component has failed, or this was wished
		err = context.Cause(ctx)
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Fail reports the failure of something other than a component.
func (s *Supervisor) Fail(err error) {
	select {
	case s.fail <- err:
	default: // the first end is the reason of all others
	}
}

// Start runs a component; the error is about starting it, not about its end.
func (s *Supervisor) Start(spec Spec) error {
	c := &child{spec: spec, stop: make(chan struct{}), stopped: make(chan struct{})}
	if err := s.launch(c); err != nil {
		return fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	s.mu.Lock()
	s.children = append(s.children, c)
	s.mu.Unlock()
	go s.watch(c)
	return nil
}

func (s *Supervisor) launch(c *child) error {
	if err := os.MkdirAll(filepath.Dir(c.spec.Log), 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(c.spec.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(c.spec.Path, c.spec.Args...)
	if c.spec.Path == Self {
		cmd.Args[0] = filepath.Base(os.Args[0])
	}
	cmd.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return strings.HasSuffix(strings.ToLower(name), "_proxy") || name == "NOTIFY_SOCKET"
	})
	cmd.Stdout, cmd.Stderr = log, log
	// A process group of its own: Ctrl-C reaches the parent only, and the children are stopped in
	// order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.mu.Lock()
	defer c.mu.Unlock()
	started := make(chan error)
	s.thread <- func() { started <- cmd.Start() }
	c.cmd = cmd
	return errors.Join(<-started, log.Close())
}

// watch waits for the component's end and reacts to it.
func (s *Supervisor) watch(c *child) {
	defer close(c.stopped)
	for restarts := 0; ; restarts++ {
		began := time.Now()
		err := c.cmd.Wait()
		if c.isStopping() {
			return
		}
		if time.Since(began) > restartWindow {
			restarts = 0
		}
		if c.spec.Restart && restarts < restartLimit {
			select {
			case <-c.stop:
				return
			case <-time.After(restartDelay):
			}
			if err = s.launch(c); err == nil {
				if c.isStopping() { // the stop signal may have gone to the run before this one
					c.signal(syscall.SIGKILL)
				}
				continue
			}
		}
		if err == nil {
			err = errors.New("exit status 0")
		}
		s.Fail(fmt.Errorf("%s ended: %w\nlast lines of %s:\n%s", c.spec.Name, err, c.spec.Log, tail(c.spec.Log)))
		return
	}
}

// Stop ends one component: SIGTERM, then SIGKILL after the grace time. It does
// nothing for a component that does not run.
func (s *Supervisor) Stop(name string, grace time.Duration) {
	s.mu.Lock()
	at := slices.IndexFunc(s.children, func(c *child) bool { return c.spec.Name == name })
	if at < 0 {
		s.mu.Unlock()
		return
	}
	c := s.children[at]
	s.children = slices.Delete(s.children, at, at+1)
	s.mu.Unlock()
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
	children := slices.Clone(s.children)
	s.mu.Unlock()
	for _, c := range slices.Backward(children) {
		s.Stop(c.spec.Name, grace)
	}
}

func (c *child) isStopping() bool {
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
	_ = c.cmd.Process.Signal(sig) // it may have ended already
}

// tail returns the last lines of a log, for an error message. The stacks that a
// program prints when it crashes are left out: the reason stands before them.
func tail(path string) string {
	const window, lines = 16 << 10, 8
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	raw := make([]byte, min(info.Size(), window))
	if _, err := file.ReadAt(raw, info.Size()-int64(len(raw))); err != nil {
		return ""
	}
	text, _, _ := strings.Cut(string(raw), "\ngoroutine ")
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// AwaitPort waits until an address is free to listen on. Its error names the component that needs
// the port: the component itself reports this in its log at best.
func AwaitPort(ctx context.Context, who string, ip net.IP, port int) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, portGrace, true, func(context.Context) (bool, error) {
		listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: ip, Port: port})
		if err == nil {
			return true, listener.Close()
		}
		last = err
		return !errors.Is(err, unix.EADDRINUSE), nil
	})
	if err != nil || last != nil && !errors.Is(last, unix.EADDRINUSE) {
		return fmt.Errorf("trying the port of %s: %w", who, last)
	}
	return nil
}
