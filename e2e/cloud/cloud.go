package cloud

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/files"
	"github.com/drover-project/drover/e2e/cloud/host"
	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/e2e/cloud/nspawn"
	"github.com/drover-project/drover/e2e/cloud/server"
	"github.com/drover-project/drover/endpoint/certificate"
)

// The backends a cloud can have.
const (
	BackendInstant = "instant" // droplets are entries in a table
	BackendNspawn  = "nspawn"  // droplets are real servers in systemd-nspawn
)

const (
	// DefaultToken is the name of the token that every cloud has.
	DefaultToken = "default"
	// FilesHost is the name the file server answers for through the proxy.
	FilesHost = "files.drover.test"
	// Where servers have their addresses. The other half of 198.18.0.0/16 is for the pods and
	// services of clusters on them (localkube/config).
	publicRange  = "198.18.0.0/18"
	privateRange = "198.18.64.0/18"
	// authorityLife is longer than any local cloud's.
	authorityLife = 10 * 365 * 24 * time.Hour
	// droverTag is the prefix of Drover's tags.
	droverTag = "drover-"
)

// ErrRunning says that another process serves from the state directory.
var ErrRunning = errors.New("another local cloud uses this state directory")

// Options configures a Cloud; the zero value is an instant cloud on loopback
// that keeps nothing on disk.
type Options struct {
	// Backend is BackendInstant (the default) or BackendNspawn.
	Backend string
	// StateDir keeps certificates and servers, and the cloud's addresses for other processes;
	// needed for nspawn.
	StateDir string
	// RootFSDir caches the servers' root file system; needed for nspawn.
	RootFSDir string
	// Localkube is a binary that servers find as k3s' installer image in a registry; none if empty
	// (package distribution).
	Localkube string
	// Tokens are the secrets of further API tokens beside the default one, by name.
	Tokens map[string]string
	// Progress receives progress messages while the root file system is made; may be nil.
	Progress io.Writer
	Log      *slog.Logger
}

// Cloud is a local cloud.
type Cloud struct {
	Account   *account.Account // from Start on
	Faults    *fault.Set       // of the API
	Files     *files.Server    // for download tests
	Ledger    *ledger.Ledger
	Tokens    *account.Tokens
	Endpoints Endpoints // from Start on

	opts      Options
	bind      string          // where the API, proxy and file server listen: on the bridge with nspawn, else on loopback
	lock      *os.File        // of the state directory
	authority tls.Certificate // signs the certificates of all of them; its key is not stored
	network   *account.Network
	backend   server.Backend
	real      *nspawn.Backend // the backend, when servers are real
	host      *host.Host      // when the bridge is used
	listening []*http.Server

	stop       context.CancelFunc
	stopped    context.Context
	proxy      *tunnels
	endTunnels context.CancelFunc

	mu      sync.Mutex
	servers map[string]server.Spec // those that a test started, not a client of the API
	lastID  int
}

// New prepares a cloud; nothing listens or runs before Start.
func New(opts Options) (*Cloud, error) {
	bind := "127.0.0.1"
	if opts.Backend == BackendNspawn {
		bind = host.Gateway
		if opts.StateDir == "" || opts.RootFSDir == "" {
			return nil, errors.New("checking cloud options: the nspawn backend needs a state and a root file system directory")
		}
	}
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	c := &Cloud{
		Faults: &fault.Set{}, Files: files.New(), Ledger: ledger.New(),
		opts: opts, bind: bind, servers: map[string]server.Spec{},
		Tokens: account.NewTokens(opts.Tokens),
		network: &account.Network{
			Public: netip.MustParsePrefix(publicRange), Private: netip.MustParsePrefix(privateRange), Gateway: netip.MustParseAddr(host.Gateway),
		},
	}
	c.stopped, c.stop = context.WithCancel(context.Background())
	_, err := c.Tokens.Add(DefaultToken)
	if err != nil {
		return nil, err
	}
	if opts.StateDir != "" {
		if c.opts.StateDir, c.lock, err = lockState(opts.StateDir); err != nil {
			return nil, err
		}
	}
	if err := c.makeAuthority(); err != nil {
		return nil, errors.Join(err, c.unlock())
	}
	return c, nil
}

// makeAuthority makes a certificate authority. All users with access to its file can trust it.
func (c *Cloud) makeAuthority() error {
	now := time.Now()
	bundle, key, err := certificate.Authority("drover local cloud CA", now, now.Add(authorityLife))
	if err != nil {
		return err
	}
	if c.authority, err = tls.X509KeyPair(bundle, key); err != nil {
		return fmt.Errorf("reading the authority: %w", err)
	}
	if c.opts.StateDir == "" {
		return nil
	}
	return os.WriteFile(c.CAFile(), bundle, 0o644) //nolint:gosec // all users can read the authority that they should trust
}

