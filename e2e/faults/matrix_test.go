package faults

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/ledger"
)

const (
	// maxTurns is how often the manager looks before a machine counts as stuck.
	maxTurns = 80
	// serverGone is what a restored machine says whose server is not there any more.
	serverGone = "names a server that is gone"
	// formerServer is what one says that came back with nothing but its name, while its server lives.
	formerServer = "it may be this machine's server from before a restore"
)

// arm puts the faults of a phase in place.
func (w *world) arm(phase string, troubles []trouble) {
	w.Helper()
	strikes := map[string]map[int]strike{manager: {}, pod: {}}
	w.refusing.Store(0)
	for _, t := range troubles {
		if !t.inPhase(phase) {
			continue
		}
		switch t.place {
		case atCloud:
			w.armCloud(t)
		case onDisk:
			w.nextDisk = new(t.disk(w.lab.seen))
		default:
			strikes[t.place][t.index] = w.strikes()[t.kind]
		}
	}
	w.managerGate.begin(strikes[manager])
	w.podGate.begin(strikes[pod])
}

// note keeps which troubles of a phase have struck.
func (w *world) note(phase string, troubles []trouble) {
	for _, t := range troubles {
		if !t.inPhase(phase) {
			continue
		}
		switch t.place {
		case atCloud:
			w.struck[t] = w.struck[t] || w.applied(w.armed[t])
		case onDisk:
			w.struck[t] = w.nextDisk == nil
		case manager:
			w.struck[t] = w.managerGate.hasStruck(t.index)
		case pod:
			w.struck[t] = w.podGate.hasStruck(t.index)
		}
	}
	w.nextDisk = nil
}

func (w *world) applied(id string) bool {
	return slices.ContainsFunc(theCloud.Faults.List(), func(s fault.Status) bool { return s.ID == id && s.Applied > 0 })
}

func (w *world) armCloud(t trouble) {
	w.Helper()
	e := effects()[t.kind]
	w.hopeless = w.hopeless || e.hopeless || t.early()
	rule := fault.Rule{Match: fault.AnyRequest, Token: w.token, Skip: t.index, Count: 1, Effect: e.Effect}
	if e.boots() {
		rule.Match, rule.Skip = fault.CreateDroplet, 0
	}
	if e.always {
		rule.Count = 0
	}
	id := w.addRule(rule)
	w.armed[t] = id
	if !e.kills {
		return
	}
	// A pod that is killed asks the cloud for nothing more.
	w.addRule(fault.Rule{Match: fault.AnyRequest, Token: w.token, Skip: t.index, Effect: fault.ConnectionLost})
	w.podGate.killed = func() bool { return w.applied(id) }
}

func (w *world) addRule(rule fault.Rule) string {
	w.Helper()
	id, err := theCloud.Faults.Add(rule)
	require.NoError(w, err)
	w.rules = append(w.rules, id)
	return id
}

// cure ends all that is wrong with the cloud.
func (w *world) cure() {
	for t, id := range w.armed {
		w.struck[t] = w.struck[t] || w.applied(id)
	}
	for _, id := range w.rules {
		theCloud.Faults.Remove(id)
	}
	w.rules = nil
}

