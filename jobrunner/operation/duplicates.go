package operation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation/finder"
)

// maxNamed is how many further servers a message names.
const maxNamed = 4

// duplicates holds the facts about the servers that carry a machine's tag beside the recorded one.
type duplicates struct {
	// isListed reports whether the cloud's answer lists the recorded server too: without it the
	// answer is about something else.
	isListed bool
	// isCopyable reports whether a copy that a user makes of a server carries the server's tags.
	isCopyable bool
	// isInert reports whether the servers started without bootstrap data, so that no agent runs on
	// them.
	isInert bool
	// isNew reports whether this attempt made the server: the manager answered about agents before
	// that.
	isNew bool
	// registered is Request.Registered, and recorded the ID of the recorded server.
	registered, recorded string
}

// verdict is the action on the further servers.
type verdict string

const (
	removeThem verdict = "remove"
	askAgain   verdict = "ask the manager again"
	nameThem   verdict = "name"
)

// judge decides. A server is removed only if certainly no agent of the machine runs on it.
func (d duplicates) judge() (verdict, string) {
	switch {
	case !d.isListed:
		return nameThem, "the cloud does not list the recorded server"
	case d.isCopyable:
		return nameThem, "one may be a user's copy of the other"
	case d.isInert, d.registered == d.recorded:
		return removeThem, ""
	case d.registered == "":
		return nameThem, "each has the bootstrap data, and Drover cannot know which one has joined the cluster"
	case d.registered == jobrunner.RegisteredNone && d.isNew:
		return askAgain, "the next attempt removes what no agent has registered from"
	case d.registered == jobrunner.RegisteredNone:
		return removeThem, ""
	case d.registered == jobrunner.RegisteredUnknown:
		return nameThem, "an agent has registered from one of them, and the cloud does not tell from which one"
	}
	return nameThem, fmt.Sprintf("the agent has registered from server %s", d.registered)
}

// settleDuplicates asks the finder once whether the cloud made more than one server for the
// machine, as it does when the driver's SDK repeats a request whose answer was lost. Each server
// has the machine's bootstrap data, so that one too many is removed before it can join the cluster,
// or the machine names it.
func (s *session) settleDuplicates(ctx context.Context) error {
	recorded := s.profile.ServerID(s.record)
	if s.finder == nil || recorded == "" {
		return nil
	}
	found, err := s.find(ctx, false)
	if cancelled(err) {
		return err
	}
	if err != nil {
		s.note("whether the cloud has a second server for this machine is not known: %v", err)
		return nil
	}
	further := slices.DeleteFunc(slices.Clone(found), func(server finder.Server) bool { return server.ID == recorded })
	if len(further) == 0 {
		return nil
	}
	act, why := duplicates{
		isListed: len(further) < len(found), isCopyable: s.profile.TagsCopied, isInert: s.startsInert(), isNew: s.result.Made,
		registered: s.request.Registered, recorded: recorded,
	}.judge()
	said := fmt.Sprintf("the cloud has more servers with this machine's tag than the recorded one (%s): %s", recorded, s.listed(further))
	switch act {
	case askAgain:
		return failf(rkev1.DuplicateServersReason, rkev1.ClassTransient, "%s; %s", said, why)
	case nameThem:
		return failf(rkev1.DuplicateServersReason, rkev1.ClassInvalid, "%s. They are not removed: %s", said, why)
	case removeThem:
	}
	for _, server := range further {
		s.log.printf("removing %s: the cloud made more than one server for this machine", s.called(server))
		if err := s.finder.Remove(ctx, server); err != nil {
			return s.driverFailure(rkev1.DuplicateServersReason, fmt.Errorf("%s. %w", said, err))
		}
	}
	s.note("%s. They were removed", said)
	return nil
}

// startsInert reports whether a new server has no bootstrap data until the Job sends it over SSH.
func (s *session) startsInert() bool {
	return !s.request.HasBootstrap || s.way.Habit == clouds.None
}

func (s *session) listed(servers []finder.Server) string {
	var names []string
	for _, server := range servers[:min(len(servers), maxNamed)] {
		names = append(names, s.called(server))
	}
	if more := len(servers) - maxNamed; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
