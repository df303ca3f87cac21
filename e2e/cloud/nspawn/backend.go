package nspawn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/drover-project/drover/e2e/cloud/host"
	"github.com/drover-project/drover/e2e/cloud/server"
)

// Options configures a Backend.
type Options struct {
	Dir     string     // one directory per server is made in it
	Image   string     // the root file system, from BuildImage
	Gateway netip.Addr // the servers' default route
}

// serverName is short enough for an interface name with "vb-" before it, and cannot lead out of a
// directory.
var serverName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,11}$`)

const (
	// askEvery is how often a server is looked at whose end is awaited.
	askEvery = 250 * time.Millisecond
	// consoleTail is the length of the console log's reported end.
	consoleTail = 600
)

// Backend makes servers with systemd-nspawn.
type Backend struct {
	opts Options
	host machinery

	mu    sync.Mutex
	locks map[string]*sync.Mutex // one per server: its changes come one by one
}

var _ server.Backend = (*Backend)(nil)

// New returns a backend; nothing is made before Create.
func New(opts Options) (*Backend, error) {
	dir, err := realPath(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("resolving servers' directory: %w", err)
	}
	opts.Dir = dir
	return &Backend{opts: opts, locks: map[string]*sync.Mutex{}, host: machinery{
		mountOverlay: func(target, options string) error {
			return syscall.Mount("overlay", target, "overlay", 0, options)
		},
		unmountBelow: unmountBelow, cgroups: findCgroups, command: nspawnCommand, removeInterface: host.RemoveInterface,
	}}, nil
}

// Create makes the server and starts it.
func (b *Backend) Create(ctx context.Context, spec server.Spec) error {
	dir, unlock, err := b.open(spec.Name)
	if err != nil {
		return fmt.Errorf("making server: %w", err)
	}
	defer unlock()
	if exists(dir.in(completeFile)) {
		return fmt.Errorf("making server: %s exists already", spec.Name)
	}
	// The remains of a crash hold another identity.
	if err := os.RemoveAll(string(dir)); err != nil {
		return fmt.Errorf("making directory of %s: %w", spec.Name, err)
	}
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return fmt.Errorf("making directory of %s: %w", spec.Name, err)
	}
	if err := dir.prepare(spec, b.opts); err != nil {
		return err
	}
	return b.start(ctx, dir)
}

func (b *Backend) start(ctx context.Context, dir serverDir) error {
	// The server keeps its original image, because the server's own layer would not fit a later
	// one.
	content, err := os.ReadFile(dir.in(completeFile))
	if err != nil {
		return fmt.Errorf("reading image of %s: %w", dir.name(), err)
	}
	image := string(content)
	if !filepath.IsAbs(image) {
		return fmt.Errorf("reading image of %s: %q is not the path of an image", dir.name(), image)
	}
	if !exists(image) {
		return fmt.Errorf("reading image of %s: %s, which it was made from, is gone", dir.name(), image)
	}
	if err := b.mountRoot(ctx, image, dir); err != nil {
		return err
	}
	groups, err := b.host.cgroups(dir.name())
	if err != nil {
		return err
	}
	// A crash may have left a server running whose keeper was not written down yet.
	if err := killAll(ctx, process{}, groups); err != nil {
		return fmt.Errorf("starting %s: %w", dir.name(), err)
	}
	if err := groups.create(); err != nil {
		return err
	}
	keeper, err := startKeeper(dir, groups, b.host.command(dir))
	if err != nil {
		return err
	}
	if err := keeper.save(dir); err != nil {
		return errors.Join(err, keeper.kill()) // without its record the process could not be found again
	}
	return nil
}

// PowerCycle pulls the server's plug and puts it in again: its memory is lost, its disk stays as it
// was.
func (b *Backend) PowerCycle(ctx context.Context, name string) error {
	dir, unlock, err := b.open(name)
	if err != nil {
		return fmt.Errorf("switching server off and on: %w", err)
	}
	defer unlock()
	if err := b.halt(ctx, dir); err != nil {
		return err
	}
	return b.start(ctx, dir)
}

// Destroy removes the server with its processes, mounts and files.
func (b *Backend) Destroy(ctx context.Context, name string) error {
	dir, unlock, err := b.open(name)
	if err != nil {
		return fmt.Errorf("removing server: %w", err)
	}
	defer unlock()
	if err := b.halt(ctx, dir); err != nil {
		return err
	}
	if err := b.host.unmountBelow(string(dir)); err != nil {
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

// AwaitEnd waits until the server has ended, and returns the end of its console output.
func (b *Backend) AwaitEnd(ctx context.Context, name string) string {
	ended := func(context.Context) (bool, error) {
		if b.Running(name) {
			return false, nil
		}
		// It may be without power for a moment only.
		_, unlock, err := b.open(name)
		if err != nil {
			return false, err
		}
		defer unlock()
		return !b.Running(name), nil
	}
	if wait.PollUntilContextCancel(ctx, askEvery, true, ended) != nil {
		return ""
	}
	content, err := os.ReadFile(b.dir(name).in(consoleLog))
	if err != nil {
		return err.Error()
	}
	lines := strings.FieldsFunc(string(content[max(0, len(content)-consoleTail):]), func(r rune) bool { return r == '\n' || r == '\r' })
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, "its console: "+strings.Join(lines, "; "))
}

// names returns the servers that have a directory.
func (b *Backend) names() ([]string, error) {
	entries, err := os.ReadDir(b.opts.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("listing servers: %w", err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

func (b *Backend) dir(name string) serverDir { return serverDir(filepath.Join(b.opts.Dir, name)) }

// open returns the server's directory, once no other change of the server is under way, and how to
// let it go.
func (b *Backend) open(name string) (serverDir, func(), error) {
	if !serverName.MatchString(name) {
		return "", nil, fmt.Errorf("%q is not a valid server name", name)
	}
	b.mu.Lock()
	lock, ok := b.locks[name]
	if !ok {
		lock = &sync.Mutex{}
		b.locks[name] = lock
	}
	b.mu.Unlock()
	lock.Lock()
	return b.dir(name), lock.Unlock, nil
}

// machinery is the part of the host that only root may change.
type machinery struct {
	mountOverlay    func(target, options string) error
	unmountBelow    func(path string) error
	cgroups         func(server string) (cgroups, error)
	command         func(dir serverDir) []string // the command that runs a server
	removeInterface func(ctx context.Context, name string) error
}

// cable is the host's end of a server's network cable, as systemd-nspawn names it.
func cable(server string) string { return "vb-" + server }

// DestroyAll removes every server that has a directory. A server that could not be removed keeps
// its directory, so that the next run finds it.
func (b *Backend) DestroyAll(ctx context.Context) error {
	names, err := b.names()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, b.Destroy(ctx, name))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := os.Remove(b.opts.Dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing servers' directory: %w", err)
	}
	return nil
}

// Leftovers describes the servers' remains on this machine.
func (b *Backend) Leftovers() []string {
	names, err := b.names()
	if err != nil {
		return []string{err.Error()}
	}
	var left []string
	for _, name := range names {
		dir := b.dir(name)
		left = append(left, "directory "+string(dir))
		if isMounted(dir.in(rootDir)) {
			left = append(left, "mount "+dir.in(rootDir))
		}
		if _, err := net.InterfaceByName(cable(name)); err == nil {
			left = append(left, "interface "+cable(name))
		}
		groups, err := b.host.cgroups(name)
		if err != nil {
			left = append(left, err.Error())
		}
		for _, pid := range groups.processes() {
			left = append(left, fmt.Sprintf("process %d of %s", pid, name))
		}
	}
	return left
}
