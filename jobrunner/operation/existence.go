package operation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	serverstate "github.com/rancher/machine/libmachine/state"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation/finder"
	"github.com/drover-project/drover/jobrunner/operation/machinedir"
	"github.com/drover-project/drover/jobrunner/operation/plugin"
	"github.com/drover-project/drover/state"
)

// lostInterval is how long a cloud gets that may still be at work on a request whose answer was lost.
const lostInterval = 3 * time.Second

// thenRetry is the next step after the user has checked the cloud; drover why explains it in
// detail.
const thenRetry = "then drover retry"

// maxLooks is how often a driver is asked if it still has a state of a server after a successful
// removal.
const maxLooks = 5

// inquiry carries out the decisions of next until one ends it.
type inquiry struct {
	*session
	known evidence

	found []finder.Server
	// err is the last error; after a removal, the error that stopped the driver. said is the
	// driver's error when it removed nothing.
	err, said error
	// cause is the error of a create that failed.
	cause error
}

// inquire finds out whether the machine has a server, and acts on it for the purpose. cause is the
// error of a create that failed.
func (s *session) inquire(ctx context.Context, why purpose, cause error) (action, error) {
	q := &inquiry{session: s, known: s.evidence(why, cause), cause: cause}
	for {
		act := next(q.known)
		if err := q.carryOut(ctx, act); err != nil || act >= makeNew {
			return act, err
		}
	}
}

// evidence returns the facts that are known before any source is asked.
func (s *session) evidence(why purpose, cause error) evidence {
	// The record shows whether the server was made with this machine's tags.
	uid := s.profile.Tags.Value(s.request.Tags[jobrunner.TagMachineUID])
	record, _ := json.Marshal(s.record) // a record that cannot be encoded has no tag
	e := evidence{
		purpose: why, phase: s.journal.Phase, inSteps: s.profile.InSteps, tagged: uid != "" && bytes.Contains(record, []byte(uid)),
		lags: s.profile.Finder.Kind == clouds.ByTag, naming: s.naming(), record: s.names(s.record, why), finder: s.unasked(),
	}
	e.inherited = s.target().Inherited
	// The user's check does not cover a server that was requested later.
	e.looked = why == forCreate && s.request.Looked > 0 && s.journal.Attempt <= s.request.Looked
	switch {
	case cause == nil:
	case s.profile.ByName && s.profile.NameTaken(cause.Error()):
		e.refusal = refusedName
	case s.profile.NothingMade(classOf(cause), cause.Error()):
		e.refusal = refusedAll
	}
	return e
}

// unasked returns the finder's evidence before the finder is asked.
func (s *session) unasked() finderSays {
	if s.finder == nil {
		return noFinder
	}
	return finderUnasked
}

func classOf(err error) string {
	if known, ok := errors.AsType[*failure](err); ok {
		return known.class
	}
	return rkev1.ClassUnknown
}

func (s *session) naming() naming {
	switch {
	case s.profile.ID != "" && s.profile.ByName:
		return byNameOrID
	case s.profile.ID != "":
		return byID
	case s.profile.ByName:
		return byName
	}
	return byRecord
}

// names classifies a record. For a driver without a profile, it decides by the template, by an
// address that no option set, or by a successful create. It fills in the credential's values first:
// a template may name them too. For a removal it accepts more: once a server may exist, a record is
// worth a try.
func (s *session) names(record clouds.Record, why purpose) recordNames {
	named := isRecorded(s.journal.Phase) || why == forRemove && s.journal.Phase == state.PhaseRemoving
	switch template := s.request.ProviderIDTemplate; {
	case record == nil || s.profile.NoServer:
		return noRecord
	case s.profile.ServerID(record) != "":
		return namesID
	case s.profile.ID != "":
		return namesNothing
	case s.profile.ByName && (named || why == forRemove):
		return namesServer
	case s.profile.ByName:
		return namesNothing
	case clouds.Fill(template, machinedir.Renew(record, s.fresh, s.credentials())) != "": // an empty template never is
		return namesID
	case record.Text("IPAddress") != s.fresh.Text("IPAddress"), named && s.journal.Phase != state.PhaseRecorded:
		return namesServer
	case named:
		return mayName
	}
	return namesNothing
}

