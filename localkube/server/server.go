package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/drover-project/drover/localkube/controlplane"
	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/node"
	"github.com/drover-project/drover/localkube/pki"
	"github.com/drover-project/drover/localkube/process"
)

const (
	// startTimeout bounds the time from start to ready.
	startTimeout = 3 * time.Minute
	// stopGrace is what each component gets between SIGTERM and SIGKILL.
	stopGrace = 15 * time.Second
	// failGrace is what they get when one of them has failed: an API server
	// without etcd would only wait for it.
	failGrace = 2 * time.Second
)

// Server is a running server.
type Server struct {
	opts  Options
	dir   datadir.Dir
	sup   *process.Supervisor
	plane controlplane.Options
	node  *node.Node
	say   *progress
	grace time.Duration

	joins *http.Server
	// joining lets one machine in at a time; it guards plane from then on.
	joining sync.Mutex
	promote func(context.Context) error
}

// Run starts a server, prints the kubeconfig's path on out when it is ready,
// and takes it down when the context ends or a component fails. Progress goes
// to log, one line per step.
func Run(ctx context.Context, opts Options, out, log io.Writer) (err error) {
	if err := opts.validate(); err != nil {
		return err
	}
	dir, err := openServerDir(opts)
	if err != nil {
		return err
	}
	lock, err := takeLock(dir)
	if err != nil {
		return err
	}
	s := &Server{opts: opts, dir: dir, sup: process.New(), say: newProgress(log), grace: stopGrace}
	if opts.Ephemeral {
		s.grace = 0
	}
	defer func() {
		err = errors.Join(err, s.stop(), lock.Release())
		if !opts.Ephemeral {
			return
		}
		if left := os.RemoveAll(dir.Root()); left != nil {
			err = errors.Join(err, fmt.Errorf("removing the data directory: %w", left))
		}
	}()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go cancelOnFailure(ctx, s.sup, cancel)
	if err := s.start(ctx); err != nil {
		s.grace = failGrace
		return unlessStopped(ctx, err)
	}
	if _, err := fmt.Fprintln(out, dir.Kubeconfig()); err != nil {
		return fmt.Errorf("reporting readiness: %w", err)
	}
	<-ctx.Done()
	err = unlessStopped(ctx, context.Cause(ctx))
	if err != nil {
		s.grace = failGrace
	}
	return err
}

// openServerDir opens a data directory unless this server would harm what is in it.
func openServerDir(opts Options) (datadir.Dir, error) {
	dir, err := datadir.Open(opts.DataDir)
	if err != nil {
		return datadir.Dir{}, err
	}
	_, agent, err := loadMembership(dir)
	if err != nil {
		return datadir.Dir{}, err
	}
	if agent {
		return datadir.Dir{}, fmt.Errorf("%s is an agent's: give the server a data directory of its own", dir.Root())
	}
	if _, held, err := dir.Holder(); err != nil || held || !opts.Ephemeral {
		return dir, err // taking the lock says who holds it
	}
	empty, err := dir.Empty()
	if err == nil && !empty {
		err = fmt.Errorf("--ephemeral removes %s in the end and there is something in it: name an empty or a new directory", dir.Root())
	}
	return dir, err
}

func takeLock(dir datadir.Dir) (*datadir.Lock, error) {
	lock, err := dir.Lock()
	if locked := (*datadir.LockedError)(nil); errors.As(err, &locked) {
		who := "a process that does not say which"
		if locked.PID != 0 {
			who = fmt.Sprintf("process %d", locked.PID)
		}
		return nil, fmt.Errorf("%s already runs localkube on %s: stop it with localkube down --data-dir %[2]s", who, dir.Root())
	}
	return lock, err
}

// cancelOnFailure makes the failure of a component the end of the context.
func cancelOnFailure(ctx context.Context, sup *process.Supervisor, cancel context.CancelCauseFunc) {
	select {
	case err := <-sup.Failed():
		cancel(err)
	case <-ctx.Done():
	}
}

// unlessStopped turns the wish to stop into success, and any error that came
// from a failed component into that failure.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

