package operation

import (
	"context"
	"errors"
	"syscall"

	"github.com/drover-project/drover/jobrunner/operation/machinedir"
	"github.com/drover-project/drover/state"
)

// remove makes sure that no server is left. It needs no state and takes a server that is gone already for removed; it
// succeeds only when it knows that there is none, or when the user gives up what may remain.
func (s *session) remove(ctx context.Context) error {
	err := s.removeServer(ctx)
	if err == nil {
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
		s.record = nil
		s.advance(state.PhaseLost)
		if err := s.dir.Make(); err != nil {
			return err
		}
	}
	if err := s.startForRemove(ctx); err != nil {
		if mayHaveServer(s.journal.Phase) || cancelled(err) {
			return err
		}
		s.note("no server was ever made, so that the driver's failure is of no account: %v", err)
		return nil
	}
	if s.profile.NoServer {
		return s.releaseHost(ctx)
	}
	_, err := s.inquire(ctx, forRemove, nil)
	return err
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
