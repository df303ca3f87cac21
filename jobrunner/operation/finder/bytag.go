package finder

import (
	"bytes"
	"cmp"
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
	// list returns the servers with a tag that names a machine. With the value of one of Drover's
	// tags it returns the servers with that value at the place that the options give; without a
	// value, the servers of the whole account. An incomplete list is an error.
	list(ctx context.Context, tag, value string) ([]Server, error)
	// get reads again a server that list returned or that a driver's record names (then it has no
	// ID). The result has no tags if the server has none of Drover's, and is empty if the server
	// does not exist.
	get(ctx context.Context, server Server) (Server, error)
	// destroy removes a server that get returned. If the server is already gone, it returns nil.
	destroy(ctx context.Context, server Server) error
	// Within returns the common prefix of the providerIDs of all servers that list can see without
	// a UID: an account may have more places than a credential names. It is empty if list sees all
	// of the driver's servers.
	Within(ctx context.Context) string
	// Sweep removes the resources that the driver left beside servers (see Finder).
	Sweep(ctx context.Context, machine Machine) error
}

// wholeAccount is embedded by clouds whose lists have all servers of an account, because a token
// belongs to one account.
type wholeAccount struct{}

// Within implements cloud.
func (wholeAccount) Within(context.Context) string { return "" }

// nothingBeside is embedded by clouds whose drivers leave no resources beside servers: the key is
// only in the server, and the disk is deleted with it.
type nothingBeside struct{}

// Sweep implements cloud.
func (nothingBeside) Sweep(context.Context, Machine) error { return nil }

var (
	errNoTag = errors.New("looking for servers: the machine has no tag with its UID")
	// errNotOurs prevents the removal of a server that got another owner after it was listed.
	errNotOurs = errors.New("it no longer has the tag of its machine")
	// errTooMany means that a list has no end that is worth waiting for.
	errTooMany = errors.New("looking for servers by tag: there are too many to list them all")
)

// ByTag finds servers by the tag of one machine's UID, and lists all of an account that carry our
// tags. Errors are the cloud's own.
type ByTag struct {
	cloud

	driver string
	pause  func(context.Context, time.Duration) error
}

var (
	_ Finder = ByTag{}
	_ Owner  = ByTag{}
)

// Find implements Finder.
func (b ByTag) Find(ctx context.Context, machine Machine) ([]Server, error) {
	uid, patience := clouds.Of(b.driver).Tags.Value(machine.Tags[jobrunner.TagMachineUID]), cmp.Or(patiences[b.driver], lastPatience)
	for wait := firstPatience; ; wait *= 2 {
		found, err := b.ask(ctx, jobrunner.TagMachineUID, uid)
		found = slices.DeleteFunc(found, func(server Server) bool { return !machine.Owns(b.driver, server) })
		for i := range found {
			shutOut := found[i].keys != nil && len(machine.PublicKey) > 0 &&
				!slices.ContainsFunc(found[i].keys, func(key string) bool { return sameKey(key, machine.PublicKey) })
			found[i].Unfinished = found[i].broken || shutOut
		}
		if err != nil || len(found) > 0 || !machine.Lost || wait > patience {
			return found, err
		}
		if err := b.pause(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// Namesakes implements Finder.
func (b ByTag) Namesakes(ctx context.Context, machine Machine) ([]Server, error) {
	of := func(tag string) string { return clouds.Of(b.driver).Tags.Value(machine.Tags[tag]) }
	if of(jobrunner.TagMachine) == "" || of(jobrunner.TagManagement) == "" {
		return nil, nil
	}
	found, err := b.ask(ctx, jobrunner.TagMachine, of(jobrunner.TagMachine))
	return slices.DeleteFunc(found, func(server Server) bool {
		return server.Tags[jobrunner.TagMachineUID] == of(jobrunner.TagMachineUID) || server.Tags[jobrunner.TagManagement] != of(jobrunner.TagManagement)
	}), err
}

// ask believes no cloud that its filter was applied.
func (b ByTag) ask(ctx context.Context, tag, value string) ([]Server, error) {
	if value == "" {
		return nil, errNoTag
	}
	bounded, cancel := context.WithTimeoutCause(ctx, findTimeout, errTooSlow)
	defer cancel()
	listed, err := b.list(bounded, tag, value)
	if err != nil && ctx.Err() != nil {
		// Amazon's SDK hides why it was cut off.
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("looking for servers by tag: %w", err)
	}
	return slices.DeleteFunc(listed, func(server Server) bool { return server.Tags[tag] != value }), nil
}

// List returns all servers that have a tag with a machine's UID. An incomplete list is an error: a
// caller would take the missing servers for gone.
func (b ByTag) List(ctx context.Context) ([]Server, error) {
	found, err := b.list(ctx, jobrunner.TagMachineUID, "")
	if err != nil {
		return nil, fmt.Errorf("looking for servers by tag: %w", err)
	}
	return found, nil
}

// Remove implements Finder, also for servers that List returned. It reads the tag again, because
// tags can change.
func (b ByTag) Remove(ctx context.Context, server Server) error {
	now, err := server, errNoTag
	if server.Tags[jobrunner.TagMachineUID] != "" && server.ID != "" {
		now, err = b.get(ctx, server)
	}
	if err == nil && now.ID != "" {
		err = errNotOurs
		if now.Tags[jobrunner.TagMachineUID] == server.Tags[jobrunner.TagMachineUID] {
			err = b.destroy(ctx, now)
		}
	}
	if err != nil {
		return fmt.Errorf("removing server %s: %w", server.ID, err)
	}
	return nil
}

// unlessGone returns the error of a request, or nil if its object is already gone.
func unlessGone(isGone bool, err error) error {
	if isGone {
		return nil
	}
	return err
}

// Get implements Owner.
func (b ByTag) Get(ctx context.Context, record map[string]any, uid string) (Server, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, findTimeout, errTooSlow)
	defer cancel()
	server, err := b.get(ctx, Server{Record: record})
	if err != nil {
		return Server{}, fmt.Errorf("reading whose the server is: %w", err)
	}
	ours := clouds.Of(b.driver).Tags.Items(map[string]string{jobrunner.TagMachineUID: uid})
	if len(ours) > 0 && slices.Contains(server.words, ours[0]) {
		server.Tags[jobrunner.TagMachineUID] = clouds.Of(b.driver).Tags.Value(uid)
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

// wordTags reads tags in the form key:value. A tag of the maximum length may have lost its end and
// is ignored.
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

// pairTags keeps of a server's tags those with our keys, which a driver's flag writes in its own
// way; nil when they name no machine.
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
var errTooSlow = fmt.Errorf("the cloud did not list its servers within %s: timeout", findTimeout)

// Pause ends early with the context.
func Pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
