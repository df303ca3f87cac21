package vcenter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/e2e/cloud/server"
)

// Guests run the guests of virtual machines. Methods are called one at a time.
type Guests interface {
	// Start starts a guest and returns its address; any error leaves nothing behind.
	Start(ctx context.Context, name string, seed Seed) (netip.Addr, error)
	// Stop ends a guest; a missing guest is not an error.
	Stop(ctx context.Context, name string) error
	// Close ends all guests.
	Close() error
}

var (
	_ Guests = (*Addresses)(nil)
	_ Guests = (*Servers)(nil)
)

// Addresses are guests that are addresses and nothing else; the seeds they were started with are
// kept for tests.
type Addresses struct {
	mu    sync.Mutex
	count uint8
	seeds map[string]Seed
}

// Start gives the next address of 198.18.250.0/24.
func (a *Addresses) Start(_ context.Context, name string, seed Seed) (netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count == 254 {
		return netip.Addr{}, errors.New("all addresses are given away")
	}
	a.count++
	if a.seeds == nil {
		a.seeds = map[string]Seed{}
	}
	a.seeds[name] = seed
	return netip.AddrFrom4([4]byte{198, 18, 250, a.count}), nil
}

// Stop does nothing: addresses are not given twice.
func (a *Addresses) Stop(context.Context, string) error { return nil }

// Close does nothing.
func (a *Addresses) Close() error { return nil }

// Seed is the seed that a guest was started with.
func (a *Addresses) Seed(name string) Seed {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seeds[name]
}

// Servers are guests that are real servers of the local cloud, outside of its droplet API.
type Servers struct {
	// CloudDir is the state directory of the cloud that runs them.
	CloudDir string

	running map[string]bool
}

// Start boots a server with the seed's user data.
func (s *Servers) Start(ctx context.Context, name string, seed Seed) (netip.Addr, error) {
	printed, err := cloud.Ask(ctx, s.CloudDir, "server", "add", "--user-data="+seed.UserData, "--", name)
	if err != nil {
		return netip.Addr{}, err
	}
	var info server.Info
	if err := json.Unmarshal([]byte(printed), &info); err != nil {
		return netip.Addr{}, fmt.Errorf("reading what server %s is: %w", name, err)
	}
	if s.running == nil {
		s.running = map[string]bool{}
	}
	s.running[name] = true
	return info.Address, nil
}

// Stop removes a server. If the removal fails, the server stays known, so that it can be tried
// again.
func (s *Servers) Stop(ctx context.Context, name string) error {
	if !s.running[name] {
		return nil
	}
	if _, err := cloud.Ask(ctx, s.CloudDir, "server", "rm", "--", name); err != nil {
		return err
	}
	delete(s.running, name)
	return nil
}

// Close removes all servers.
func (s *Servers) Close() error {
	var errs []error
	for _, name := range slices.Collect(maps.Keys(s.running)) {
		errs = append(errs, s.Stop(context.Background(), name))
	}
	return errors.Join(errs...)
}
