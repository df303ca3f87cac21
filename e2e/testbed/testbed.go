package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

const logsDir = "logs"

// Options of a Testbed.
type Options struct {
	// StateDir holds everything that is not a build output; default .drover.
	StateDir string
	// BinDir holds the built binaries and the image; default bin.
	BinDir string
	// CacheDir holds what is expensive to make and survives Down: the servers' root file system. Default StateDir/cache.
	CacheDir string
	// Out takes progress, one line per step.
	Out io.Writer
	// SimulatedServers uses servers that exist only in the local cloud's books; for load.
	SimulatedServers bool
}

// Testbed is a running, or not yet running, whole.
type Testbed struct {
	Options
	isRoot bool
}

// New fills the defaults and makes the paths absolute: what is started has a working directory of its own. An error means that the working directory is gone.
func New(o Options) (*Testbed, error) {
	if o.StateDir == "" {
		o.StateDir = ".drover"
	}
	if o.BinDir == "" {
		o.BinDir = "bin"
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.CacheDir == "" {
		o.CacheDir = filepath.Join(o.StateDir, "cache")
	}
	for _, dir := range []*string{&o.StateDir, &o.BinDir, &o.CacheDir} {
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return nil, fmt.Errorf("finding %s: %w", *dir, err)
		}
		*dir = abs
	}
	return &Testbed{Options: o, isRoot: os.Geteuid() == 0}, nil
}

// step is one thing Up does; it must be safe to do again.
type step struct {
	title string
	run   func(context.Context) error
}

// Up brings everything up, or what is missing of it, and returns when drivers are ready to make machines.
// It must run as root, for containers and servers need it.
func (t *Testbed) Up(ctx context.Context) error {
	if !t.isRoot {
		return errors.New("containers and servers need root: run as root")
	}
	if err := os.MkdirAll(filepath.Join(t.StateDir, logsDir), 0o750); err != nil {
		return fmt.Errorf("making the state directory: %w", err)
	}
	for _, s := range t.steps() {
		start := time.Now()
		if err := s.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
		t.say("  %-72s %5.1fs\n", s.title, time.Since(start).Seconds())
	}
	return nil
}

func (t *Testbed) steps() []step {
	return []step{
		{"local cloud: the image of its servers", t.buildRootfs},
		{"local cloud: API, proxy and file server on " + cloudAddress, t.startCloud},
		{"Kubernetes: etcd, API server, controllers, kubelet, containerd", t.startKube},
		{"Kubernetes: import the image " + Image, func(ctx context.Context) error {
			return t.ImportImage(ctx, filepath.Join(t.BinDir, "drover-image.tar"))
		}},
		{"Drover: install", t.installDrover},
		{"Drover: wait for the manager", t.awaitManager},
		{"Drover: register the drivers", t.register},
		{"Drover: wait for the drivers' kinds", t.awaitDrivers},
	}
}

// Kubeconfig is the path of the administrator's kubeconfig.
func (t *Testbed) Kubeconfig() string { return filepath.Join(t.StateDir, "kubeconfig") }

// Env is the environment in which bin/drover and kubectl talk to this testbed.
func (t *Testbed) Env() []string {
	return append(os.Environ(),
		"KUBECONFIG="+t.Kubeconfig(),
		"PATH="+t.shimDir()+":"+t.BinDir+":"+os.Getenv("PATH"),
	)
}

func (t *Testbed) log(name string) string { return filepath.Join(t.StateDir, logsDir, name) }
