package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation/finder"
	"github.com/drover-project/drover/jobrunner/operation/machinedir"
	"github.com/drover-project/drover/jobrunner/operation/plugin"
	"github.com/drover-project/drover/state"
)

const (
	goneTimeout   = 90 * time.Second
	removeTimeout = 20 * time.Minute
	maxRemovals   = 4
)

// remove makes sure that no server is left. It works without state and accepts a server that is
// already gone. It succeeds only if it is certain that no server exists, or if the user gives up
// the server.
func (s *session) remove(ctx context.Context) error {
	err := s.removeServer(ctx)
	if err == nil {
		s.advance(state.PhaseGone)
		return nil
	}
	if !s.request.Abandon || cancelled(err) {
		return err
	}
	s.note("given up by the user; server %s and its resources may remain in the cloud: %v", s.request.InstanceName, err)
	return nil
}

func (s *session) removeServer(ctx context.Context) error {
	if err := s.restore(); errors.Is(err, syscall.ENOSPC) {
		return err
	} else if err != nil {
		// An unreadable state must not leave a server behind: the finder may find it.
		s.note("the machine's state cannot be read: %v", err)
		s.record = nil
		s.advance(state.PhaseLost)
		if err := s.dir.Make(); err != nil {
			return err
		}
	}
	lost := s.journal.Phase == state.PhaseLost
	// The driver is configured from the machine's options, which have the present credential, and
	// then gets the record. If a record exists, invalid options are tolerated.
	err := s.startDriver(ctx, true)
	known, told := errors.AsType[*failure](err)
	if told && s.record != nil && s.driver != nil && known.reason == rkev1.OptionsInvalidReason {
		s.note("the machine's options cannot be used: %v", err)
		err = nil
	}
	if err == nil && s.record != nil {
		err = s.loadRecord(ctx, machinedir.Renew(s.record, s.fresh, s.credentials()))
	}
	if err != nil {
		if mayHaveServer(s.journal.Phase) || cancelled(err) {
			return err
		}
		s.note("no server was ever created, so the driver's failure is ignored: %v", err)
		return nil
	}
	if s.profile.NoServer {
		return s.cleanHost(ctx)
	}
	if _, err := s.inquire(ctx, forRemove, nil); err != nil || !lost {
		return err
	}
	return s.checkFormer(ctx)
}

// checkFormer looks for other traces of the machine's server before it reports the removal of a
// machine whose state is lost. After a restore the machine's UID differs from the UID in its
// server's tag, and every record of the old UID is lost. Drover never touches such a server:
// another machine may have the same name in its tag, and any user can write a provider ID.
func (s *session) checkFormer(ctx context.Context) error {
	if s.owner == nil {
		if s.request.ProviderID != "" && !s.foundOurs && s.naming() != byName {
			return s.former("the cloud cannot be queried for server " + s.request.ProviderID)
		}
		return nil
	}
	if err := s.checkGiven(ctx); err != nil || !s.profile.Lists {
		return err
	}
	listed, err := finder.ListerFor(s.request.Driver.Name, s.placed()).List(ctx)
	if err != nil {
		return s.driverFailure(rkev1.LookupFailedReason, err)
	}
	for _, server := range listed {
		if server.Tags[jobrunner.TagMachine] == s.profile.Tags.Value(s.request.Tags[jobrunner.TagMachine]) && s.isAnothers(server) {
			return s.former("the cloud has " + s.called(server))
		}
	}
	return nil
}

// checkGiven looks for the server that the provider ID names.
func (s *session) checkGiven(ctx context.Context) error {
	named := s.given()
	if named == nil {
		return nil
	}
	server, err := s.owner.Get(ctx, named, s.request.Tags[jobrunner.TagMachineUID])
	unexplained := !s.foundOurs && s.profile.ServerID(named) != "" && s.profile.ServerID(s.record) == ""
	switch {
	case err != nil:
		return s.driverFailure(rkev1.LookupFailedReason, err)
	case server.ID != "" && (unexplained || s.isAnothers(server)):
		return s.former("its provider ID names " + s.called(server))
	}
	return nil
}

func (s *session) isAnothers(server finder.Server) bool {
	return !s.target().Owns(s.request.Driver.Name, server)
}

// given returns a record with the fields that the machine's provider ID contains, or nil if it
// contains none.
func (s *session) given() clouds.Record {
	named := clouds.Unfill(cmp.Or(s.request.ProviderIDTemplate, s.profile.ProviderID), s.request.ProviderID)
	if named == nil {
		return nil
	}
	return layered(s.fresh, named)
}

// called describes a server by its name and addresses at the cloud, and by its owner according to
// its tags.
func (s *session) called(server finder.Server) string {
	known := []string{server.Name}
	for _, address := range s.serverOf(server).Addresses {
		if !slices.Contains(known, address.Address) {
			known = append(known, address.Address)
		}
	}
	text := fmt.Sprintf("server %s (%s", server.ID, strings.Join(known, ", "))
	if uid := server.Tags[jobrunner.TagMachineUID]; uid != "" {
		return fmt.Sprintf("%s), which was created for machine %s (UID %s)", text, server.Tags[jobrunner.TagMachine], uid)
	}
	return text + "), which has no tag of a machine"
}