// carryOut performs one action. Most actions ask a source or change something and record the
// outcome as evidence; the last ones end the inquiry. An error ends the inquiry, too.
func (q *inquiry) carryOut(ctx context.Context, act action) error {
	askFinder := func(ctx context.Context) error { return q.askFinder(ctx, act) }
	step := map[action]func(context.Context) error{
		readTag: q.readTag, askDriver: q.askDriver, find: askFinder, search: askFinder, findAgain: askFinder,
		forget: q.forgetGone, confirmGone: q.confirmGone, removeByDriver: q.removeByDriver, removeFound: q.removeAllFound,
		takeFound: q.adopt, nothingLeft: q.sweepKeys,
		mayExist: func(context.Context) error { return q.uncertain() }, giveUp: func(context.Context) error { return q.err },
		keepRecorded: func(context.Context) error { q.advance(state.PhaseRecorded); return nil },
	}[act]
	if step != nil {
		return step(ctx)
	}
	switch act {
	case spare:
		q.record, q.known.record = nil, noRecord
	case take:
		q.log.printf("the Job takes over the server of an earlier attempt")
		if earlier := q.earlier(); !isCreated(q.known.phase) {
			q.noteTaken("its driver created it and then failed: " + cmp.Or(earlier.Message, "the driver's message was lost"))
		}
	case spareNamesake:
		q.note("a server named %s exists, but it does not have this machine's tags, so Drover does not change it", q.request.InstanceName)
		return q.sweepKeys(ctx)
	case nothingLeftOnRecord:
		q.note("the state records that no server exists, so this error is ignored: %v", q.err)
		return q.sweepKeys(ctx)
	default: // makeNew and keep need no step
	}
	return nil
}

// readTag reads the owner of the server that the driver goes by. A record can be wrong: a user
// edited it, or restored it under another name. The driver takes the fields that the record lacks
// from the machine's options and name.
func (q *inquiry) readTag(ctx context.Context) error {
	q.known.tag = tagOurs
	if q.owner == nil {
		return nil
	}
	named := layered(q.fresh, machinedir.Renew(q.record, q.fresh, q.credentials()))
	server, err := q.owner.Get(ctx, named, q.request.Tags[jobrunner.TagMachineUID])
	if cancelled(err) {
		return err
	}
	if err != nil {
		q.known.tag, q.err = tagUnreadable, q.driverFailure(rkev1.LookupFailedReason, err)
		return nil
	}
	uid := server.Tags[jobrunner.TagMachineUID]
	if uid != "" && q.isAnothers(server) {
		q.known.tag = tagAnothers
		q.note("the state names server %s, whose tags belong to machine %s (UID %s), so Drover does not change it",
			server.ID, cmp.Or(server.Tags[jobrunner.TagMachine], "of an unknown name"), uid)
	}
	return nil
}

// askDriver asks the driver whether its server exists: the server of its record, or the server with
// the machine's name.
func (q *inquiry) askDriver(ctx context.Context) error {
	e := &q.known
	var err error
	switch {
	case e.purpose == forFailure:
		err = q.loadRecord(ctx, q.record)
	case e.purpose == forCreate && e.record >= mayName && e.removal == notTried:
		if err = q.loadRecord(ctx, machinedir.Renew(q.record, q.fresh, q.credentials())); err != nil {
			return err
		}
	}
	e.driver = saysNothing
	if err == nil {
		e.driver, err = q.lookOften(ctx)
	}
	switch {
	case cancelled(err):
		return err
	case e.driver == saysNothing:
		q.log.printf("looking for the server: %v", err)
		q.err = cmp.Or(q.err, err)
	case e.driver == saysExists && e.removal != notTried:
		q.err = cmp.Or(q.err, q.stillThere())
	case e.driver == saysExists && e.record == mayName:
		e.record = namesServer
	}
	return nil
}

// lookOften repeats look while the driver has a state of a server after a successful removal: the
// cloud may still be removing it.
func (q *inquiry) lookOften(ctx context.Context) (says driverSays, err error) {
	e := &q.known
	byItsName := e.naming == byName || e.naming == byNameOrID && (e.purpose == forRemove || e.purpose == forCreate && e.record < namesServer)
	for range maxLooks {
		if says, err = q.look(ctx, byItsName); says != saysExists || e.removal != removed || e.naming != byRecord {
			break
		}
		if err := finder.Pause(ctx, lostInterval); err != nil {
			return says, err
		}
	}
	return says, err
}

// look asks the driver whether the server of its loaded record exists. byItsName reports that the
// record knows the server by the machine's name only; then the state "none" means that the server
// does not exist.
func (s *session) look(ctx context.Context, byItsName bool) (driverSays, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, slowCall, errors.New("the driver took too long to report the server's state"))
	defer cancel()
	current, err := s.driver.State(ctx)
	switch {
	case s.isGone(err), err == nil && (current == serverstate.NotFound || byItsName && current == serverstate.None):
		return saysGone, nil
	case err != nil:
		return saysNothing, s.driverFailure(rkev1.LookupFailedReason, err)
	case current == serverstate.None && s.naming() == byRecord:
		return saysNothing, failf(rkev1.LookupFailedReason, rkev1.ClassUnknown, "the driver has no state of the server")
	}
	return saysExists, nil
}

// isGone reports whether a driver's error means that the requested object does not exist.
func (s *session) isGone(err error) bool { return isDriverError(err) && s.profile.IsGone(err.Error()) }