// comeReady drives the machine until it is Ready, or deleted by a fault. When no attempt follows by itself, the cause is
// mended and another one asked for, as the condition says.
func (w *world) comeReady() error {
	w.Helper()
	for range maxTurns {
		there := w.turn()
		if err := w.forgotten(); err != nil {
			return err
		}
		if !there || w.obj.GetDeletionTimestamp() != nil {
			return nil
		}
		if w.condition(rkev1.ReadyCondition).Status == metav1.ConditionTrue && w.condition(rkev1.ProviderIDKnownCondition).Status == metav1.ConditionTrue {
			return w.whenReady()
		}
		if w.hopeless && w.status().LastAttempt != nil {
			return w.neverTwo()
		}
		switch w.condition(rkev1.CreateJobCondition).Reason {
		case rkev1.AttemptsExhaustedReason:
			message := w.condition(rkev1.CreateJobCondition).Message
			w.say("exhausted: %s", message)
			if live := slices.DeleteFunc(w.droplets(), isGone); strings.Contains(message, serverGone) && len(live) == 0 {
				return w.neverTwo() // the user has to delete the machine
			}
			w.cure()
			w.retry()
		case rkev1.WaitingForRetryReason:
			w.cure()
		case rkev1.ServerMayExistReason:
			message := w.condition(rkev1.CreateJobCondition).Message
			named := func(r ledger.Record) bool { return r.IsLive() && strings.Contains(message, r.ID) }
			if w.setting.restore != bare || !strings.Contains(message, formerServer) || !w.lost && !slices.ContainsFunc(w.droplets(), named) {
				continue // nothing to look for, or the status of before the last retry, whose server is gone by now
			}
			w.say("the user looks at the cloud, and asks for another server")
			if err := w.neverTwo(); err != nil {
				return err
			}
			w.loseServer()
			w.retry()
		}
	}
	return fmt.Errorf("stuck: not Ready after %d turns", maxTurns)
}

// goAway deletes the machine and drives it until it is gone.
func (w *world) goAway() error {
	w.Helper()
	w.deleteMachine()
	for range maxTurns {
		there := w.turn()
		if err := w.forgotten(); err != nil {
			return err
		}
		if !there {
			return w.whenGone()
		}
		switch w.condition(rkev1.DeleteJobCondition).Reason {
		case rkev1.WaitingForRetryReason, rkev1.ServerMayExistReason, rkev1.ClassUnauthorized:
			w.cure()
			if c := w.condition(rkev1.DeleteJobCondition); w.setting.losesTag() && strings.Contains(c.Message, "then give it up") {
				w.loseServer()
				w.annotate(rkev1.AbandonAnnotation, machineName)
			}
		case rkev1.OwnerUnknownReason:
			// A manager whose clock is behind takes its own machine for one that came from a backup, and says so.
			w.annotate(rkev1.RemoveRestoredAnnotation, machineName)
		}
	}
	return fmt.Errorf("stuck: not gone after %d turns", maxTurns)
}

// live is a whole life under faults: nil when it went as it must.
func (w *world) live(troubles []trouble) error {
	w.Helper()
	defer w.cure()
	if err := w.pass(creating, troubles, w.comeReady); err != nil {
		return err
	}
	if w.setting.restore != "" && w.obj.GetDeletionTimestamp() == nil && w.condition(rkev1.ReadyCondition).Status == metav1.ConditionTrue {
		if err := w.pass(restoring, troubles, w.comeBack); err != nil {
			return err
		}
	}
	return w.pass(removing, troubles, w.goAway)
}

func (w *world) pass(phase string, troubles []trouble, drive func() error) error {
	w.Helper()
	w.classes, w.hopeless, w.lost = map[string]string{}, false, false
	w.arm(phase, troubles)
	err := drive()
	w.note(phase, troubles)
	if err == nil {
		err = w.trueCause(phase, troubles)
	}
	w.cure()
	return err
}

// trueCause compares the classes of the attempts that failed with what was wrong, when only one thing was.
func (w *world) trueCause(phase string, troubles []trouble) error {
	if len(troubles) != 1 || troubles[0].phase != phase {
		return nil
	}
	allowed, says := unclearClasses(), ""
	switch t := troubles[0]; t.place {
	case atCloud:
		allowed, says = effects()[t.kind].classes, effects()[t.kind].says
	case onDisk:
		allowed, says = []string{rkev1.ClassTransient}, "no space left on device"
	}
	for class, message := range w.classes {
		if (w.setting.gone || w.lost) && strings.Contains(message, serverGone) {
			continue // as it is
		}
		if w.setting.restore == bare && strings.Contains(message, formerServer) {
			continue
		}
		if len(allowed) > 0 && !slices.Contains(allowed, class) {
			return fmt.Errorf("the failure is said to be %s, %v would be true: %s", class, allowed, message)
		}
		if !strings.Contains(message, says) {
			return fmt.Errorf("the failure does not say %q: %s", says, message)
		}
	}
	return nil
}

