package vcenter

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"

	"github.com/drover-project/drover/e2e/cloud/admin"
	"github.com/drover-project/drover/e2e/cloud/server"
)

// Guests run what virtual machines run. Methods are called one at a time.
type Guests interface {
	// Start starts a guest and returns its address; any error leaves nothing behind.
	Start(ctx context.Context, name string, seed Seed) (netip.Addr, error)
	// Stop ends a guest; one that is gone is no error.
	Stop(ctx context.Context, name string) error
	// Close ends all guests.
	Close() error
}

var (
	_ Guests = (*Addresses)(nil)
	_ Guests = (*Servers)(nil)
)

// Addresses are guests that are addresses and nothing else; the seeds they were started with are kept for tests.
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

// Seed is what a guest was started with.
func (a *Addresses) Seed(name string) Seed {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seeds[name]
}

// Servers are guests that are real servers of the local cloud, outside of its droplet API.
type Servers struct {
	// Cloud runs them.
	Cloud *admin.Client

	mu    sync.Mutex
	names map[string]bool
}

// Start boots a server with the seed's user data.
func (s *Servers) Start(ctx context.Context, name string, seed Seed) (netip.Addr, error) {
	info, err := s.Cloud.StartServer(ctx, server.Request{Name: name, UserData: seed.UserData})
	if err != nil {
		return netip.Addr{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = map[string]bool{}
	}
	s.names[name] = true
	return info.Address, nil
}

// Stop removes a server. One that could not be removed stays known, for the next try.
func (s *Servers) Stop(ctx context.Context, name string) error {
	s.mu.Lock()
	known := s.names[name]
	s.mu.Unlock()
	if !known {
		return nil
	}
	if err := s.Cloud.StopServer(ctx, name); err != nil {
		servers, listErr := s.Cloud.Servers(ctx)
		if listErr != nil || slices.ContainsFunc(servers, func(info server.Info) bool { return info.Name == name }) {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, name)
	return nil
}

// Close removes all servers.
func (s *Servers) Close() error {
	s.mu.Lock()
	names := make([]string, 0, len(s.names))
	for name := range s.names {
		names = append(names, name)
	}
	s.mu.Unlock()
	var errs []error
	for _, name := range names {
		errs = append(errs, s.Stop(context.Background(), name))
	}
	return errors.Join(errs...)
}
