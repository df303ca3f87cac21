package account

import (
	"context"
	"log/slog"
	"sync"

	"github.com/digitalocean/godo"

	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/e2e/cloud/server"
)

// The first ids; far apart, so that one kind's id is never taken for another's.
const (
	firstKeyID     = 20_000_001
	firstDropletID = 100_000_001
)

// Options configures an Account.
type Options struct {
	Backend server.Backend // makes droplets real
	Ledger  *ledger.Ledger // records every change
	Network *Network       // gives addresses to droplets
	Log     *slog.Logger
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
	tags     map[string]bool
	nextKey  int
	nextDrop int
}

// New returns an account without anything in it.
func New(ctx context.Context, opts Options) *Account {
	a := &Account{
		opts: opts, keys: map[int]godo.Key{}, droplets: map[int]*droplet{}, tags: map[string]bool{},
		nextKey: firstKeyID, nextDrop: firstDropletID,
	}
	a.ctx, a.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return a
}

// Close stops boots that are under way and waits for them. Droplets stay.
func (a *Account) Close() {
	a.cancel()
	a.booting.Wait()
}

// Info answers what the API tells about the account.
func (a *Account) Info() godo.Account {
	return godo.Account{
		DropletLimit: 10_000, Email: "drover@example.test", Name: "Drover Test", UUID: "5f2b6a0c-3f4e-4a43-9a51-0f4d8c0c7a11",
		EmailVerified: true, Status: "active",
	}
}

// record writes one change to the ledger.
func (a *Account) record(caller Caller, entry ledger.Entry) {
	entry.Token, entry.RequestID, entry.Cause = caller.Token, caller.RequestID, caller.Cause
	a.opts.Ledger.Append(entry)
}
