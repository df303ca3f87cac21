// Package server defines a computer of the local cloud, and the backend whose computers exist only
// as entries in a table.
//
// The account describes a computer with a Spec and hands it to a Backend: Instant here for load, or
// package nspawn for real ones.
package server

import (
	"context"
	"errors"
	"net/netip"
	"sync"
)

// ErrNotFound is wrapped by a backend that does not know the named server.
var ErrNotFound = errors.New("server not found")

// Spec describes a server that a backend shall make.
type Spec struct {
	Name       string // unique, short enough for an interface name
	Hostname   string
	InstanceID string
	Public     netip.Addr
	Private    netip.Addr
	IPv6       netip.Addr
	Keys       []string // authorized public keys
	User       string   // an extra login with sudo, beside root
	Offline    bool
	UserData   string
}

// Backend makes servers real.
type Backend interface {
	// Create makes the server and starts it; it returns when it is booting.
	Create(ctx context.Context, spec Spec) error
	// Destroy removes the server completely; an unknown server is not an error.
	Destroy(ctx context.Context, name string) error
	// Running reports whether the server exists and runs.
	Running(name string) bool
	// AwaitEnd waits until the server has ended, and returns its last output. The result is empty
	// if ctx ends first, or if its servers have no console.
	AwaitEnd(ctx context.Context, name string) string
}

// Request asks for a server outside of the droplet API, as a test of the
// generic driver needs one.
type Request struct {
	Name     string   `json:"name"`
	User     string   `json:"user"` // a login with sudo; empty for root only
	Keys     []string `json:"keys"` // public keys in authorized_keys form
	UserData string   `json:"userData,omitempty"`
}

// Info describes a server started by a Request.
type Info struct {
	Name    string     `json:"name"`
	Address netip.Addr `json:"address"`
	User    string     `json:"user,omitempty"`
	Running bool       `json:"running"`
}

// Instant is a backend whose servers are entries in a table: thousands cost nothing.
type Instant struct {
	mu      sync.Mutex
	running map[string]bool
}

var _ Backend = (*Instant)(nil)

// NewInstant returns a backend without servers.
func NewInstant() *Instant { return &Instant{running: map[string]bool{}} }

// Create notes the server as running.
func (i *Instant) Create(_ context.Context, spec Spec) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.running[spec.Name] = true
	return nil
}

// Destroy forgets the server.
func (i *Instant) Destroy(_ context.Context, name string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.running, name)
	return nil
}

// Running reports whether the server was made.
func (i *Instant) Running(name string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.running[name]
}

// AwaitEnd returns immediately: a simulated server has no console.
func (i *Instant) AwaitEnd(context.Context, string) string { return "" }