func (s *Server) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("not ready within "+startTimeout.String()))
	defer cancel()
	for _, step := range []func(context.Context) error{
		s.prepare, s.awaitPorts, s.openNode, s.startBase, s.startControllers, s.startNode, s.serveJoin,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	s.say.step("ready: %s, kubeconfig %s", s.plane.URL(), s.dir.Kubeconfig())
	return nil
}

// prepare settles everything that is known before the first process starts.
func (s *Server) prepare(ctx context.Context) error {
	if err := checkRoom(s.dir); err != nil {
		return err
	}
	bind, advertise, err := s.opts.addresses()
	if err != nil {
		return err
	}
	cfg, err := s.settle(advertise)
	if err != nil {
		return err
	}
	s.plane = controlplane.Options{
		Dir: s.dir, Config: cfg, BindAddress: bind, AdvertiseAddress: advertise,
		ExtraNames: s.opts.TLSNames, NoFsync: s.opts.NoFsync || s.opts.Ephemeral,
	}
	if s.opts.JoinURL != "" {
		if err := s.joinCluster(ctx); err != nil {
			return err
		}
	}
	if s.plane.Store, err = pki.Open(s.dir.Path("pki")); err != nil {
		return err
	}
	if err := s.plane.IssueIdentities(); err != nil || s.plane.NoFsync {
		return err
	}
	return s.dir.Sync()
}

// settle merges the command line into the settings that are kept. They stay for
// ever, so nothing is kept that could not work.
func (s *Server) settle(advertise net.IP) (datadir.Config, error) {
	kept, known, err := s.dir.LoadConfig()
	if err != nil {
		return datadir.Config{}, err
	}
	want, err := s.opts.wanted(!known)
	if err != nil {
		return datadir.Config{}, err
	}
	pods, services := cmp.Or(want.PodCIDR, kept.PodCIDR), cmp.Or(want.ServiceCIDR, kept.ServiceCIDR)
	if err := errors.Join(checkRanges(pods, services), checkOutside(advertise, pods, services)); err != nil {
		return datadir.Config{}, err
	}
	return s.dir.Settle(want)
}

func (s *Server) startControlPlane(ctx context.Context) error {
	etcd, err := s.plane.Etcd()
	if err != nil {
		return err
	}
	if err := s.sup.Start(etcd); err != nil {
		return err
	}
	if s.promote != nil {
		if err := s.promote(ctx); err != nil {
			return err
		}
	}
	// The API server is told to wait for etcd, so both start at once.
	if err := s.sup.Start(s.plane.APIServer()); err != nil {
		return err
	}
	if err := s.plane.AwaitEtcd(ctx); err != nil {
		return fmt.Errorf("waiting for etcd: %w", err)
	}
	s.say.step("etcd is ready")
	if err := s.plane.AwaitAPIServer(ctx); err != nil {
		return fmt.Errorf("waiting for the API server: %w", err)
	}
	s.say.step("API server is ready")
	paths := []string{s.dir.Kubeconfig()}
	if s.opts.Kubeconfig != "" {
		paths = append(paths, s.opts.Kubeconfig)
	}
	return s.plane.WriteAdminKubeconfig(paths...)
}

func (s *Server) startControllers(context.Context) error {
	for _, spec := range []process.Spec{s.plane.ControllerManager(), s.plane.Scheduler()} {
		if s.opts.disabled(spec.Name) {
			continue
		}
		if err := s.sup.Start(spec); err != nil {
			return err
		}
		s.say.step("%s is started", spec.Name)
	}
	return nil
}

func (s *Server) stop() error {
	s.say.step("stopping")
	var err error
	if s.joins != nil {
		err = s.joins.Close()
	}
	if s.node != nil {
		err = errors.Join(err, s.node.Stop(context.Background()))
		s.say.step("node is stopped and clean")
	}
	s.sup.StopAll(s.grace)
	s.say.step("stopped")
	return err
}

// progress prints steps with the time since the start.
type progress struct {
	mu    sync.Mutex
	to    io.Writer
	start time.Time
}

func newProgress(to io.Writer) *progress { return &progress{to: to, start: time.Now()} }

func (p *progress) step(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// A screen that cannot be written to must not stop a server.
	_, _ = fmt.Fprintf(p.to, "localkube %6.2fs  %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
}
