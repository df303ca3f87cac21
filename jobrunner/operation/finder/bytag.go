package finder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner"
)

// cloud is a cloud whose servers have tags of a key and a value.
type cloud interface {
	// list returns the servers with a tag that names a machine; with a UID, those of that machine where they could be made by
	// the options given, and without, those of the whole account. A list that is not whole is an error.
	list(ctx context.Context, uid string) ([]Tagged, error)
	// get returns the server that a driver's record names; without tags when it has none of ours, and nothing when it is not there.
	get(ctx context.Context, record map[string]any) (Tagged, error)
	// remove removes a server that list returned, if it still has its tag; one that is gone is no error.
	remove(ctx context.Context, server Tagged) error
	// within is what the providerIDs of all servers that list can see without a UID begin with.
	within(ctx context.Context) string
	// sweep removes what the driver left beside servers.
	sweep(ctx context.Context, machine Machine) error
}

func cloudFor(driver string, options flags) cloud {
	switch driver {
	case digitalOceanName:
		return newDigitalOcean(options.text("digitalocean-access-token"))
	case amazonName:
		return newAmazonEC2(options)
	case azureName:
		return newAzure(options)
	case googleName:
		return newGoogle(options)
	case hetznerName:
		return newHetzner(options)
	case linodeName:
		return newLinode(options)
	case vultrName:
		return newVultr(options)
	}
	return nil
}

var (
	errNoTag = errors.New("looking for servers: the machine has no tag with its UID")
	// errNotOurs keeps a removal from what was given to somebody else since it was listed.
	errNotOurs = errors.New("it does not carry the tag of its machine any more")
)

const (
	// findTimeout is for one question, with all its pages.
	findTimeout = 2 * time.Minute
	// patience are the pauses before a server whose answer was lost is taken for never made. Amazon: "the effects of an API
	// command might not be immediately visible to all subsequent commands"; it advises to ask again at growing intervals (EC2
	// API Reference, "Eventual consistency"). Google's and Azure's operations begin some moments after they were accepted.
	firstPatience, lastPatience = 2 * time.Second, 16 * time.Second
	// tagPatience is enough where lists do not lag, but tags come a moment after the server: DigitalOcean applies them "to the
	// Droplet after it is created" (API reference, "Create a New Droplet"). Hetzner, Linode and Vultr take them with the server.
	tagPatience = 4 * time.Second
)

// byTag finds servers by the tag of one machine's UID.
type byTag struct {
	cloud  cloud
	driver string
	pause  func(context.Context, time.Duration) error
}

var _ Finder = byTag{}

// Find implements Finder.
func (b byTag) Find(ctx context.Context, machine Machine) ([]Server, error) {
	uid := clouds.Of(b.driver).Tags.Value(machine.Tags[jobrunner.TagMachineUID])
	if uid == "" {
		return nil, errNoTag
	}
	for wait := firstPatience; ; wait *= 2 {
		found, err := b.ask(ctx, uid)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 || !machine.Lost || wait > patienceOf(b.driver) {
			return judged(found, machine), nil
		}
		if err := b.pause(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// patienceOf is the last pause.
func patienceOf(driver string) time.Duration {
	switch driver {
	case digitalOceanName, hetznerName, linodeName, vultrName:
		return tagPatience
	}
	return lastPatience
}

// ask believes no cloud that its filter was applied.
func (b byTag) ask(ctx context.Context, uid string) ([]Tagged, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, findTimeout, errTooSlow)
	defer cancel()
	listed, err := b.cloud.list(bounded, uid)
	if err != nil && ctx.Err() != nil {
		// Amazon's SDK hides why it was cut off.
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("looking for servers by tag: %w", err)
	}
	var found []Tagged
	for _, server := range listed {
		if server.Tags[jobrunner.TagMachineUID] == uid {
			found = append(found, server)
		}
	}
	return found, nil
}

// judged says of each whether it is of use to the machine.
func judged(found []Tagged, machine Machine) []Server {
	var out []Server
	for _, server := range found {
		out = append(out, Server{
			ID: server.ID, Name: server.Name, Record: server.Record, MachineUID: server.Tags[jobrunner.TagMachineUID],
			Unfinished: server.broken || server.keys != nil && len(machine.PublicKey) > 0 && !lets(server.keys, machine.PublicKey),
		})
	}
	return out
}

func lets(keys []string, public []byte) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return sameKey(key, public) })
}

// Remove implements Finder.
func (b byTag) Remove(ctx context.Context, server Server) error {
	return removeTagged(ctx, b.cloud, Tagged{ID: server.ID, Name: server.Name, Tags: map[string]string{jobrunner.TagMachineUID: server.MachineUID}})
}

// Sweep implements Finder.
func (b byTag) Sweep(ctx context.Context, machine Machine) error {
	return b.cloud.sweep(ctx, machine)
}

func removeTagged(ctx context.Context, from cloud, server Tagged) error {
	err := errNoTag
	if server.Tags[jobrunner.TagMachineUID] != "" && server.ID != "" {
		err = from.remove(ctx, server)
	}
	if err != nil {
		return fmt.Errorf("removing server %s: %w", server.ID, err)
	}
	return nil
}

// cloudLister lists all servers of an account that carry our tags.
type cloudLister struct {
	cloud cloud
}

var _ Lister = cloudLister{}

// List implements Lister.
func (c cloudLister) List(ctx context.Context) ([]Tagged, error) {
	found, err := c.cloud.list(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("looking for servers by tag: %w", err)
	}
	return found, nil
}

// Within implements Lister.
func (c cloudLister) Within(ctx context.Context) string { return c.cloud.within(ctx) }

// Remove implements Lister.
func (c cloudLister) Remove(ctx context.Context, server Tagged) error {
	return removeTagged(ctx, c.cloud, server)
}

// errTooSlow is why a question is given up.
var errTooSlow = fmt.Errorf("the cloud did not tell its servers within %s: timeout", findTimeout)

func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