func (s *session) former(what string) error {
	return failf(rkev1.ServerMayExistReason, rkev1.ClassInvalid, "the machine's state is lost, and %s: it may be this machine's server from before a restore. "+
		"Restore the state Secret. Or check the cloud, remove the server there if it belongs to this machine, and then give it up with the annotation %s", what, rkev1.AbandonAnnotation)
}

// removeByDriver lets the driver remove its server. Afterwards the driver and the finder must be
// asked again.
func (q *inquiry) removeByDriver(ctx context.Context) error {
	e := &q.known
	if e.purpose == forCreate {
		q.log.printf("removing the incomplete server of an earlier attempt")
	}
	if e.purpose == forRemove && e.record >= namesServer {
		q.advance(state.PhaseRemoving)
		if err := q.saveProgress(ctx); err != nil {
			return fail(rkev1.StateUnwritableReason, rkev1.ClassTransient, err)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, removeTimeout, fmt.Errorf("the driver did not remove the server within %s", removeTimeout))
	defer cancel()
	q.log.printf("asking the driver to remove the server (Remove)")
	err := q.do(ctx, plugin.Remove)
	e.driver, e.finder, q.err, q.said = driverUnasked, q.unasked(), nil, err
	if err == nil {
		e.removal = removed
		return nil
	}
	if q.isGone(err) {
		e.removal = removedNothing // it may be about something else than the server
		return nil
	}
	e.removal, q.err = removalFailed, q.driverFailure(rkev1.RemoveFailedReason, err)
	q.log.printf("the driver failed to remove the server: %v", err)
	if cancelled(q.err) {
		return q.err
	}
	return nil
}

// removeAllFound removes the servers that the finder found. During a create, a driver that goes by
// names removes a server that is proven to be ours: it knows the server's other parts, such as its
// disk, which carry no tag.
func (q *inquiry) removeAllFound(ctx context.Context) error {
	e := &q.known
	if e.purpose != forRemove {
		q.log.printf("server %s was found by its tag, but it is incomplete or its SSH key is lost", q.found[0].ID)
		named := slices.ContainsFunc(q.found, func(server finder.Server) bool { return server.Name == q.request.InstanceName })
		if e.naming == byName && named {
			q.log.printf("removing server %s by its name", q.request.InstanceName)
			if err := q.do(ctx, plugin.Remove); err != nil {
				q.log.printf("the driver failed to remove the server: %v", err)
			}
			var err error
			if q.found, err = q.find(ctx, false); err != nil {
				return err
			}
		}
	}
	if err := q.awaitRemoval(ctx); err != nil {
		return errors.Join(q.err, err)
	}
	e.finder = foundNone
	return nil
}

// awaitRemoval removes the servers that were found and waits until the finder finds none. A cloud
// may refuse to remove a server that it is already removing, so that several tries are allowed.
func (q *inquiry) awaitRemoval(ctx context.Context) error {
	deadline := time.Now().Add(goneTimeout)
	failures := 0
	for wait := time.Second; len(q.found) > 0; wait = min(2*wait, maxPause) {
		var err error
		for _, server := range q.found {
			q.log.printf("removing server %s, found by its tag", server.ID)
			if err = q.finder.Remove(ctx, server); err != nil {
				err = q.driverFailure(rkev1.RemoveFailedReason, err)
				break
			}
		}
		if failures++; err == nil {
			failures = 0
		}
		if err != nil && (failures == maxRemovals || classOf(err) == rkev1.ClassUnauthorized) {
			return err
		}
		if time.Now().After(deadline) {
			return failf(rkev1.RemoveFailedReason, rkev1.ClassTransient, "the cloud still lists servers %s after their removal", goneTimeout)
		}
		if err := finder.Pause(ctx, wait); err != nil {
			return err
		}
		if q.found, err = q.find(ctx, false); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes keys and the like. An error becomes a note, because such leftovers cost nothing.
func (s *session) sweep(ctx context.Context) {
	if s.finder == nil {
		return
	}
	if err := s.finder.Sweep(ctx, s.target()); err != nil {
		s.note("resources that the driver left beside the server were not removed: %v", err)
	}
}

// sweepKeys removes the resources that were registered beside a server that is gone, before the
// state forgets it. A temporary error fails the attempt, which is retried; if the credential lacks
// the permission, it adds a note.
func (s *session) sweepKeys(ctx context.Context) error {
	if s.finder == nil {
		return nil
	}
	err := s.finder.Sweep(ctx, s.target())
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // the next attempt finishes it
	}
	for _, one := range parts(err) {
		failed := s.driverFailure(rkev1.LookupFailedReason, one)
		if class := classOf(failed); class == rkev1.ClassTransient || jobrunner.IsShared(class) {
			return failed
		}
	}
	s.note("resources that the driver left beside the server were not removed: %v", err)
	return nil
}

// parts are the errors that a joined one is made of.
func parts(err error) []error {
	joined, ok := any(err).(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, one := range joined.Unwrap() {
		all = append(all, parts(one)...)
	}
	return all
}
