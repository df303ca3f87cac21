package account

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
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

// Vanished is the caller that destroys a droplet behind its owner's back.
var Vanished = Caller{Cause: "vanished"}

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

// Info is the API's description of the account.
var Info = godo.Account{
	DropletLimit: 10_000, Email: "drover@example.test", Name: "Drover Test", UUID: "5f2b6a0c-3f4e-4a43-9a51-0f4d8c0c7a11",
	EmailVerified: true, Status: "active",
}

// record writes one change to the ledger.
func (a *Account) record(caller Caller, entry ledger.Entry) {
	entry.Token, entry.RequestID, entry.Cause = caller.Token, caller.RequestID, caller.Cause
	a.opts.Ledger.Append(entry)
}

// Error is an answer of the API that is not a success.
type Error struct {
	Status  int    `json:"-"`
	ID      string `json:"id"`
	Message string `json:"message"`
}

// Error returns the message with its status.
func (e *Error) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.ID, e.Message) }

// NotFound is the API's answer for a resource that does not exist.
func NotFound() *Error {
	return &Error{http.StatusNotFound, "not_found", "The resource you were accessing could not be found."}
}

// Unprocessable is the API's answer for a request it understood and refuses.
func Unprocessable(message string) *Error {
	return &Error{http.StatusUnprocessableEntity, "unprocessable_entity", message}
}

// reserved addresses at the start of the public range belong to the host.
const reserved = 256

// Network hands out addresses, never the same again before all were used.
type Network struct {
	Public  netip.Prefix // addresses of the public interface
	Private netip.Prefix // of the private one, as large as Public
	Gateway netip.Addr   // the servers' default route

	mu   sync.Mutex
	next uint32
	used map[netip.Addr]bool // by public address
}

// Addresses are the addresses of one server.
type Addresses struct {
	Public, Private, IPv6 netip.Addr
}

// Allocate returns addresses that no server has, or an error when all are in use.
func (n *Network) Allocate() (Addresses, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	size := uint32(1) << (32 - n.Public.Bits())
	if size <= reserved {
		return Addresses{}, errors.New("allocating addresses: the range is too small")
	}
	for range size {
		n.next++
		index := reserved + n.next%(size-reserved)
		public := add(n.Public.Addr(), index)
		if last := index & 0xff; last == 0 || last == 255 || n.used[public] {
			continue
		}
		if n.used == nil {
			n.used = map[netip.Addr]bool{}
		}
		n.used[public] = true
		v6 := [16]byte{0x20, 0x01, 0x0d, 0xb8, 0xd0, 0x0d}
		binary.BigEndian.PutUint32(v6[12:], index)
		return Addresses{Public: public, Private: add(n.Private.Addr(), index), IPv6: netip.AddrFrom16(v6)}, nil
	}
	return Addresses{}, errors.New("allocating addresses: none left")
}

// Release gives the addresses back.
func (n *Network) Release(public netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.used, public)
}

func add(base netip.Addr, index uint32) netip.Addr {
	bytes := base.As4()
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], binary.BigEndian.Uint32(bytes[:])+index)
	return netip.AddrFrom4(sum)
}
