package operation

import (
	"context"
	"maps"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner/operation/finder"
	"github.com/drover-project/drover/jobrunner/operation/machinedir"
	"github.com/drover-project/drover/state"
)

// settle finds out whether the machine has a server already. Afterwards either the driver holds that server's record
// (adopted), or there surely is none.
//
//	record names a server ──exists──▶ adopt          ──gone──▶ none, and the finder has to agree
//	                        (unfinished, by a driver that works in steps ──▶ remove; then none)
//	else, with a finder   ──found───▶ adopt, or remove when it is unfinished or its SSH key is lost; then none
//	                        (also a record whose name may be another's by now, if its server has our tags)
//	else, named by machine──exists──▶ adopt          ──gone──▶ none
//	else, journal says Intent ──────▶ ServerMayExist: the user decides
func (s *session) settle(ctx context.Context) error {
	if s.profile.NoServer {
		return nil
	}
	search := s.mayExist
	if s.namesServer(s.record) && s.journal.Phase != state.PhaseGone && !s.isProvable() {
		adopted, err := s.settleByRecord(ctx)
		if err != nil || adopted {
			return err
		}
		search = s.lagsBehind()
	}
	if s.finder != nil {
		look := s.find
		if search {
			look = s.search
		}
		found, err := look(ctx)
		if err != nil {
			return err
		}
		return s.settleFound(ctx, found)
	}
	if !s.mayExist {
		return nil
	}
	if s.profile.ByName {
		return s.settleByName(ctx)
	}
	return s.ambiguous()
}

// isProvable tells that a server which the driver knows by its name only has a tag that proves whose it is.
func (s *session) isProvable() bool { return s.finder != nil && s.goesByName() && s.tagged() }

// lagsBehind tells that a driver may have been told "not found" by a cloud whose lists lag behind.
func (s *session) lagsBehind() bool {
	return s.cutOff && s.profile.Finder.Kind == clouds.ByTag
}

func (s *session) ambiguous() error {
	s.mayExist = true
	return failf(rkev1.ServerMayExistReason, rkev1.ClassInvalid,
		"an earlier attempt asked the cloud for server %s and its answer is not known; driver %s cannot look for it: look at the cloud, "+
			"remove the server there if there is one, then delete this machine and abandon it", s.request.InstanceName, s.request.Driver.Name)
}

func (s *session) settleByRecord(ctx context.Context) (adopted bool, err error) {
	if err := s.loadRecord(ctx, machinedir.Renew(s.record, s.fresh, s.credentials())); err != nil {
		return false, err
	}
	there, err := s.lookOwn(ctx, s.find)
	switch there {
	case exists:
		if s.profile.InSteps && !s.reached(state.PhaseCreated) {
			return false, s.removeUnfinished(ctx)
		}
		s.log.printf("the server of an earlier attempt exists and is taken")
		s.adopted = true
		return true, nil
	case gone:
		s.log.printf("the server of an earlier attempt is gone")
		if err := s.driver.Remove(ctx); err != nil {
			s.log.printf("removing what belonged to it: %v", err)
		}
		return false, s.nothingThere(ctx)
	case unknown, others:
	}
	s.mayExist = true
	return false, err
}

// removeUnfinished removes a server that an earlier attempt did not finish, so that one with all its parts is made.
func (s *session) removeUnfinished(ctx context.Context) error {
	s.log.printf("removing the server of an earlier attempt, which was not finished")
	s.mayExist = true
	certain, err := s.removeByDriver(ctx)
	if err != nil {
		return err
	}
	if !certain {
		return s.ambiguous()
	}
	return s.nothingThere(ctx)
}

// nothingThere forgets a server that is gone and starts the driver afresh, for it still holds that server's record. Where
// there is a finder, it is asked after that, and only then there surely is none.
func (s *session) nothingThere(ctx context.Context) error {
	s.sweep(ctx)
	s.record = nil
	if s.finder == nil {
		s.mayExist = false
		s.advance(state.PhaseGone)
	}
	return s.startDriver(ctx, s.request.Operation == state.Remove)
}

// settleFound adopts a finished server whose SSH key is at hand, and removes all others.
func (s *session) settleFound(ctx context.Context, found []finder.Server) error {
	if len(found) == 0 {
		s.mayExist = false
		if !s.reached(state.PhaseIntent) {
			return nil
		}
		if err := s.sweepKeys(ctx); err != nil {
			return err
		}
		s.advance(state.PhaseGone)
		return nil
	}
	s.mayExist = true
	if len(found) == 1 {
		keys, err := s.dir.Keys("")
		if err == nil && !found[0].Unfinished {
			return s.adoptFound(ctx, found[0], keys.Public)
		}
		s.log.printf("server %s was found by its tag, but it was not finished or its SSH key is lost", found[0].ID)
	}
	if err := s.removeWhole(ctx, found); err != nil {
		return err
	}
	s.sweep(ctx)
	s.mayExist = false
	return nil
}

func (s *session) adoptFound(ctx context.Context, server finder.Server, public []byte) error {
	record := make(clouds.Record, len(s.fresh)+len(server.Record))
	for _, layer := range []clouds.Record{s.fresh, s.record, server.Record} {
		maps.Copy(record, layer)
	}
	record["SSHKeyPath"], record["StorePath"] = s.dir.Path("id_rsa"), s.dir.Store
	if err := s.loadRecord(ctx, machinedir.Renew(record, s.fresh, s.credentials())); err != nil {
		return err
	}
	s.log.printf("server %s was found by its tag and is taken", server.ID)
	s.adopted, s.publicKey = true, public
	if !s.reached(state.PhaseRecorded) {
		s.advance(state.PhaseRecorded)
	}
	return s.saveProgress(ctx)
}

func (s *session) settleByName(ctx context.Context) error {
	there, err := s.look(ctx, true)
	switch there {
	case exists:
		if s.record == nil || s.profile.ID != "" || !s.reached(state.PhaseRecorded) {
			// The driver's record was lost with the SSH key, or the driver never finished: what it made is of no use. And a
			// record without the id that it has to have may mean somebody else's.
			return s.removeByName(ctx)
		}
		s.adopted = true
		return nil
	case gone:
		s.mayExist = false
		return nil
	case unknown, others:
	}
	return err
}

func (s *session) removeByName(ctx context.Context) error {
	s.log.printf("removing what an earlier attempt left unfinished")
	if err := s.driver.Remove(ctx); err != nil {
		return s.driverFailure(reasonRemoveFailed, err)
	}
	there, err := s.look(ctx, true)
	if there != gone {
		s.log.printf("the server is still there after its removal: %v", err)
		if s.profile.ID != "" {
			// Without the id that was lost, the driver does not touch it.
			return s.ambiguous()
		}
		return failf(reasonRemoveFailed, rkev1.ClassTransient, "the server of an earlier attempt is still being removed")
	}
	return s.nothingThere(ctx)
}

// credentials are the values of the credential that a record is renewed with: all but where its server is.
func (s *session) credentials() []string {
	values := make([]string, 0, len(s.request.CredentialEnv))
	for _, value := range s.request.CredentialEnv {
		if !s.isPlace(value) {
			values = append(values, value)
		}
	}
	return values
}

func (s *session) isPlace(value string) bool {
	for field := range s.profile.Place {
		if s.fresh[field] == value {
			return true
		}
	}
	return false
}
