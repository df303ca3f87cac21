package operation

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/state"
)

const (
	pollInterval = 500 * time.Millisecond
	pollTimeout  = 5 * time.Second
	// saveInterval is for changes of the record that name no new server.
	saveInterval = 15 * time.Second
	// lastWords is how long a cancelled driver may go on when it has not yet said which server it made.
	lastWords = 6 * time.Second
)

// recorder polls the driver's record while it creates.
type recorder struct {
	s *session
	// kept is the record that was saved last; named that it names a server.
	kept  []byte
	named bool
	saved time.Time
}

// watchCreate runs the driver's Create and saves its record as soon as it names a server.
func (s *session) watchCreate(ctx context.Context) error {
	rec := &recorder{s: s, saved: time.Now()}
	rec.kept, _ = s.driver.Record(ctx)
	created := make(chan error, 1)
	running := s.driver
	go func() { created <- running.Create(context.WithoutCancel(ctx)) }()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case err := <-created:
			rec.poll(ctx)
			return err
		case <-ticker.C:
			rec.poll(ctx)
		case <-ctx.Done():
			return rec.cancel(ctx, created, ticker.C)
		}
	}
}

// poll reads the record; that it cannot be read, or kept for the moment, does not end a create.
func (r *recorder) poll(ctx context.Context) {
	s := r.s
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pollTimeout)
	defer cancel()
	raw, err := s.driver.Record(ctx)
	if err != nil || bytes.Equal(raw, r.kept) {
		return
	}
	record, err := clouds.DecodeRecord(raw)
	if err != nil {
		s.log.printf("%v", err)
		return
	}
	s.record = record
	names := s.recordedServer(record)
	if r.named == names && s.isKnown() && time.Since(r.saved) < saveInterval {
		return
	}
	if names {
		s.advance(state.PhaseRecorded)
	}
	if err := s.saveProgress(ctx); err != nil {
		s.log.printf("keeping the driver's record: %v", err)
		return
	}
	r.kept, r.named, r.saved = raw, names, time.Now()
}

// isKnown tells that it can be told which field of the record names the server; of other drivers any change may be the one.
func (s *session) isKnown() bool {
	return s.profile.ID != "" || s.profile.ByName || s.profile.NoServer || s.request.ProviderIDTemplate != ""
}

// recordedServer tells whether a record that has changed during a create names a server. A driver without profile is
// believed to have made one as soon as its record changes.
func (s *session) recordedServer(record clouds.Record) bool {
	if s.profile.ID == "" && s.request.ProviderIDTemplate == "" {
		return !s.profile.NoServer
	}
	return s.names(record, forCreate) >= namesServer
}

// cancel gives a driver that has not named its server a moment to do so, and ends it.
func (r *recorder) cancel(ctx context.Context, created <-chan error, tick <-chan time.Time) error {
	r.s.log.printf("cancelled while the driver creates the server")
	deadline := time.After(lastWords)
	for done := false; !done && !r.named && !r.s.profile.NoServer; {
		select {
		case err := <-created:
			if err != nil {
				r.s.log.printf("the cancelled driver failed: %v", err)
			}
			done = true
		case <-tick:
			r.poll(ctx)
		case <-deadline:
			done = true
		}
	}
	r.poll(ctx)
	r.s.stopDriver()
	return errCancelled
}

// explainFailedCreate finds out what a failed create has left. It returns nil when there is a server after all, whose answer
// was lost, and that was taken.
func (s *session) explainFailedCreate(ctx context.Context, err error) error {
	cause := s.driverFailure(reasonCreateFailed, err)
	s.log.printf("the driver failed: %v", err)
	if s.driver == nil || !isDriverError(err) {
		// Its process is gone or hangs; another one can still look.
		if restart := s.startDriver(ctx, true); restart != nil {
			return errors.Join(cause, restart)
		}
	}
	if s.profile.NoServer {
		s.advance(state.PhaseGone)
		return cause
	}
	act, err := s.inquire(ctx, forFailure, cause)
	switch {
	case cancelled(err):
		return err
	case err != nil:
		return errors.Join(cause, err)
	case act != takeFound:
		return cause
	}
	s.note("the cloud's answer was lost (%v); the server was found by its tag", cause)
	return nil
}
