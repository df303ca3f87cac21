package testbed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// The content of the state directory.
const (
	logsDir = "logs"
	kubeDir = "kube"
	// shimsDir holds a kubectl, for machines that have none.
	shimsDir = "shims"
)

// Options of a Testbed.
type Options struct {
	// StateDir holds everything that is not a build output; default .drover.
	StateDir string
	// BinDir holds the built binaries and the image; default bin.
	BinDir string
	// CacheDir holds files that are expensive to make and survive Down: the servers' root file
	// system. Default StateDir/cache.
	CacheDir string
	// Out takes progress, one line per step.
	Out io.Writer
}

// Testbed is a running, or not yet running, whole.
type Testbed struct {
	Options
	isRoot bool
}

// New fills the defaults and makes the paths absolute, because the started processes have other
// working directories. It returns an error if the working directory no longer exists.
func New(o Options) (*Testbed, error) {
	o.StateDir, o.BinDir, o.Out = cmp.Or(o.StateDir, ".drover"), cmp.Or(o.BinDir, "bin"), cmp.Or(o.Out, io.Discard)
	o.CacheDir = cmp.Or(o.CacheDir, filepath.Join(o.StateDir, "cache"))
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

// Up starts all parts that do not run, and returns when drivers are ready to make machines. It must
// run as root, because containers and servers need root.
func (t *Testbed) Up(ctx context.Context) error {
	if !t.isRoot {
		return errors.New("containers and servers need root: run as root")
	}
	if err := os.MkdirAll(t.in(logsDir), 0o750); err != nil {
		return fmt.Errorf("making the state directory: %w", err)
	}
	for _, s := range []step{
		{"local cloud: the image of its servers", func(ctx context.Context) error {
			_, err := t.run(ctx, "localcloud", "rootfs", "build", "--rootfs-dir", t.rootfsDir())
			return err
		}},
		{"local cloud: API, proxy and file server on " + cloudAddress, t.startCloud},
		{"local cloud: examples/cluster.yaml with its registry", t.writeClusterExample},
		{"Kubernetes: etcd, API server, controllers, kubelet, containerd", t.StartKube},
		{"Kubernetes: import the image " + Image, func(ctx context.Context) error {
			return t.ImportImage(ctx, filepath.Join(t.BinDir, "drover-image.tar"))
		}},
		{"Drover: install", t.installDrover},
		{"Drover: wait for the manager", t.awaits("-n", "drover-system", "rollout", "status", "deployment/drover-manager", "--timeout=5s")},
		{"Drover: register the drivers", t.register},
		{"Drover: wait for the drivers' kinds", t.awaits("wait", "nodedriver", "digitalocean", "generic", "drovertest",
			"--for=condition=Ready", "--timeout=5s")},
	} {
		start := time.Now()
		if err := s.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
		t.say("  %-72s %5.1fs\n", s.title, time.Since(start).Seconds())
	}
	return nil
}

// Kubeconfig is the path of the administrator's kubeconfig.
func (t *Testbed) Kubeconfig() string { return filepath.Join(t.StateDir, "kubeconfig") }

// Env is the environment in which bin/drover and kubectl talk to this testbed.
func (t *Testbed) Env() []string {
	return append(os.Environ(),
		"KUBECONFIG="+t.Kubeconfig(),
		"PATH="+t.in(shimsDir)+":"+t.BinDir+":"+os.Getenv("PATH"),
	)
}

// in is a path in the state directory.
func (t *Testbed) in(name string) string { return filepath.Join(t.StateDir, name) }

func (t *Testbed) log(name string) string { return filepath.Join(t.in(logsDir), name) }

// Down stops everything and removes all files but CacheDir; it is safe if nothing runs. It keeps
// the files of a part that could not be stopped, because the next run needs them, and files that do
// not belong to the testbed.
func (t *Testbed) Down(ctx context.Context) error {
	var kubeErr, cloudErr error
	if exists(t.in(kubeDir)) {
		_, kubeErr = t.run(ctx, "localkube", "down", "--data-dir", t.in(kubeDir))
	}
	if exists(t.CloudDir()) {
		_, cloudErr = t.run(ctx, "localcloud", "clean", "--state-dir", t.CloudDir())
	}
	remove := []string{t.in(shimsDir)}
	if kubeErr == nil {
		remove = append(remove, t.in(kubeDir), t.Kubeconfig())
	}
	if cloudErr == nil {
		remove = append(remove, t.CloudDir(), t.in(clusterExample), t.in(clusterKubeconfig))
	}
	if kubeErr == nil && cloudErr == nil {
		remove = append(remove, t.in(logsDir))
	}
	errs := []error{kubeErr, cloudErr}
	for _, path := range remove {
		errs = append(errs, os.RemoveAll(path))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	// The directory is removed if it is empty; otherwise its remaining entries are reported.
	entries, err := os.ReadDir(t.StateDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		if path := filepath.Join(t.StateDir, entry.Name()); path != t.CacheDir {
			t.say("  left in place, because it is not the testbed's: %s\n", t.readable(path))
		}
	}
	if err == nil && len(entries) == 0 {
		err = os.Remove(t.StateDir)
	}
	return err
}
