package operation

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner/operation/finder"
	"github.com/drover-project/drover/jobrunner/operation/machinedir"
	"github.com/drover-project/drover/state"
)

const removeTimeout = 20 * time.Minute

// remove makes sure that no server is left. It needs no state and takes a server that is gone already for removed; it
// succeeds only when it knows that there is none, or when the user gives up what may remain.
func (s *session) remove(ctx context.Context) error {
	err := s.removeServer(ctx)
	if err == nil {
		s.mayExist = false
		s.advance(state.PhaseGone)
		return nil
	}
	if !s.request.Abandon || cancelled(err) {
		return err
	}
	s.note("given up by the user; server %s and what belongs to it may remain at the cloud: %v", s.request.InstanceName, err)
	return nil
}

func (s *session) removeServer(ctx context.Context) error {
	if err := s.restore(); errors.Is(err, syscall.ENOSPC) {
		return err
	} else if err != nil {
		// What cannot be read is no reason to leave a server behind: the finder may know it.
		s.note("the machine's state cannot be read: %v", err)
		s.mayExist, s.cutOff, s.record = true, true, nil
		if err := s.dir.Make(); err != nil {
			return err
		}
	}
	wasGone := s.journal.Phase == state.PhaseGone
	madeNothing := wasGone || s.journal.Phase == "" && !s.mayExist
	if err := s.startForRemove(ctx); err != nil {
		if !madeNothing || cancelled(err) {
			return err
		}
		s.note("no server was ever made, so that the driver's failure is of no account: %v", err)
		return nil
	}
	if s.profile.NoServer {
		return nil
	}
	s.wasRecorded = s.reached(state.PhaseRecorded) || s.journal.Phase == state.PhaseRemoving
	if s.namedForRemove() {
		s.advance(state.PhaseRemoving)
		if err := s.saveProgress(ctx); err != nil {
			return fail(reasonStateUnwritable, rkev1.ClassTransient, err)
		}
	}
	return s.removeAll(ctx, madeNothing, wasGone)
}

// startForRemove configures the driver from the machine's options, for their credential is the present one, and then gives
// it the record. With a record the options may be unusable.
func (s *session) startForRemove(ctx context.Context) error {
	err := s.startDriver(ctx, true)
	var known *failure
	if err != nil && (s.record == nil || s.driver == nil || !errors.As(err, &known) || known.reason != reasonOptionsInvalid) {
		return err
	}
	if err != nil {
		s.note("the machine's options are of no use any more: %v", err)
	}
	if s.record == nil {
		return nil
	}
	return s.loadRecord(ctx, machinedir.Renew(s.record, s.fresh, s.credentials()))
}

// removeAll lets the driver remove what its record names, and then the finder what remains.
//
// A driver that goes by names is not let loose where the finder finds no server of this machine's, if none was ever asked for
// or there is one all the same: then the name is another machine's.
func (s *session) removeAll(ctx context.Context, madeNothing, wasGone bool) error {
	if s.finder != nil && s.goesByName() && (madeNothing || s.tagged()) {
		done, err := s.sparesNamesake(ctx, madeNothing)
		if done || err != nil {
			return s.unless(wasGone, err)
		}
	}
	certain, err := s.removeByDriver(ctx)
	if s.finder == nil {
		if err != nil || certain || madeNothing {
			return err
		}
		return s.uncertain()
	}
	if err != nil {
		s.log.printf("the driver failed to remove the server: %v", err)
	}
	look := s.find
	if !madeNothing && (!certain || s.lagsBehind()) {
		look = s.search
	}
	found, findErr := look(ctx)
	if findErr != nil {
		return errors.Join(err, s.unless(wasGone, findErr))
	}
	return s.removeRest(ctx, found, err)
}

