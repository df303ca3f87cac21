package nspawn

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/drover-project/drover/e2e/cloud/host"
	"github.com/drover-project/drover/e2e/cloud/server"
)

const (
	bridgeName = host.BridgeName
	// shutdownTimeout is how long a server may take to shut down by itself.
	shutdownTimeout = 30 * time.Second
	// endTimeout is how long a server's keeper may take to end after the server.
	endTimeout = 3 * time.Second
	// killTimeout is how long killed processes may take to go.
	killTimeout = 10 * time.Second
	pollEvery   = 10 * time.Millisecond
)

// Options configures a Backend.
type Options struct {
	Dir     string     // one directory per server is made in it
	Image   string     // the root file system, from BuildImage
	Gateway netip.Addr // the servers' default route
}

// Backend makes servers with systemd-nspawn.
type Backend struct {
	opts Options

	mu    sync.Mutex
	locks map[string]*sync.Mutex // one per server: its changes come one by one
}

var _ server.Backend = (*Backend)(nil)

// New returns a backend; nothing is made before Create.
func New(opts Options) (*Backend, error) {
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("resolving servers' directory: %w", err)
	}
	opts.Dir = dir
	return &Backend{opts: opts, locks: map[string]*sync.Mutex{}}, nil
}

// Create makes the server and starts it.
func (b *Backend) Create(ctx context.Context, spec server.Spec) error {
	defer b.lock(spec.Name)()
	dir := b.dir(spec.Name)
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return fmt.Errorf("making directory of %s: %w", spec.Name, err)
	}
	if err := dir.prepare(spec, b.opts); err != nil {
		return err
	}
	return b.start(ctx, dir)
}

// Adopt goes on with a server that an earlier process made.
func (b *Backend) Adopt(ctx context.Context, spec server.Spec, on bool) error {
	defer b.lock(spec.Name)()
	dir := b.dir(spec.Name)
	if _, err := os.Stat(dir.complete()); err != nil {
		return fmt.Errorf("adopting %s: %w", spec.Name, server.ErrNotFound)
	}
	if on && !b.Running(spec.Name) {
		return b.start(ctx, dir)
	}
	return nil
}

func (b *Backend) start(ctx context.Context, dir serverDir) error {
	image, err := dir.image()
	if err != nil {
		return err
	}
	if err := mountRoot(ctx, image, dir); err != nil {
		return err
	}
	groups, err := findCgroups(dir.name())
	if err != nil {
		return err
	}
	if err := groups.create(); err != nil {
		return err
	}
	keeper, err := startKeeper(dir, groups)
	if err != nil {
		return err
	}
	return keeper.save(dir)
}

// Power changes the server's power state.
func (b *Backend) Power(ctx context.Context, name string, change server.Power) error {
	defer b.lock(name)()
	dir := b.dir(name)
	if _, err := os.Stat(dir.complete()); err != nil {
		return fmt.Errorf("changing power of %s: %w", name, server.ErrNotFound)
	}
	running := b.Running(name)
	switch change {
	case server.PowerOn:
		if running {
			return nil
		}
		return b.start(ctx, dir)
	case server.PowerOff:
		return b.halt(ctx, dir)
	case server.Shutdown:
		return b.shutDown(ctx, dir)
	case server.Reboot:
		if !running {
			return b.start(ctx, dir)
		}
		return reboot(dir)
	}
	return fmt.Errorf("changing power of %s: there is no change %q", name, change)
}

func reboot(dir serverDir) error {
	keeper, err := loadProcess(dir)
	if err != nil {
		return err
	}
	system, err := keeper.system()
	if err != nil {
		return fmt.Errorf("rebooting %s: %w", dir.name(), err)
	}
	if err := syscall.Kill(system, rebootSignal); err != nil {
		return fmt.Errorf("rebooting %s: %w", dir.name(), err)
	}
	return nil
}

// shutDown asks the server to stop and pulls the plug when it does not.
func (b *Backend) shutDown(ctx context.Context, dir serverDir) error {
	keeper, err := loadProcess(dir)
	if err != nil {
		return err
	}
	if nspawn, err := keeper.nspawn(); err == nil && keeper.alive() {
		_ = syscall.Kill(nspawn, syscall.SIGTERM) // it tells the server; gone already is as good
	}
	_ = waitFor(ctx, shutdownTimeout, func() bool { return !keeper.alive() })
	return b.halt(ctx, dir)
}

// halt pulls the plug: the server's first process is killed, and with it all
// others. systemd-nspawn and the keeper then end by themselves, each collected
// by its parent, so that no dead process is left to init.
func (b *Backend) halt(ctx context.Context, dir serverDir) error {
	keeper, err := loadProcess(dir)
	if err == nil && keeper.alive() {
		if system, err := keeper.system(); err == nil {
			_ = syscall.Kill(system, syscall.SIGKILL) // gone already is as good
			_ = waitFor(ctx, endTimeout, func() bool { return !keeper.alive() })
		}
	}
	groups, err := findCgroups(dir.name())
	if err != nil {
		return err
	}
	if err := killAll(ctx, keeper, groups); err != nil {
		return fmt.Errorf("stopping %s: %w", dir.name(), err)
	}
	if err := groups.remove(); err != nil {
		return err
	}
	return host.RemoveInterface(ctx, "vb-"+dir.name())
}

// killAll kills whatever is left, the keeper first, so that it restarts nothing.
func killAll(ctx context.Context, keeper process, groups cgroups) error {
	if err := keeper.kill(); err != nil {
		return err
	}
	err := waitFor(ctx, killTimeout, func() bool {
		left := groups.processes()
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(left) == 0
	})
	if err != nil {
		return fmt.Errorf("waiting for its processes to go: %w", err)
	}
	return nil
}

// Destroy removes the server with its processes, mounts and files.
func (b *Backend) Destroy(ctx context.Context, name string) error {
	defer b.lock(name)()
	dir := b.dir(name)
	if err := b.halt(ctx, dir); err != nil {
		return err
	}
	if err := unmountBelow(string(dir)); err != nil {
		return err
	}
	if err := os.RemoveAll(string(dir)); err != nil {
		return fmt.Errorf("removing directory of %s: %w", name, err)
	}
	return nil
}

// Running reports whether the server runs.
func (b *Backend) Running(name string) bool {
	keeper, err := loadProcess(b.dir(name))
	return err == nil && keeper.alive()
}

// HostKey returns the server's public SSH host key in authorized_keys form.
func (b *Backend) HostKey(name string) string {
	content, err := os.ReadFile(b.dir(name).file(hostKeyFile + ".pub"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// Names returns the servers that have a directory.
func (b *Backend) Names() ([]string, error) {
	entries, err := os.ReadDir(b.opts.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing servers: %w", err)
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

func (b *Backend) dir(name string) serverDir { return serverDir(filepath.Join(b.opts.Dir, name)) }

// lock waits for the server's other changes and returns how to let it go.
func (b *Backend) lock(name string) func() {
	b.mu.Lock()
	lock, ok := b.locks[name]
	if !ok {
		lock = &sync.Mutex{}
		b.locks[name] = lock
	}
	b.mu.Unlock()
	lock.Lock()
	return lock.Unlock
}

// waitFor waits until done.
func waitFor(ctx context.Context, timeout time.Duration, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}
