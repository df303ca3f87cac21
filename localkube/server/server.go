package server

import (
	"context"
	"errors"
	"fmt"
	"io"
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

	joins   *http.Server
	claims  sync.Mutex
	promote func(context.Context) error
}

// Run starts a server, prints the kubeconfig's path on out when it is ready,
// and takes it down when the context ends or a component fails. Progress goes
// to log, one line per step.
func Run(ctx context.Context, opts Options, out, log io.Writer) (err error) {
	if err := opts.validate(); err != nil {
		return err
	}
	dir, err := datadir.Open(opts.DataDir)
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
	defer func() { err = errors.Join(err, s.stop(), lock.Release(), s.forget()) }()

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

func takeLock(dir datadir.Dir) (*datadir.Lock, error) {
	lock, err := dir.Lock()
	if locked := (*datadir.LockedError)(nil); errors.As(err, &locked) {
		return nil, fmt.Errorf("process %d already runs localkube on %s: stop it with localkube down --data-dir %[2]s", locked.PID, dir.Root())
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
		s.prepare, s.openNode, s.startBase, s.startControllers, s.startNode, s.serveJoin,
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
	_, known, err := s.dir.LoadConfig()
	if err != nil {
		return err
	}
	want, err := s.opts.wanted(!known)
	if err != nil {
		return err
	}
	cfg, err := s.dir.Settle(want)
	if err != nil {
		return err
	}
	bind, advertise, err := s.opts.addresses()
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
	return s.plane.IssueIdentities()
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

func (s *Server) forget() error {
	if !s.opts.Ephemeral {
		return nil
	}
	if err := os.RemoveAll(s.dir.Root()); err != nil {
		return fmt.Errorf("removing the data directory: %w", err)
	}
	return nil
}