// lockState makes and locks a state directory, and returns its absolute path.
func lockState(dir string) (string, *os.File, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", nil, fmt.Errorf("resolving state directory: %w", err)
	}
	lock, err := host.Lock(dir, ErrRunning)
	return dir, lock, err
}

func (c *Cloud) unlock() error {
	if c.lock == nil {
		return nil
	}
	err := os.Remove(c.path(EndpointsFile))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	lock := c.lock
	c.lock = nil // closing again finds nothing to do
	return errors.Join(err, lock.Close())
}

func (c *Cloud) path(name string) string { return filepath.Join(c.opts.StateDir, name) }

// Start removes the processes that an earlier cloud left running, and listens.
func (c *Cloud) Start(ctx context.Context) error {
	// The bridge must be there before anything listens on it.
	c.backend = server.NewInstant()
	if c.opts.Backend == BackendNspawn {
		var err error
		if c.host, err = host.Open(ctx); err != nil {
			return err
		}
		image, err := nspawn.BuildImage(ctx, nspawn.ImageOptions{Dir: c.opts.RootFSDir, Progress: c.opts.Progress})
		if err != nil {
			return err
		}
		c.real, err = nspawn.New(nspawn.Options{Dir: c.path("servers"), Image: image, Gateway: c.network.Gateway})
		if err != nil {
			return err
		}
		c.backend = c.real
		if err := c.real.DestroyAll(ctx); err != nil {
			return err
		}
	}
	c.Account = account.New(ctx, account.Options{Backend: c.backend, Ledger: c.Ledger, Network: c.network, Log: c.opts.Log})
	if err := c.listen(); err != nil {
		return errors.Join(err, c.stopListening())
	}
	return nil
}

// Close stops listening and removes every server.
func (c *Cloud) Close() error {
	ctx := context.Background()
	errs := []error{c.stopListening()}
	if c.Account != nil {
		c.Account.Close()
	}
	if c.real != nil {
		errs = append(errs, c.real.DestroyAll(ctx))
	}
	if c.host != nil {
		errs = append(errs, c.host.Close(ctx))
		c.host = nil
	}
	return errors.Join(append(errs, c.unlock())...)
}

// Stopped is closed when the cloud gets a stop request; the process that started the cloud then
// closes the cloud.
func (c *Cloud) Stopped() <-chan struct{} { return c.stopped.Done() }

// Clean removes every trace of the cloud of a state directory: its servers,
// the bridge, and the directory. No process may use it.
func Clean(ctx context.Context, stateDir string) error {
	entries, err := os.ReadDir(stateDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cleaning state: %w", err)
	}
	// Every cloud leaves its lock: without a lock, no cloud ever ran here.
	if _, err := os.Stat(filepath.Join(stateDir, "lock")); err != nil && len(entries) > 0 {
		return fmt.Errorf("cleaning state: %s is not the state directory of a local cloud: %w", stateDir, err)
	}
	dir, lock, err := lockState(stateDir)
	if err != nil {
		return err
	}
	backend, err := nspawn.New(nspawn.Options{Dir: filepath.Join(dir, "servers")})
	if err == nil {
		err = backend.DestroyAll(ctx)
	}
	if err == nil && os.Geteuid() == 0 {
		err = host.Release(ctx)
	}
	// Only the cloud's own files are removed, in case the path is wrong.
	for _, name := range []string{"ca.pem", EndpointsFile, "lock", ""} {
		if err == nil {
			if err = os.Remove(filepath.Join(dir, name)); errors.Is(err, os.ErrNotExist) {
				err = nil
			}
		}
	}
	return errors.Join(err, lock.Close())
}

// Token returns the secret of the default token.
func (c *Cloud) Token() string { return c.Tokens.Secret(DefaultToken) }

// CAFile returns the path of the certificate of the authority that signed all endpoints, or nothing
// without a state directory.
func (c *Cloud) CAFile() string {
	if c.opts.StateDir == "" {
		return ""
	}
	return c.path("ca.pem")
}

// Leftovers describes everything that still exists: droplets, keys, servers, Drover's tags, and
// their remains on the host. A user's own tags persist by design and do not count.
func (c *Cloud) Leftovers() []string {
	left := []string{}
	for _, record := range c.Ledger.Live() {
		if record.Kind == ledger.KindTag && !strings.HasPrefix(record.Name, droverTag) {
			continue
		}
		left = append(left, fmt.Sprintf("%s %s (%s), created %s by request %s",
			record.Kind, record.ID, record.Name, record.Time.Format("15:04:05.000"), record.RequestID))
	}
	if c.real != nil {
		left = append(left, c.real.Leftovers()...)
	}
	return left
}

// AssertNothingLeft fails the test for each thing that still exists.
func (c *Cloud) AssertNothingLeft(t interface {
	Errorf(format string, args ...any)
}) {
	for _, thing := range c.Leftovers() {
		t.Errorf("left on the cloud: %s", thing)
	}
}
