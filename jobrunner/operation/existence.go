package operation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	serverstate "github.com/rancher/machine/libmachine/state"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation/finder"
	"github.com/drover-project/drover/jobrunner/operation/plugin"
	"github.com/drover-project/drover/state"
)

// existence of a server, as far as it can be known.
type existence int

const (
	unknown existence = iota
	exists
	gone
	// others: there is a server of the machine's name, but it is not the machine's.
	others
)

const (
	goneTimeout  = 90 * time.Second
	lostInterval = 3 * time.Second
	maxRemovals  = 4
)

// namesServer tells whether a record names a server. Of a driver without profile or template that is known only by the
// record having changed while it created.
func (s *session) namesServer(record clouds.Record) bool {
	switch {
	case record == nil || s.profile.NoServer:
		return false
	case s.profile.ID != "":
		return s.profile.ServerID(record) != ""
	case s.profile.ByName:
		return s.reached(state.PhaseRecorded)
	case s.request.ProviderIDTemplate != "":
		return clouds.Fill(s.request.ProviderIDTemplate, record) != ""
	}
	return s.reached(state.PhaseRecorded)
}

// look asks the driver whether the server of its loaded record exists. byName tells that the record has no other name of the
// server than the machine's; then a state of "none" means that there is none.
func (s *session) look(ctx context.Context, byName bool) (existence, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, slowCall, errors.New("the driver took too long to tell the server's state"))
	defer cancel()
	current, err := s.driver.State(ctx)
	switch {
	case err == nil && (current == serverstate.NotFound || byName && current == serverstate.None):
		return gone, nil
	case err == nil:
		return exists, nil
	case isDriverError(err) && s.profile.IsGone(err.Error()):
		return gone, nil
	}
	return unknown, s.driverFailure(reasonLookupFailed, err)
}

// lookOwn is look for the server of the record, whose name may be another machine's by now, and of which a driver may say
// "none" when its cloud does not answer (as Google's does). So the finder, asked by find or search, has the last word on
// servers that go by names. It does not know those that were made without our tags.
func (s *session) lookOwn(ctx context.Context, ask func(context.Context) ([]finder.Server, error)) (existence, error) {
	there, err := s.look(ctx, s.goesByName())
	if s.finder == nil || !s.goesByName() || there == unknown || there == exists && !s.tagged() {
		return there, err
	}
	found, err := ask(ctx)
	switch {
	case err != nil:
		return unknown, err
	case len(found) > 0:
		return exists, nil
	case there == exists:
		return others, nil
	}
	return gone, nil
}

// goesByName tells that nothing but the machine's name means its server to the driver.
func (s *session) goesByName() bool { return s.profile.ID == "" && s.profile.ByName }

// tagged tells whether the record says that the server was made with this machine's tags.
func (s *session) tagged() bool {
	uid := s.profile.Tags.Value(s.request.Tags[jobrunner.TagMachineUID])
	record, err := json.Marshal(s.record)
	return err == nil && uid != "" && bytes.Contains(record, []byte(uid))
}

func isDriverError(err error) bool {
	var own *plugin.Error
	return errors.As(err, &own)
}

// target says whom the finder looks for.
func (s *session) target() finder.Machine {
	machine := finder.Machine{InstanceName: s.dir.Name, Tags: s.request.Tags, PublicKey: s.publicKey, Record: s.record, Leaving: s.request.Operation == state.Remove}
	if keys, err := s.dir.Keys(""); err == nil {
		machine.PublicKey = keys.Public
	}
	return machine
}

func (s *session) find(ctx context.Context) ([]finder.Server, error) {
	return s.ask(ctx, s.target())
}

// search is for a server that was asked for and whose answer was lost: it is looked for longer, and a doubt is told.
func (s *session) search(ctx context.Context) ([]finder.Server, error) {
	machine := s.target()
	machine.Lost = true
	return s.ask(ctx, machine)
}

func (s *session) ask(ctx context.Context, machine finder.Machine) ([]finder.Server, error) {
	found, err := s.finder.Find(ctx, machine)
	if errors.Is(err, finder.ErrUncertain) {
		s.mayExist = true
		return nil, failf(rkev1.ServerMayExistReason, rkev1.ClassInvalid, "an attempt asked the cloud for server %s and its answer is not known: %w; "+
			"look at the cloud, remove the server there if it is this machine's, then give it up with the annotation %s",
			s.request.InstanceName, err, rkev1.AbandonAnnotation)
	}
	if err != nil {
		return nil, s.driverFailure(reasonLookupFailed, err)
	}
	return found, nil
}

// removeWhole lets a driver that goes by names remove a server that proved to be ours, for the driver knows the parts beside
// it, such as its disk, which carry no tag. The finder removes what is left.
func (s *session) removeWhole(ctx context.Context, found []finder.Server) error {
	named := slices.ContainsFunc(found, func(server finder.Server) bool { return server.Name == s.request.InstanceName })
	if s.goesByName() && named {
		s.log.printf("removing server %s by its name", s.request.InstanceName)
		if err := s.driver.Remove(ctx); err != nil {
			s.log.printf("the driver failed to remove the server: %v", err)
		}
		var err error
		if found, err = s.find(ctx); err != nil {
			return err
		}
	}
	return s.removeFound(ctx, found)
}

// removeFound removes servers that the finder found and waits until it finds none. A cloud may refuse to remove what it is
// removing already, so that it is asked a few times.
func (s *session) removeFound(ctx context.Context, found []finder.Server) error {
	deadline := time.Now().Add(goneTimeout)
	failures := 0
	for wait := time.Second; len(found) > 0; wait = min(2*wait, maxPause) {
		err := s.removeEach(ctx, found)
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
		if found, err = s.find(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) removeEach(ctx context.Context, found []finder.Server) error {
	for _, server := range found {
		s.log.printf("removing server %s, found by its tag", server.ID)
		if err := s.finder.Remove(ctx, server); err != nil {
			return s.driverFailure(reasonRemoveFailed, err)
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
	err := s.finder.Sweep(ctx, s.target())
	if err == nil {
		return nil
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
