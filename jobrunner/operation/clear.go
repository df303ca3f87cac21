package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation/finder"
	"github.com/drover-project/drover/state"
)

const (
	goneTimeout   = 90 * time.Second
	removeTimeout = 20 * time.Minute
	maxRemovals   = 4
)

// removeByDriver lets the driver remove what it goes by. Afterwards whoever was asked before has to be asked again.
func (q *inquiry) removeByDriver(ctx context.Context) error {
	e := &q.known
	if e.purpose == forCreate {
		q.log.printf("removing the server of an earlier attempt, which was not finished")
	}
	if e.purpose == forRemove && e.record >= namesServer {
		q.advance(state.PhaseRemoving)
		if err := q.saveProgress(ctx); err != nil {
			return fail(reasonStateUnwritable, rkev1.ClassTransient, err)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, removeTimeout, fmt.Errorf("the driver did not remove the server within %s", removeTimeout))
	defer cancel()
	err := q.driver.Remove(ctx)
	e.driver, q.err, q.said = driverUnasked, nil, err
	if e.finder != noFinder {
		e.finder = finderUnasked
	}
	switch {
	case err == nil:
		e.removal = removed
	case isDriverError(err) && q.profile.IsGone(err.Error()):
		// "Not found" may be about something else than the server.
		e.removal = removedNothing
	default:
		e.removal, q.err = removalFailed, q.driverFailure(reasonRemoveFailed, err)
		q.log.printf("the driver failed to remove the server: %v", err)
		if cancelled(q.err) {
			return q.err
		}
	}
	return nil
}

// removeAllFound removes the servers that the finder found. When one is made, a driver that goes by names removes a server that
// proved to be ours, for the driver knows the parts beside it, such as its disk, which carry no tag.
func (q *inquiry) removeAllFound(ctx context.Context) error {
	e := &q.known
	if e.purpose != forRemove {
		q.log.printf("server %s was found by its tag, but it was not finished or its SSH key is lost", q.found[0].ID)
		named := slices.ContainsFunc(q.found, func(server finder.Server) bool { return server.Name == q.request.InstanceName })
		if e.naming == byName && named {
			q.log.printf("removing server %s by its name", q.request.InstanceName)
			if err := q.driver.Remove(ctx); err != nil {
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

// awaitRemoval removes what was found and waits until nothing is found. A cloud may refuse to remove what it is removing
// already, so that it is asked a few times.
func (q *inquiry) awaitRemoval(ctx context.Context) error {
	deadline := time.Now().Add(goneTimeout)
	failures := 0
	for wait := time.Second; len(q.found) > 0; wait = min(2*wait, maxPause) {
		err := q.removeEach(ctx)
		if failures++; err == nil {
			failures = 0
		}
		if err != nil && (failures == maxRemovals || classOf(err) == rkev1.ClassUnauthorized) {
			return err
		}
		if time.Now().After(deadline) {
			return failf(reasonRemoveFailed, rkev1.ClassTransient, "the cloud still lists servers %s after their removal", goneTimeout)
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
		if q.found, err = q.find(ctx, false); err != nil {
			return err
		}
	}
	return nil
}

func (q *inquiry) removeEach(ctx context.Context) error {
	for _, server := range q.found {
		q.log.printf("removing server %s, found by its tag", server.ID)
		if err := q.session.finder.Remove(ctx, server); err != nil {
			return q.driverFailure(reasonRemoveFailed, err)
		}
	}
	return nil
}

// sweep removes keys and the like; what fails is noted, for it costs nothing to keep.
func (s *session) sweep(ctx context.Context) {
	if s.finder == nil {
		return
	}
	if err := s.finder.Sweep(ctx, s.target()); err != nil {
		s.note("what the driver left beside the server was not removed: %v", err)
	}
}

// sweepKeys removes what was registered beside a server that is gone, and must be gone too before the state forgets it. An
// error that goes away by itself is waited out; what the credential does not allow is noted.
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
	err = s.driverFailure(reasonLookupFailed, err)
	if class := classOf(err); class == rkev1.ClassTransient || jobrunner.IsShared(class) {
		return err
	}
	s.note("what the driver left beside the server was not removed: %v", err)
	return nil
}

// pause ends early with the context.
func pause(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