// observe records a life without faults.
func observe(t *testing.T, l *lab) record {
	t.Helper()
	w := newWorld(t, l, tokenOf(0), plain)
	seen := record{creating: {}, removing: {}, restoring: {}}
	look := func(phase string, drive func() error) {
		before := len(theCloud.Faults.Hits())
		w.addRule(fault.Rule{Match: fault.AnyRequest, Token: w.token, Effect: fault.Effect{Latency: 1}})
		w.arm(phase, nil)
		require.NoError(t, drive(), w.story())
		for _, hit := range theCloud.Faults.Hits()[before:] {
			seen[phase][atCloud] = append(seen[phase][atCloud], hit.Method+" "+hit.Path)
		}
		seen[phase][manager], seen[phase][pod] = w.managerGate.recorded(), w.podGate.recorded()
		seen.uses(phase, w.used)
		w.used = disk{}
		w.cure()
	}
	look(creating, w.comeReady)
	look(removing, w.goAway)
	w = newWorld(t, l, tokenOf(0), setting{restore: asApplied})
	require.NoError(t, w.comeReady(), w.story())
	look(restoring, w.comeBack)
	require.NoError(t, w.goAway(), w.story())
	return seen
}

func TestFaults(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.seen = observe(t, l)
	t.Logf("%d points: %s", points(l.seen), strings.Join(tally(l.seen), ", "))
	require.Greater(t, points(l.seen), 40)
	if kinds := len(l.seen.singles()); *count >= shortPart {
		require.Less(t, kinds, shortPart-shortPart/everyPair, "each kind of fault at each place is tried at least once")
	}

	told := newReport(*first)
	t.Cleanup(func() { require.NoError(t, writeReport(told)) })
	runs := make(chan int)
	var group sync.WaitGroup
	for worker := range *workers {
		group.Go(func() {
			for n := range runs {
				t.Run(fmt.Sprintf("%d", n), func(t *testing.T) { try(t, l, worker, n, told) })
			}
		})
	}
	if *only >= 0 {
		runs <- *only
	}
	for n := *first; n < *first+*count && *only < 0; n++ {
		runs <- n
	}
	close(runs)
	group.Wait()
}

// shortPart is how many runs are part of `make test`.
const (
	shortPart = 200
	// keepEvery so many runs the report is written, so that a long matrix that is stopped leaves what it found.
	keepEvery = 50
)

// try is run n.
func try(t *testing.T, l *lab, worker, n int, told *report) {
	t.Helper()
	in, troubles := l.seen.run(n)
	w := newWorld(t, l, tokenOf(worker), in)
	err := w.live(troubles)
	if told.add(n, in, troubles, func(t trouble) bool { return w.struck[t] }, err)%keepEvery == 0 && *reportFile != "" {
		require.NoError(t, writeReport(told), "keeping what is known so far")
	}
	if testing.Verbose() {
		t.Logf("%v: %v\n%s", in, troubles, w.story())
	}
	require.NoError(t, err, "%v: %v\nonce again: make faults ONLY=%d\n%s", in, troubles, n, w.story())
}

func writeReport(told *report) error {
	if *reportFile == "" {
		return told.print(os.Stdout)
	}
	file, err := os.Create(*reportFile)
	if err != nil {
		return err
	}
	return errors.Join(told.print(file), file.Close())
}

func points(r record) int {
	sum := 0
	for _, places := range r {
		for _, requests := range places {
			sum += len(requests)
		}
	}
	return sum
}

func tally(seen record) []string {
	var out []string
	for phase, places := range seen {
		for place, requests := range places {
			out = append(out, fmt.Sprintf("%s %s %d", phase, place, len(requests)))
		}
	}
	slices.Sort(out)
	return out
}
