package server

import (
	"context"
	"fmt"
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

// Adopt notes the server again; there was nothing that could have been lost.
func (i *Instant) Adopt(_ context.Context, spec Spec, on bool) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.running[spec.Name] = on
	return nil
}

// Power notes the new power state.
func (i *Instant) Power(_ context.Context, name string, change Power) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, ok := i.running[name]; !ok {
		return fmt.Errorf("changing power of %s: %w", name, ErrNotFound)
	}
	switch change {
	case PowerOn, Reboot:
		i.running[name] = true
	case PowerOff, Shutdown:
		i.running[name] = false
	default:
		return fmt.Errorf("changing power of %s: there is no change %q", name, change)
	}
	return nil
}

// Destroy forgets the server.
func (i *Instant) Destroy(_ context.Context, name string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.running, name)
	return nil
}

// Running reports the noted power state.
func (i *Instant) Running(name string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.running[name]
}

// AwaitEnd returns at once: what is no computer prints nothing.
func (i *Instant) AwaitEnd(context.Context, string) string { return "" }
