// Package server is one localkube server from start to stop: it takes the data directory's lock,
// settles names and ports, issues identities, starts the control plane and optionally the node,
// reports readiness, and stops everything in the reverse order.
//
// Run has the order of these steps; the packages controlplane and node know each component's needs.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/drover-project/drover/localkube/controlplane"
	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/node"
	"github.com/drover-project/drover/localkube/process"
)

const (
	// startTimeout bounds the time from start to ready.
	startTimeout = 3 * time.Minute
	// stopGrace is the time of each component between SIGTERM and SIGKILL.
	stopGrace = 15 * time.Second
	// failGrace is that time after one of them has failed: an API server without etcd would only
	// wait for it.
	failGrace = 2 * time.Second
)

// Options configure the server.
type Options struct {
	// DataDir is where everything is kept.
	DataDir string
	// BindAddress is the API server's listen address: by default 127.0.0.1, and all addresses if
	// this machine is a node, because pods must reach it.
	BindAddress string
	// Ephemeral removes the data directory at the end and does not wait for
	// anything to stop gracefully.
	Ephemeral bool
	// Disable names components that are not run.
	Disable []string
	// Kubeconfig is a further place to write the administrator's kubeconfig to.
	Kubeconfig string
	// RunNode makes this machine a node as well.
	RunNode bool
}

type server struct {
	opts  Options
	dir   datadir.Dir
	sup   *process.Supervisor
	plane *controlplane.Plane
	node  *node.Node
	say   func(format string, args ...any)
}

// Run starts a server, prints the kubeconfig's path on out when it is ready,
// and takes it down when the context ends or a component fails. Progress goes
// to log, one line per step.
func Run(ctx context.Context, opts Options, out, log io.Writer) (err error) {
	if err := opts.validate(); err != nil {
		return err
	}
	dir, err := datadir.Locate(opts.DataDir)
	if err != nil {
		return err
	}
	if entries, err := os.ReadDir(string(dir)); opts.Ephemeral && err == nil && len(entries) > 0 {
		return fmt.Errorf("--ephemeral removes %s in the end and there is something in it: name an empty or a new directory", dir)
	}
	lock, err := dir.Lock()
	if err != nil {
		return err
	}
	s := &server{opts: opts, dir: dir, sup: process.New(), say: progress(log)}
	grace := stopGrace
	defer func() {
		if opts.Ephemeral {
			grace = 0
		}
		err = errors.Join(err, s.stop(grace), lock.Close())
		if opts.Ephemeral {
			err = errors.Join(err, os.RemoveAll(string(dir)))
		}
	}()

	err = s.sup.Run(ctx, startTimeout, s.start, func() error {
		_, err := fmt.Fprintln(out, dir.Kubeconfig())
		return err
	})
	if err != nil {
		grace = failGrace
	}
	return err
}

func (o Options) validate() error {
	for _, name := range o.Disable {
		if !slices.Contains([]string{"controller-manager", "scheduler"}, name) {
			return fmt.Errorf("--disable %s: only controller-manager and scheduler can be disabled", name)
		}
	}
	if o.RunNode {
		switch {
		case len(o.Disable) > 0:
			return errors.New("--node needs the controller manager and the scheduler")
		case o.Ephemeral:
			return errors.New("--ephemeral and --node exclude each other: a node is taken down gracefully")
		}
	}
	if o.BindAddress != "" && net.ParseIP(o.BindAddress) == nil {
		return fmt.Errorf("--bind-address %s is not an IP address", o.BindAddress)
	}
	return nil
}

func (s *server) start(ctx context.Context) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	// containerd needs no API server, so it starts at the same time.
	runtime := make(chan error, 1)
	go func() {
		if s.node == nil {
			runtime <- nil
			return
		}
		runtime <- s.node.StartRuntime(ctx)
	}()
	if err := errors.Join(s.plane.Start(ctx, s.sup, s.say), <-runtime); err != nil {
		return err
	}
	if s.node != nil {
		if err := s.node.Start(ctx); err != nil {
			return err
		}
	}
	s.say("ready: kubeconfig %s", s.dir.Kubeconfig())
	return nil
}

// prepare settles everything that is known before the first process starts.
func (s *server) prepare(ctx context.Context) error {
	ports, err := s.dir.Ports()
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("naming the node: %w", err)
	}
	bind := "127.0.0.1"
	if s.opts.RunNode {
		bind = "0.0.0.0"
	}
	s.plane = &controlplane.Plane{Dir: s.dir, Ports: ports, NodeName: strings.ToLower(host), Bind: net.ParseIP(cmp.Or(s.opts.BindAddress, bind)),
		Pods: controlplane.PodCIDR, Services: controlplane.ServiceCIDR, Disabled: s.opts.Disable, Kubeconfigs: []string{s.dir.Kubeconfig(), s.opts.Kubeconfig}}
	s.plane.Advertise = s.plane.Bind
	if s.plane.Bind.IsUnspecified() {
		if s.plane.Advertise, err = node.DefaultAddress(); err != nil {
			return err
		}
	}
	_, files, err := s.plane.Prepare(ctx, string(s.dir), s.plane.Advertise)
	if err != nil || !s.opts.RunNode {
		return err
	}
	s.node, err = node.New(ctx, node.Config{
		Name: s.plane.NodeName, Address: s.plane.Advertise, Dir: s.dir, Supervisor: s.sup, Say: s.say, Pods: s.plane.Pods, Services: s.plane.Services,
		Files: files,
	})
	return err
}

func (s *server) stop(grace time.Duration) error {
	s.say("stopping")
	var err error
	if s.node != nil {
		err = s.node.Stop(context.Background())
		s.say("node is stopped and clean")
	}
	s.sup.StopAll(grace)
	s.say("stopped")
	return err
}

// progress prints steps with the time since the start.
func progress(to io.Writer) func(format string, args ...any) {
	var mu sync.Mutex
	start := time.Now()
	return func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		// A screen that cannot be written to must not stop a server.
		_, _ = fmt.Fprintf(to, "localkube %6.2fs  %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
	}
}

const (
	// downGrace is the time for a server to stop after SIGTERM.
	downGrace = 90 * time.Second
	// killGrace is the time for the kernel to remove a killed one.
	killGrace = 10 * time.Second
)

// Down stops whatever runs on a data directory and cleans up after its node.
// It is idempotent; a directory that does not exist is down.
func Down(ctx context.Context, dataDir string, log io.Writer) error {
	dir, err := datadir.Locate(dataDir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(string(dir)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	say := progress(log)
	lock, err := seize(ctx, dir, say)
	if err != nil {
		return err
	}
	if err := errors.Join(node.Clean(ctx, dir, node.Runtime{}), lock.Close()); err != nil {
		return err
	}
	say("%s is down", dir)
	return nil
}

// seize takes the lock from a running server by stopping it, by force when
// asking does not help.
func seize(ctx context.Context, dir datadir.Dir, say func(string, ...any)) (*os.File, error) {
	begin, signal := time.Now(), syscall.Signal(0)
	for {
		lock, err := dir.Lock()
		locked := (*datadir.LockedError)(nil)
		if !errors.As(err, &locked) {
			return lock, err
		}
		next := syscall.SIGTERM
		if waited := time.Since(begin); waited > downGrace+killGrace {
			return nil, fmt.Errorf("stopping what runs on %s: it did not end when killed: %w", dir, err)
		} else if waited > downGrace {
			next = syscall.SIGKILL
		}
		if next != signal {
			signal = next
			say("sending %s to process %d", signal, locked.PID)
			if err := syscall.Kill(locked.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				return nil, fmt.Errorf("stopping process %d: %w", locked.PID, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
