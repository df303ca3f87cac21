package account

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/digitalocean/godo"

	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/e2e/cloud/server"
)

// The first ids; far apart, so that one kind's id is never taken for another's.
const (
	firstKeyID     = 20_000_001
	firstDropletID = 100_000_001
	firstActionID  = 900_000_001
	// slotSize is how many droplet ids a slot has.
	slotSize = 10_000_000
)

// Options configures an Account.
type Options struct {
	Backend server.Backend // makes droplets real
	Ledger  *ledger.Ledger // records every change; read at start
	Network *Network       // gives addresses to droplets
	// BootDelay is how long a droplet stays new before the backend is asked.
	BootDelay time.Duration
	// DropletLimit is the account's quota; 0 means 10,000.
	DropletLimit int
	// Slot sets the droplets' ids apart from those of other clouds on this
	// machine; they name servers, which all share one network.
	Slot int
	Log  *slog.Logger
}

// Caller says on whose behalf and in which request something is done.
type Caller struct {
	Token     string // the token's name
	RequestID string
	Cause     string // when it is not a plain API request
}

// Account is one customer's account. It is safe for concurrent use.
type Account struct {
	opts     Options
	ctx      context.Context // of the boots that go on after their request
	cancel   context.CancelFunc
	booting  sync.WaitGroup
	mu       sync.Mutex
	keys     map[int]godo.Key
	droplets map[int]*droplet
	actions  map[int]*godo.Action
	tags     map[string]bool
	nextKey  int
	nextDrop int
	nextAct  int
}

// New returns the account that the ledger describes, taking over its droplets.
func New(ctx context.Context, opts Options) (*Account, error) {
	if opts.DropletLimit == 0 {
		opts.DropletLimit = 10_000
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	a := &Account{
		opts: opts,
		keys: map[int]godo.Key{}, droplets: map[int]*droplet{}, actions: map[int]*godo.Action{}, tags: map[string]bool{},
		nextKey: firstKeyID, nextDrop: firstDropletID + opts.Slot*slotSize, nextAct: firstActionID,
	}
	a.ctx, a.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := a.replay(ctx); err != nil {
		a.cancel()
		return nil, err
	}
	return a, nil
}

// Close stops boots that are under way and waits for them. Droplets stay.
func (a *Account) Close() {
	a.cancel()
	a.booting.Wait()
}

// Info answers what the API tells about the account.
func (a *Account) Info() godo.Account {
	a.mu.Lock()
	defer a.mu.Unlock()
	return godo.Account{
		DropletLimit: a.opts.DropletLimit, FloatingIPLimit: 3, ReservedIPLimit: 3, VolumeLimit: 100,
		Email: "drover@example.test", Name: "Drover Test", UUID: "5f2b6a0c-3f4e-4a43-9a51-0f4d8c0c7a11", EmailVerified: true,
		Status: "active", Team: &godo.TeamInfo{Name: "Drover", UUID: "2b6f0f4e-9e2e-4e0d-8f13-6f3a1c6b7d22"},
	}
}

// record writes one change to the ledger. A ledger that cannot be written is
// logged and not an answer to the client: the change has already happened.
func (a *Account) record(caller Caller, entry ledger.Entry) {
	entry.Token, entry.RequestID = caller.Token, caller.RequestID
	if entry.Cause == "" {
		entry.Cause = caller.Cause
	}
	if err := a.opts.Ledger.Append(entry); err != nil {
		a.opts.Log.Error("writing ledger", "error", err)
	}
}

// SetDropletLimit changes the account's quota.
func (a *Account) SetDropletLimit(limit int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.opts.DropletLimit = limit
}