func isDriverError(err error) bool {
	var own *plugin.Error
	return errors.As(err, &own)
}

// stillThere returns the error for a server that exists after a removal.
func (q *inquiry) stillThere() error {
	e := q.known
	switch {
	case e.removalWasFailure() && (e.removal == removedNothing || e.naming == byName || e.naming == byRecord):
		says := "the driver reported success"
		if q.said != nil {
			says = q.said.Error()
		}
		return failf(rkev1.RemoveFailedReason, rkev1.ClassTransient, "the server still exists after its removal (%s)", says)
	case e.removalWasFailure():
		return q.uncertain()
	}
	q.note("a server named %s exists, but none was ever created for this machine, so Drover does not change it", q.request.InstanceName)
	return nil
}

// askFinder asks for the servers with this machine's tag. The action search is for a requested
// server whose response was lost: the finder then looks longer and reports any doubt.
func (q *inquiry) askFinder(ctx context.Context, act action) error {
	e := &q.known
	if act == findAgain {
		// The cloud may still be at work on the request.
		if err := finder.Pause(ctx, lostInterval); err != nil {
			return err
		}
	}
	var err error
	q.found, err = q.find(ctx, act != find)
	if cancelled(err) {
		return err
	}
	if err != nil {
		e.finder, q.err = findFailed, errors.Join(q.err, err)
		if errors.Is(err, finder.ErrUncertain) {
			e.finder = findUncertain
		}
		q.log.printf("looking for the server: %v", err)
		return nil
	}
	if len(q.found) == 0 {
		e.finder = foundNone
		if act == find && e.purpose == forFailure && e.record < namesServer && e.refusal == refusedNothing {
			e.finder = foundNoneYet
		}
		return nil
	}
	if !mayHaveServer(q.journal.Phase) {
		// The journal was of another opinion.
		q.advance(state.PhaseLost)
		q.follow()
	}
	q.foundOurs = true
	e.finder = foundUseless
	if _, err := q.dir.Keys(""); err == nil && len(q.found) == 1 && !q.found[0].Unfinished {
		e.finder = foundOne
	}
	return nil
}

// follow takes over the journal's phase. A removal keeps the phase at its start.
func (q *inquiry) follow() {
	if q.known.purpose != forRemove {
		q.known.phase = q.journal.Phase
	}
}

// target returns the machine for the finder's search.
func (s *session) target() finder.Machine {
	machine := finder.Machine{InstanceName: s.dir.Name, Tags: s.request.Tags, PublicKey: s.publicKey, Record: s.record, Leaving: s.request.Operation == state.Remove,
		Inherited: s.request.Tags[jobrunner.TagMachineUID] != s.request.Machine.UID}
	if keys, err := s.dir.Keys(""); err == nil {
		machine.PublicKey = keys.Public
	}
	return machine
}

func (s *session) find(ctx context.Context, lost bool) ([]finder.Server, error) {
	machine := s.target()
	machine.Lost = lost
	found, err := s.finder.Find(ctx, machine)
	if errors.Is(err, finder.ErrUncertain) {
		then := thenRetry
		if s.request.Operation == state.Remove {
			then = "then give up the server with the annotation " + rkev1.AbandonAnnotation
		}
		return nil, failf(rkev1.ServerMayExistReason, rkev1.ClassInvalid, "an attempt requested server %s from the cloud, and the result is unknown: %w; "+
			"check the cloud, remove the server there if it belongs to this machine, %s", s.request.InstanceName, err, then)
	}
	if err != nil {
		return nil, s.driverFailure(rkev1.LookupFailedReason, err)
	}
	return found, nil
}

// forgetGone forgets a server that is gone and restarts the driver, which still holds that server's
// record. If the driver has a finder, the finder is asked next: only its answer makes certain that
// no server exists.
func (q *inquiry) forgetGone(ctx context.Context) error {
	if q.known.removal == notTried {
		q.log.printf("the server of an earlier attempt is gone")
		if err := q.do(ctx, plugin.Remove); err != nil {
			q.log.printf("removing its other resources: %v", err)
		}
	}
	q.sweep(ctx)
	q.record, q.known.record = nil, noRecord
	if err := q.startDriver(ctx, false); err != nil {
		return err
	}
	if q.known.finder = q.unasked(); q.finder == nil {
		q.advance(state.PhaseGone)
	}
	q.follow()
	return nil
}

// confirmGone records that no server exists, after it has removed the resources beside it.
func (q *inquiry) confirmGone(ctx context.Context) error {
	if known := q.recorded(); q.known.looked && known != "" {
		q.note("a user confirmed that no server is left: the record of the earlier attempt's server is dropped (driver's record: %s)", known)
	}
	if err := q.sweepKeys(ctx); err != nil {
		return err
	}
	q.advance(state.PhaseGone)
	q.follow()
	return nil
}

