package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/files"
	"github.com/drover-project/drover/e2e/cloud/host"
	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/e2e/cloud/nspawn"
	"github.com/drover-project/drover/e2e/cloud/pki"
	"github.com/drover-project/drover/e2e/cloud/proxy"
	"github.com/drover-project/drover/e2e/cloud/server"
)

// Cloud is a local cloud.
type Cloud struct {
	opts      Options
	state     *stateDir
	authority *pki.Authority
	ledger    *ledger.Ledger
	tokens    *account.Tokens
	faults    *fault.Set
	files     *files.Server
	network   *account.Network
	backend   server.Backend
	real      *nspawn.Backend // the backend, when servers are real
	host      *host.Host      // when the bridge is used
	account   *account.Account
	proxy     *proxy.Proxy
	endpoints Endpoints
	listening []*http.Server

	mu      sync.Mutex
	servers map[string]*ownServer
	nextID  int
}

// New opens the state of a cloud; nothing listens or runs before Start.
func New(opts Options) (*Cloud, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	state, err := openState(opts.StateDir)
	if err != nil {
		return nil, err
	}
	c := &Cloud{
		opts: opts, state: state, faults: fault.NewSet(), files: files.New(), servers: map[string]*ownServer{}, nextID: 1,
	}
	if err := c.load(); err != nil {
		return nil, errors.Join(err, state.close())
	}
	return c, nil
}

func (c *Cloud) load() (err error) {
	if c.authority, err = pki.Open(c.opts.StateDir); err != nil {
		return err
	}
	if c.ledger, err = ledger.Open(c.state.path("ledger.jsonl")); err != nil {
		return err
	}
	c.tokens, err = c.state.loadTokens(c.opts.Tokens)
	return err
}

// Start takes over what an earlier process left running, and listens.
func (c *Cloud) Start(ctx context.Context) error {
	if err := c.prepareHost(ctx); err != nil {
		return err
	}
	var err error
	c.account, err = account.New(ctx, account.Options{
		Backend: c.backend, Ledger: c.ledger, Network: c.network, BootDelay: c.opts.BootDelay,
		DropletLimit: c.opts.DropletLimit, Slot: c.slot(), Log: c.opts.Log,
	})
	if err != nil {
		return fmt.Errorf("opening account: %w", err)
	}
	if err := c.adoptServers(ctx); err != nil {
		return err
	}
	if err := c.listen(); err != nil {
		return errors.Join(err, c.stopListening())
	}
	return c.state.write(endpointsFile, c.endpoints)
}

// Close stops listening and removes every server, unless they shall be kept.
func (c *Cloud) Close() error {
	ctx := context.Background()
	errs := []error{c.stopListening()}
	if c.account != nil {
		c.account.Close()
	}
	if c.account != nil && !c.opts.Keep {
		errs = append(errs, c.account.DestroyAll(ctx, "cloud closed"))
		for _, own := range c.Servers() {
			errs = append(errs, c.StopServer(ctx, own.Name))
		}
	}
	errs = append(errs, c.restoreHost(ctx))
	return errors.Join(append(errs, c.ledger.Close(), c.state.close())...)
}

// Account returns the account behind the API.
func (c *Cloud) Account() *account.Account { return c.account }

// Faults returns the programmed faults of the API.
func (c *Cloud) Faults() *fault.Set { return c.faults }

// Files returns the file server.
func (c *Cloud) Files() *files.Server { return c.files }

// Ledger returns the record of everything ever made.
func (c *Cloud) Ledger() *ledger.Ledger { return c.ledger }

// Live returns what exists now; with kinds, only those.
func (c *Cloud) Live(kinds ...ledger.Kind) []ledger.Record { return c.ledger.Live(kinds...) }

// Token returns the secret of the default token.
func (c *Cloud) Token() string { return c.tokens.Secret(DefaultToken) }

// CAPEM returns the certificate of the authority that signed all endpoints.
func (c *Cloud) CAPEM() []byte { return c.authority.PEM() }

// CAFile returns the path of that certificate, or nothing without a state directory.
func (c *Cloud) CAFile() string { return c.state.path("ca.pem") }
