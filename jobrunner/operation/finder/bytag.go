package finder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner"
)

// cloud is a cloud whose servers have tags of a key and a value.
type cloud interface {
	// list returns the servers with a tag that names a machine; with the value of a tag of ours, those that have it where they could
	// be made by the options given, and without, those of the whole account. A list that is not whole is an error.
	list(ctx context.Context, tag, value string) ([]Tagged, error)
	// get returns the server that a driver's record names; without tags when it has none of ours, and nothing when it is not there.
	get(ctx context.Context, record map[string]any) (Tagged, error)
	// remove removes a server that list returned, if it still has its tag; one that is gone is no error.
	remove(ctx context.Context, server Tagged) error
	// within is what the providerIDs of all servers that list can see without a UID begin with.
	within(ctx context.Context) string
	// sweep removes what the driver left beside servers.
	sweep(ctx context.Context, machine Machine) error
}

var (
	errNoTag = errors.New("looking for servers: the machine has no tag with its UID")
	// errNotOurs keeps a removal from what was given to somebody else since it was listed.
	errNotOurs = errors.New("it does not carry the tag of its machine any more")
	// errTooMany means that a list has no end that is worth waiting for.
	errTooMany = errors.New("looking for servers by tag: there are too many to list them all")
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
	patience := lastPatience
	switch b.driver {
	case digitalOceanName, hetznerName, linodeName, vultrName:
		patience = tagPatience
	}
	for wait := firstPatience; ; wait *= 2 {
		found, err := b.find(ctx, uid, machine)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 || !machine.Lost || wait > patience {
			return found, nil
		}
		if err := b.pause(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// find says of each server of a machine whether it is of use to who has the machine's key.
func (b byTag) find(ctx context.Context, uid string, machine Machine) ([]Server, error) {
	listed, err := b.ask(ctx, jobrunner.TagMachineUID, uid)
	var found []Server
	for _, server := range listed {
		if !machine.Owns(b.driver, server) {
			continue
		}
		shutOut := server.keys != nil && len(machine.PublicKey) > 0 && !slices.ContainsFunc(server.keys, func(key string) bool { return sameKey(key, machine.PublicKey) })
		found = append(found, Server{ID: server.ID, Name: server.Name, Record: server.Record, MachineUID: uid, Unfinished: server.broken || shutOut})
	}
	return found, err
}

// Namesakes implements Finder.
func (b byTag) Namesakes(ctx context.Context, machine Machine) ([]Tagged, error) {
	of := func(tag string) string { return clouds.Of(b.driver).Tags.Value(machine.Tags[tag]) }
	if of(jobrunner.TagMachine) == "" || of(jobrunner.TagManagement) == "" {
		return nil, nil
	}
	found, err := b.ask(ctx, jobrunner.TagMachine, of(jobrunner.TagMachine))
	return slices.DeleteFunc(found, func(server Tagged) bool {
		return server.Tags[jobrunner.TagMachineUID] == of(jobrunner.TagMachineUID) || server.Tags[jobrunner.TagManagement] != of(jobrunner.TagManagement)
	}), err
}

// ask believes no cloud that its filter was applied.
func (b byTag) ask(ctx context.Context, tag, value string) ([]Tagged, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, findTimeout, errTooSlow)
	defer cancel()
	listed, err := b.cloud.list(bounded, tag, value)
	if err != nil && ctx.Err() != nil {
		// Amazon's SDK hides why it was cut off.
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("looking for servers by tag: %w", err)
	}
	return slices.DeleteFunc(listed, func(server Tagged) bool { return server.Tags[tag] != value }), nil
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
	found, err := c.cloud.list(ctx, jobrunner.TagMachineUID, "")
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

// cloudOwner reads whose a server is.
type cloudOwner struct {
	cloud  cloud
	driver string
}

var _ Owner = cloudOwner{}

// Get implements Owner.
func (c cloudOwner) Get(ctx context.Context, record map[string]any, uid string) (Tagged, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, findTimeout, errTooSlow)
	defer cancel()
	server, err := c.cloud.get(ctx, record)
	if err != nil {
		return Tagged{}, fmt.Errorf("reading whose the server is: %w", err)
	}
	ours := clouds.Of(c.driver).Tags.Items(map[string]string{jobrunner.TagMachineUID: uid})
	if len(ours) > 0 && slices.Contains(server.words, ours[0]) {
		server.Tags[jobrunner.TagMachineUID] = clouds.Of(c.driver).Tags.Value(uid)
	}
	return server, nil
}

// recordText is a field of a record as text; numbers are as the driver writes them.
func recordText(record map[string]any, field string) string {
	if record[field] == nil {
		return ""
	}
	return fmt.Sprint(record[field])
}

// wordTags reads tags that are words: key:value. One as long as a tag can be may have lost its end, and says nothing.
func wordTags(driver string, words []string) map[string]string {
	pairs := map[string]string{}
	longest := clouds.Of(driver).Tags.MaxKey
	for _, word := range words {
		if key, value, ok := strings.Cut(word, ":"); ok && len(word) < longest {
			pairs[key] = value
		}
	}
	return pairTags(driver, pairs)
}

// pairTags keeps of a server's tags those with our keys, which a driver's flag writes in its own way; nil when they name no machine.
func pairTags(driver string, pairs map[string]string) map[string]string {
	flag, tags := clouds.Of(driver).Tags, map[string]string{}
	for _, key := range []string{jobrunner.TagMachineUID, jobrunner.TagMachine, jobrunner.TagCluster, jobrunner.TagClusterUID, jobrunner.TagManagement} {
		if value := pairs[flag.Key(key)]; value != "" {
			tags[key] = value
		}
	}
	if tags[jobrunner.TagMachineUID] == "" {
		return nil
	}
	return tags
}

// sameKey compares type and key, not the comment.
func sameKey(line string, public []byte) bool {
	a, b := strings.Fields(line), bytes.Fields(public)
	return len(a) >= 2 && len(b) >= 2 && a[0] == string(b[0]) && a[1] == string(b[1])
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
