package cloud

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"time"

	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/host"
)

// The backends a cloud can have.
const (
	BackendInstant = "instant" // droplets are entries in a table
	BackendNspawn  = "nspawn"  // droplets are real servers in systemd-nspawn
)

// DefaultToken is the name of the token that every cloud has.
const DefaultToken = "default"

// FilesHost is the name the file server answers for through the proxy.
const FilesHost = "files.drover.test"

// Where simulated servers have their addresses; real ones have their slot's.
const (
	publicRange  = "198.18.0.0/17"
	privateRange = "198.18.128.0/17"
)

// Options configures a Cloud; the zero value is an instant cloud on loopback
// that keeps nothing on disk.
type Options struct {
	// Backend is BackendInstant (the default) or BackendNspawn.
	Backend string
	// StateDir keeps ledger, certificates, tokens and servers; needed for nspawn.
	StateDir string
	// RootFSDir caches the servers' root file system; needed for nspawn.
	RootFSDir string
	// Bind is the address the API, proxy and file server listen on: by default
	// the bridge's with nspawn, else loopback. The bridge is made when it is its address.
	Bind string
	// APIPort, ProxyPort, FilesPort and AdminPort choose ports; 0 takes a free one.
	APIPort, ProxyPort, FilesPort, AdminPort int
	// Tokens are further API tokens beside the default one.
	Tokens []account.Token
	// BootDelay is how long a droplet stays new before it is started.
	BootDelay time.Duration
	// DropletLimit is the account's quota; 0 means 10,000.
	DropletLimit int
	// RateLimit is the number of requests per token and hour; 0 enforces none.
	RateLimit int
	// Routes lets the proxy reach more than the cloud: "host:port" to address.
	Routes map[string]string
	// Progress is told what is done while the root file system is made; may be nil.
	Progress io.Writer
	// Keep leaves servers running at Close, for the next Start to take over.
	Keep bool
	Log  *slog.Logger
}

func (o Options) complete() (Options, error) {
	if o.Backend == "" {
		o.Backend = BackendInstant
	}
	if o.Backend != BackendInstant && o.Backend != BackendNspawn {
		return o, fmt.Errorf("checking cloud options: there is no backend %q", o.Backend)
	}
	if o.Backend == BackendNspawn && (o.StateDir == "" || o.RootFSDir == "") {
		return o, errors.New("checking cloud options: the nspawn backend needs a state and a root file system directory")
	}
	if o.Bind == "" {
		o.Bind = "127.0.0.1"
		if o.Backend == BackendNspawn {
			o.Bind = host.Gateway
		}
	}
	if _, err := netip.ParseAddr(o.Bind); err != nil {
		return o, fmt.Errorf("checking cloud options: %w", err)
	}
	if err := o.checkNumbers(); err != nil {
		return o, err
	}
	for _, token := range o.Tokens {
		if token.Name == "" || token.Secret == "" {
			return o, fmt.Errorf("checking cloud options: token %q lacks a name or a secret", token.Name)
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

func (o Options) checkNumbers() error {
	if o.BootDelay < 0 || o.DropletLimit < 0 || o.RateLimit < 0 {
		return errors.New("checking cloud options: boot delay and limits cannot be negative")
	}
	for _, port := range []int{o.APIPort, o.ProxyPort, o.FilesPort, o.AdminPort} {
		if port < 0 || port > 65535 {
			return fmt.Errorf("checking cloud options: %d is no port", port)
		}
	}
	return nil
}
