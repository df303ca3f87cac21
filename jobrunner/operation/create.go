package operation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner/operation/finder"
	"github.com/drover-project/drover/jobrunner/operation/flagvalues"
	"github.com/drover-project/drover/jobrunner/operation/plugin"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
)

// create creates the machine's server, or finishes an earlier attempt.
func (s *session) create(ctx context.Context) error {
	if err := s.restore(); err != nil {
		return err
	}
	if err := s.startDriver(ctx, false); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		s.ensureServer, s.awaitRunning, s.describe, s.settleDuplicates, s.bootstrapServer, s.planContact,
	} {
		if err := step(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// ensureServer takes the server of an earlier attempt, or makes one.
func (s *session) ensureServer(ctx context.Context) error {
	before := s.journal.Phase
	if !s.profile.NoServer {
		if act, err := s.inquire(ctx, forCreate, nil); err != nil || act != makeNew {
			return err
		}
	}
	if err := s.checkNamesakes(ctx, before); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s.profile.ServerID(s.given()) != "" {
		return failf(rkev1.ServerGoneReason, rkev1.ClassInvalid, "the machine's provider ID %s names a server that is gone, and it cannot be changed: delete the CAPI Machine to get another server", s.request.ProviderID)
	}
	return s.makeServer(ctx)
}

// checkNamesakes stops the create if the state knows nothing of the machine while the cloud has a
// server that was made for a machine of the same namespace and name. A restore may have brought the
// machine back with another UID and without its state.
func (s *session) checkNamesakes(ctx context.Context, before state.Phase) error {
	if before != "" && before != state.PhaseLost || s.request.Looked != 0 || s.finder == nil {
		return nil
	}
	namesakes, err := s.finder.Namesakes(ctx, s.target())
	if err != nil {
		return s.driverFailure(rkev1.LookupFailedReason, err)
	}
	if len(namesakes) == 0 {
		return nil
	}
	s.advance(state.PhaseLost)
	return failf(rkev1.ServerMayExistReason, rkev1.ClassInvalid, "the cloud has %s: it may be this machine's server from before a restore, and its state is lost. "+
		"Check the cloud, remove the server there if it belongs to this machine, %s", s.called(namesakes[0]), thenRetry)
}

// makeServer asks the driver for a new server.
func (s *session) makeServer(ctx context.Context) error {
	s.finder = finder.For(s.request.Driver.Name, s.values) // the options may now name another place
	if err := s.prepare(ctx); err != nil {
		return err
	}
	s.log.printf("running the driver's checks before creation (PreCreateCheck)")
	if err := s.do(ctx, plugin.Check); err != nil {
		return s.driverFailure(rkev1.PreCreateCheckFailedReason, err)
	}
	if err := s.declareIntent(ctx); err != nil {
		return err
	}
	s.log.printf("asking the driver to create the server (Create)")
	err := s.watchCreate(ctx)
	if ctx.Err() != nil {
		return errCancelled
	}
	if err != nil {
		return s.explainFailedCreate(ctx, err)
	}
	s.advance(state.PhaseCreated)
	if !s.profile.InSteps {
		return nil
	}
	// A pod that dies after this point leaves a finished server, which must not look unfinished.
	if err := s.saveProgress(ctx); err != nil {
		s.log.printf("storing that the server is complete: %v", err)
	}
	return nil
}

// prepare configures the driver with all that a new server gets: tags, an SSH key, user data.
func (s *session) prepare(ctx context.Context) error {
	// In an empty directory: a key of an earlier attempt may be registered at the cloud already,
	// which then refuses it.
	for _, step := range []func() error{s.dir.Make, s.addNames, s.checkKey, s.addKey, s.addUserData} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := s.applyValues(ctx); err != nil {
		return err
	}
	s.record = s.fresh
	return nil
}

// addNames sets the server's tags, and the machine's name if the driver would choose another one
// and the user did not set one.
func (s *session) addNames() error {
	if given, known := s.values[s.profile.Tags.Flag]; known && s.profile.Tags.Flag != "" && len(s.request.Tags) > 0 {
		if ours := s.profile.Tags.Ours(given, s.request.Tags); ours != "" {
			return failf(rkev1.OptionsInvalidReason, rkev1.ClassInvalid, "option %s: the tag %.80q is reserved, because Drover finds its servers by it: remove it", s.profile.Tags.Flag, ours)
		}
		s.values[s.profile.Tags.Flag] = s.profile.Tags.AddTags(given, s.request.Tags)
	}
	if given, known := s.values[s.profile.NameFlag]; known && given == "" {
		s.values[s.profile.NameFlag] = s.request.InstanceName
	}
	return nil
}

// checkKey refuses a machine of a driver that takes a server over without a key to log in with.
func (s *session) checkKey() error {
	needed := s.profile.NeedsKey
	if needed == "" {
		return nil
	}
	if s.values[needed] == "" {
		return failf(rkev1.SSHKeyMissingReason, rkev1.ClassInvalid, "driver %s needs the SSH key of the existing server: set its option %s", s.request.Driver.Name, needed)
	}
	if _, err := sshkeys.PublicOf(s.request.Files[needed], needed); err != nil {
		return failf(rkev1.OptionsInvalidReason, rkev1.ClassInvalid, "the option %s: %w", needed, err)
	}
	return nil
}

// addKey creates an ed25519 key if the driver can use an existing one. The key is in the state
// before the cloud knows it, so that after any crash the login works and the key can be found at
// the cloud.
func (s *session) addKey() error {
	flag := s.profile.KeyFile
	current, known := s.values[flag]
	if !s.profile.KeyInPlace && (!known || current != "") {
		return nil
	}
	isUser := func(other string) bool { value, given := s.values[other]; return given && value != "" }
	if slices.ContainsFunc(s.profile.KeyUnless, isUser) {
		return nil
	}
	name := filepath.Join(s.filesDir(), flag, "id_rsa")
	if s.profile.KeyInPlace {
		name = s.dir.Path("id_rsa")
	} else {
		s.values[flag] = name
	}
	pair, err := sshkeys.Generate(s.request.InstanceName)
	if err != nil {
		return err
	}
	s.redactor.Add(string(pair.Private))
	return errors.Join(flagvalues.WritePrivate(name, pair.Private), flagvalues.WritePrivate(name+".pub", pair.Public))
}

// declareIntent writes down that a server may exist from here on.
func (s *session) declareIntent(ctx context.Context) error {
	s.advance(state.PhaseIntent)
	changes := map[string][]byte{}
	if err := s.addProgress(changes); err != nil {
		return err
	}
	if !s.profile.NoServer {
		// The data of a server that is gone.
		for _, key := range []string{state.ServerKey, state.SSHPrivateKeyKey, state.SSHPublicKeyKey, state.SSHKnownHostsKey} {
			changes[key] = nil
		}
		s.server, s.privateKey, s.publicKey, s.knownHosts = nil, nil, nil, nil
	}
	if err := s.state.Save(ctx, changes); err != nil {
		s.advance(state.PhaseGone)
		reason, class := unsavedReason(err)
		return fail(reason, class, fmt.Errorf("no request was sent to the cloud: %w", err))
	}
	if err := ctx.Err(); err != nil {
		s.advance(state.PhaseGone)
		return err
	}
	return nil
}

const (
	pollInterval = 500 * time.Millisecond
	pollTimeout  = 5 * time.Second
	// saveInterval is for changes of the record that name no new server.
	saveInterval = 15 * time.Second
	// cancelGrace is how long a cancelled driver may go on if it has not yet named its server.
	cancelGrace = 6 * time.Second
)

// recorder polls the driver's record while it creates.
type recorder struct {
	s *session
	// before is the record right before the create; kept is the last saved record, and names its
	// classification.
	before clouds.Record
	kept   []byte
	names  recordNames
	saved  time.Time
}

// watchCreate runs the driver's Create and saves its record as soon as it names a server.
func (s *session) watchCreate(ctx context.Context) error {
	rec := &recorder{s: s, before: s.fresh, names: namesNothing, saved: time.Now()}
	rec.kept, _ = s.driver.Record(ctx)
	if before, err := clouds.DecodeRecord(rec.kept); err == nil {
		rec.before = before
	}
	created := make(chan error, 1)
	running := s.driver
	go func() { created <- running.Do(context.WithoutCancel(ctx), plugin.Create) }()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case err := <-created:
			s.endThrottling(ctx)
			rec.poll(ctx)
			return err
		case <-ticker.C:
			rec.poll(ctx)
			s.reportThrottling(ctx)
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
	names, isKnown := r.named()
	if r.names == names && isKnown && time.Since(r.saved) < saveInterval {
		return
	}
	if names >= mayName {
		s.advance(state.PhaseRecorded)
	}
	if err := s.saveProgress(ctx); err != nil {
		s.log.printf("storing the driver's record: %v", err)
		return
	}
	r.kept, r.names, r.saved = raw, names, time.Now()
}

// named classifies the session's record, and reports whether Drover knows which field names the
// server. If it does not, any change of the record may name one.
func (r *recorder) named() (names recordNames, isKnown bool) {
	s, template := r.s, r.s.request.ProviderIDTemplate
	names = s.names(s.record, forCreate)
	switch {
	case s.profile.NoServer:
		return namesNothing, true
	case s.profile.ID == "" && template == "":
		// A driver without profile is believed to have made a server as soon as its record changes.
		return max(names, namesServer), s.profile.ByName
	case s.naming() == byRecord && len(clouds.Missing(template, s.record)) < len(clouds.Missing(template, r.before)):
		// A value for a part of the template may be the server's ID, even if another part stays
		// empty.
		names = max(names, mayName)
	}
	return names, names != mayName
}

// cancel gives a driver that has not named its server a moment to do so, and ends it.
func (r *recorder) cancel(ctx context.Context, created <-chan error, tick <-chan time.Time) error {
	r.s.log.printf("cancelled while the driver creates the server")
	deadline := time.After(cancelGrace)
	for done := false; !done && r.names < namesServer && !r.s.profile.NoServer; {
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

// explainFailedCreate finds out whether a failed create has left a server. It returns nil if a
// server exists whose response was lost, and the Job has taken it over.
func (s *session) explainFailedCreate(ctx context.Context, err error) error {
	cause := s.driverFailure(rkev1.CreateFailedReason, err)
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
	case cancelled(err), act == mayExist:
		return err
	case err != nil:
		return errors.Join(cause, err)
	case act != takeFound:
		return cause
	}
	s.noteTaken(fmt.Sprintf("the cloud's response was lost (%v); the server was found by its tag", cause))
	return nil
}
