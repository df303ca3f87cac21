package server

import (
	"context"
	"sync"
)

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

// AwaitEnd returns at once: what is no computer prints nothing.
func (i *Instant) AwaitEnd(context.Context, string) string { return "" }
