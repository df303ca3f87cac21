package operation

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner/operation/finder"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
)

// create makes the machine's server, or finishes what an earlier attempt began.
func (s *session) create(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		s.openForCreate, s.ensureServer, s.awaitRunning, s.describe, s.bootstrapServer, s.meetServer,
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

func (s *session) openForCreate(ctx context.Context) error {
	if err := s.restore(); err != nil {
		return err
	}
	return s.startDriver(ctx, false)
}

// ensureServer takes the server of an earlier attempt, or makes one.
func (s *session) ensureServer(ctx context.Context) error {
	if !s.profile.NoServer {
		if act, err := s.inquire(ctx, forCreate, nil); err != nil || act != makeNew {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.makeServer(ctx)
}

// makeServer asks the driver for a new server.
func (s *session) makeServer(ctx context.Context) error {
	s.finder = finder.For(s.request.Driver.Name, s.values) // by now also where the options say
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if err := s.driver.Check(ctx); err != nil {
		return s.driverFailure(reasonPreCreateCheck, err)
	}
	if err := s.declareIntent(ctx); err != nil {
		return err
	}
	err := s.watchCreate(ctx)
	if cancelled(err) || ctx.Err() != nil {
		return errCancelled
	}
	if err != nil {
		return s.explainFailedCreate(ctx, err)
	}
	s.advance(state.PhaseCreated)
	if !s.profile.InSteps {
		return nil
	}
	// A pod that dies from here on leaves a finished server, which must not look like one that is not.
	if err := s.saveProgress(ctx); err != nil {
		s.log.printf("keeping that the server is finished: %v", err)
	}
	return nil
}

// prepare configures the driver with all that a new server gets: tags, an SSH key, user data.
func (s *session) prepare(ctx context.Context) error {
	// A key of an earlier attempt may be registered at the cloud already, which then refuses it.
	if err := s.dir.Make(); err != nil {
		return err
	}
	s.addTags()
	s.addName()
	if err := s.addKey(); err != nil {
		return err
	}
	if err := s.addUserData(); err != nil {
		return err
	}
	if err := s.applyValues(ctx); err != nil {
		return err
	}
	s.record = s.fresh
	return nil
}

func (s *session) addTags() {
	flag := s.profile.Tags.Flag
	if given, known := s.values[flag]; known && flag != "" && len(s.request.Tags) > 0 {
		s.values[flag] = s.profile.Tags.AddTags(given, s.request.Tags)
	}
}

// addName names the server like the machine where the driver would not, unless the user has named it.
func (s *session) addName() {
	flag := s.profile.NameFlag
	if given, known := s.values[flag]; known && given == "" {
		s.values[flag] = s.request.InstanceName
	}
}

// addKey brings an ed25519 key where the driver uses one that it finds or is given. It is in the state before the cloud knows
// it, so that whatever crashes, the server can be logged in to and the key can be found at the cloud again.
func (s *session) addKey() error {
	if needed := s.profile.NeedsKey; needed != "" && s.values[needed] == "" {
		return failf(reasonKeyMissing, rkev1.ClassInvalid, "driver %s needs the SSH key of the server that it takes over: set its option %s", s.request.Driver.Name, needed)
	}
	flag := s.profile.KeyFile
	current, known := s.values[flag]
	if !s.profile.KeyInPlace && (flag == "" || !known || current != "") {
		return nil
	}
	for _, other := range s.profile.KeyUnless {
		if value, given := s.values[other]; given && value != "" {
			return nil
		}
	}
	name := filepath.Join(s.filesDir(), flag, "id_rsa")
	if s.profile.KeyInPlace {
		name = s.dir.Path("id_rsa")
	} else {
		s.values[flag] = name
	}
	return s.makeKey(name)
}

func (s *session) makeKey(name string) error {
	pair, err := sshkeys.Generate(s.request.InstanceName)
	if err != nil {
		return err
	}
	s.redactor.Add(string(pair.Private))
	return errors.Join(writePrivate(name, pair.Private), writePrivate(name+".pub", pair.Public))
}

// declareIntent writes down that a server may exist from here on.
func (s *session) declareIntent(ctx context.Context) error {
	s.advance(state.PhaseIntent)
	changes := map[string][]byte{}
	if err := s.addProgress(changes); err != nil {
		return err
	}
	if !s.profile.NoServer {
		s.forgetServer(changes)
	}
	if err := s.state.save(ctx, changes); err != nil {
		s.advance(state.PhaseGone)
		reason, class := unsavedReason(err)
		return fail(reason, class, fmt.Errorf("nothing was asked of the cloud: %w", err))
	}
	if err := ctx.Err(); err != nil {
		s.advance(state.PhaseGone)
		return err
	}
	return nil
}