// adopt takes the server that was found by its tag.
func (q *inquiry) adopt(ctx context.Context) error {
	server := q.found[0]
	keys, err := q.dir.Keys("")
	if err != nil {
		return err
	}
	record := layered(q.fresh, q.record, server.Record)
	record["SSHKeyPath"], record["StorePath"] = q.dir.Path("id_rsa"), q.dir.Store
	if err := q.loadRecord(ctx, machinedir.Renew(record, q.fresh, q.credentials())); err != nil {
		return err
	}
	q.log.printf("server %s was found by its tag, and the Job takes it over", server.ID)
	q.publicKey = keys.Public
	if !q.reached(state.PhaseRecorded) {
		q.advance(state.PhaseRecorded)
	}
	return q.saveProgress(ctx)
}

// layered returns a new record with the fields of all layers; the last layer takes precedence.
func layered(layers ...clouds.Record) clouds.Record {
	record := clouds.Record{}
	for _, layer := range layers {
		maps.Copy(record, layer)
	}
	return record
}

// noteTaken reports how the driver failed for a server that it did not finish and that the Job
// takes over.
func (s *session) noteTaken(words string) {
	s.note("%s", words)
	s.result.Taken = clip(s.redactor.String(words), maxMessage/2)
}

// uncertain returns the error that asks the user whether a server exists. The reason of the doubt
// is the user's only clue: the message of the attempt that requested the server is repeated until
// the user has checked the cloud.
func (q *inquiry) uncertain() error {
	name, look := q.request.InstanceName, fmt.Sprintf("driver %s cannot look for it: check the cloud, and remove the server there if it exists",
		q.request.Driver.Name)
	if known := q.recorded(); known != "" {
		look = "the driver recorded " + known + "; " + look
	}
	switch earlier := q.earlier(); {
	case q.known.finder == findUncertain:
		return q.err
	case q.known.purpose == forCreate && q.known.inherited && (q.known.finder == foundUseless || q.known.driver == saysExists):
		what := "server " + name
		if len(q.found) > 0 {
			what = q.called(q.found[0])
		}
		return failf(rkev1.ServerMayExistReason, rkev1.ClassInvalid, "%s exists, and the state Secret, which was restored from a backup, records that it was never completed: the backup may be older than "+
			"the server, so Drover does not change it. To keep the server, restore a later backup of the Secret; otherwise remove it in the cloud, %s", what, thenRetry)
	case q.known.purpose == forRemove:
		return failf(rkev1.ServerMayExistReason, rkev1.ClassInvalid, "an attempt requested server %s from the cloud, and the result is unknown; %s, then give it up with the annotation %s",
			name, look, rkev1.AbandonAnnotation)
	case q.cause != nil:
		return failf(rkev1.ServerMayExistReason, classOf(q.cause), "%w. It is unknown whether server %s was created; %s, %s", q.cause, name, look, thenRetry)
	case earlier.Reason == rkev1.ServerMayExistReason:
		return failf(earlier.Reason, cmp.Or(earlier.Class, rkev1.ClassInvalid), "%s", earlier.Message)
	case earlier.Message != "":
		return failf(rkev1.ServerMayExistReason, cmp.Or(earlier.Class, rkev1.ClassInvalid), "attempt %d failed: %s. It is unknown whether it created server %s; %s, %s",
			earlier.Attempt, earlier.Message, name, look, thenRetry)
	}
	return failf(rkev1.ServerMayExistReason, rkev1.ClassInvalid, "an earlier attempt requested server %s from the cloud, and the result is unknown; %s, %s", name, look, thenRetry)
}

// earlier returns the result of the attempt that requested the server, or of a later one that
// reported a doubt: the pod's own result, or the manager's verdict.
func (s *session) earlier() state.Result {
	if s.state == nil {
		return state.Result{}
	}
	kept := state.Of(s.state.Data)
	for _, document := range []state.Document[state.Result]{kept.Result, kept.Verdict} {
		result := document.Value
		if document.IsRead() && result.Operation == state.Create && (result.Attempt == s.journal.Attempt || result.Reason == rkev1.ServerMayExistReason) {
			return result
		}
	}
	return state.Result{}
}

// recorded returns the IDs and addresses in the driver's record that do not come from the options.
func (s *session) recorded() string {
	var known []string
	for _, field := range slices.Sorted(maps.Keys(s.record)) {
		lower, text := strings.ToLower(field), s.record.Text(field)
		telling := strings.HasSuffix(lower, "id") || strings.HasSuffix(lower, "ip") || strings.HasSuffix(lower, "address")
		if telling && text != "" && text != s.fresh.Text(field) {
			known = append(known, field+" "+text)
		}
	}
	return clip(strings.Join(known, ", "), maxMessage/4)
}