// sparesNamesake tells that there is nothing for the driver to remove.
func (s *session) sparesNamesake(ctx context.Context, madeNothing bool) (done bool, err error) {
	look := s.find
	if s.cutOff {
		look = s.search
	}
	found, err := look(ctx)
	if err != nil || len(found) > 0 || madeNothing {
		return err == nil && len(found) == 0, err
	}
	switch there, err := s.look(ctx, true); there {
	case exists:
		s.note("a server called %s is there, but it does not have this machine's tags: it is not touched", s.request.InstanceName)
		return true, s.sweepKeys(ctx)
	case unknown:
		return false, err
	case gone, others:
	}
	return false, nil // what belonged to it may be there
}

// removeRest removes what the finder found and what belongs to it; err is what kept the driver from it.
func (s *session) removeRest(ctx context.Context, found []finder.Server, err error) error {
	if removeErr := s.removeFound(ctx, found); removeErr != nil {
		return errors.Join(err, removeErr)
	}
	if sweepErr := s.sweepKeys(ctx); sweepErr != nil {
		return errors.Join(err, sweepErr)
	}
	if err != nil && s.namesServer(s.record) {
		// A server without our tags, such as one taken over from Rancher, is known to the driver alone.
		if there, _ := s.look(ctx, false); there != gone {
			return err
		}
	}
	return nil
}

// unless makes a note of an error that is of no account: the state says that there is no server, and no credential that
// expired since may keep the machine from being deleted.
func (s *session) unless(wasGone bool, err error) error {
	if err == nil || !wasGone || cancelled(err) {
		return err
	}
	s.note("the state says that there is no server, so that this is of no account: %v", err)
	return nil
}

// removeByDriver tells whether the driver's answer makes it certain that there is no server.
func (s *session) removeByDriver(ctx context.Context) (certain bool, err error) {
	named := s.namedForRemove()
	if !named && !s.profile.ByName {
		return false, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, removeTimeout, fmt.Errorf("the driver did not remove the server within %s", removeTimeout))
	defer cancel()
	err = s.driver.Remove(ctx)
	if err != nil && (!isDriverError(err) || !s.profile.IsGone(err.Error())) {
		return false, s.driverFailure(reasonRemoveFailed, err)
	}
	if err == nil && named {
		return true, nil
	}
	// "Not found" may be about something else than the server, and a driver without record may have done nothing.
	there, lookErr := s.look(ctx, s.profile.ByName)
	switch there {
	case gone:
		return true, nil
	case exists:
		return false, s.stillThere(err)
	case unknown, others:
	}
	return false, lookErr
}

// stillThere says what a server means that is there after a removal; err is the driver's. A driver that goes by an id leaves a
// server alone whose id it was not given.
func (s *session) stillThere(err error) error {
	switch {
	case err != nil || s.profile.ID == "":
		return failf(reasonRemoveFailed, rkev1.ClassTransient, "the server is still there after its removal (%v)", err)
	case s.mayExist:
		return s.uncertain()
	}
	s.note("a server called %s is there, but none was ever made for this machine: it is not touched", s.request.InstanceName)
	return nil
}

// namedForRemove is more willing than namesServer: a record of an unknown driver is worth a try, once a server may exist.
func (s *session) namedForRemove() bool {
	if s.record == nil {
		return false
	}
	if s.profile.ID != "" {
		return s.profile.ServerID(s.record) != ""
	}
	if s.profile.ByName {
		return true
	}
	if s.request.ProviderIDTemplate != "" && clouds.Fill(s.request.ProviderIDTemplate, s.record) != "" {
		return true
	}
	return s.wasRecorded
}

func (s *session) uncertain() error {
	s.mayExist = true
	return failf(rkev1.ServerMayExistReason, rkev1.ClassInvalid,
		"an attempt asked the cloud for server %s and its answer is not known; driver %s cannot look for it: look at the cloud, remove the server "+
			"there if there is one, then give it up with the annotation %s", s.request.InstanceName, s.request.Driver.Name, rkev1.AbandonAnnotation)
}
