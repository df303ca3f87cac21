package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/digitalocean/godo"

	"github.com/drover-project/drover/e2e/cloud/ledger"
)

// Droplets returns the droplets with the given name and tag, oldest first; empty matches all.
func (a *Account) Droplets(name, tag string) []godo.Droplet {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := []godo.Droplet{}
	for _, d := range a.selectDroplets(name, tag) {
		found = append(found, a.render(d))
	}
	return found
}

func (a *Account) selectDroplets(name, tag string) []*droplet {
	found := slices.DeleteFunc(slices.Collect(maps.Values(a.droplets)), func(d *droplet) bool {
		return name != "" && d.Spec.Hostname != name || tag != "" && !slices.Contains(d.Tags, tag)
	})
	slices.SortFunc(found, func(x, y *droplet) int { return cmp.Compare(x.ID, y.ID) })
	return found
}

// Droplet returns one droplet.
func (a *Account) Droplet(id int) (godo.Droplet, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	d, ok := a.droplets[id]
	if !ok {
		return godo.Droplet{}, NotFound()
	}
	return a.render(d), nil
}

// AwaitBoot waits until the droplet's boot has ended, well or not, for at most
// so long.
func (a *Account) AwaitBoot(ctx context.Context, id int, atMost time.Duration) {
	a.mu.Lock()
	d, ok := a.droplets[id]
	a.mu.Unlock()
	if !ok {
		return
	}
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-d.booted:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// UserData returns the user data the droplet was created with.
func (a *Account) UserData(id int) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	d, ok := a.droplets[id]
	if !ok {
		return "", NotFound()
	}
	return d.userData, nil
}

// DeleteDroplet destroys a droplet; it returns when nothing of it is left.
func (a *Account) DeleteDroplet(ctx context.Context, caller Caller, id int) error {
	a.mu.Lock()
	d, ok := a.droplets[id]
	delete(a.droplets, id)
	a.mu.Unlock()
	if !ok {
		return NotFound()
	}
	if d.stop != nil {
		d.stop()
		<-d.booted
	}
	if err := a.opts.Backend.Destroy(ctx, d.Spec.Name); err != nil {
		a.mu.Lock()
		a.droplets[id] = d
		a.mu.Unlock()
		return fmt.Errorf("destroying droplet %d: %w", id, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.opts.Network.Release(d.Spec.Public)
	a.record(caller, d.entry(ledger.OpRemoved))
	return nil
}

// Vanish destroys a droplet behind the client's back.
func (a *Account) Vanish(ctx context.Context, id int) error {
	return a.DeleteDroplet(ctx, Caller{Cause: "vanished"}, id)
}

// DestroyAll destroys every droplet, as the end of the cloud.
func (a *Account) DestroyAll(ctx context.Context, cause string) error {
	a.mu.Lock()
	doomed := a.selectDroplets("", "")
	a.mu.Unlock()
	var errs []error
	for _, d := range doomed {
		if err := a.DeleteDroplet(ctx, Caller{Cause: cause}, d.ID); err != nil && !IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
