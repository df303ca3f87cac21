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
)

// maxTurns is how often the manager looks before a machine counts as stuck.
const maxTurns = 80

// arm puts the faults of a phase in place.
func (w *world) arm(phase string, troubles []trouble) {
	w.Helper()
	strikes := map[string]map[int]strike{manager: {}, pod: {}}
	for _, t := range troubles {
		if t.phase != phase {
			continue
		}
		if t.place == atCloud {
			w.armCloud(t)
			continue
		}
		strikes[t.place][t.index] = w.strikes()[t.kind]
	}
	w.managerGate.begin(strikes[manager])
	w.podGate.begin(strikes[pod])
}

func (w *world) armCloud(t trouble) {
	w.Helper()
	e := effects()[t.kind]
	w.hopeless = w.hopeless || e.hopeless
	rule := fault.Rule{Match: fault.AnyRequest, Token: w.token, Skip: t.index, Count: 1, Effect: e.Effect}
	if e.boots() {
		rule.Match, rule.Skip = fault.CreateDroplet, 0
	}
	if e.always {
		rule.Count = 0
	}
	id := w.addRule(rule)
	if !e.kills {
		return
	}
	// A pod that is killed asks the cloud for nothing more.
	w.addRule(fault.Rule{Match: fault.AnyRequest, Token: w.token, Skip: t.index, Effect: fault.ConnectionLost()})
	w.podGate.killed = func() bool {
		return slices.ContainsFunc(theCloud.Faults().List(), func(s fault.Status) bool { return s.ID == id && s.Applied > 0 })
	}
}

func (w *world) addRule(rule fault.Rule) string {
	w.Helper()
	id, err := theCloud.Faults().Add(rule)
	require.NoError(w, err)
	w.rules = append(w.rules, id)
	return id
}

// cure ends all that is wrong with the cloud.
func (w *world) cure() {
	for _, id := range w.rules {
		theCloud.Faults().Remove(id)
	}
	w.rules = nil
}

// comeReady drives the machine until it is Ready, or deleted by a fault. When no attempt follows by itself, the cause is
// mended and another one asked for, as the condition says.
func (w *world) comeReady() error {
	w.Helper()
	for range maxTurns {
		if !w.turn() || w.obj.GetDeletionTimestamp() != nil {
			return nil
		}
		if w.condition(rkev1.ReadyCondition).Status == metav1.ConditionTrue && w.condition(rkev1.ProviderIDKnownCondition).Status == metav1.ConditionTrue {
			return w.whenReady()
		}
		if w.hopeless && w.status().Attempts > 1 {
			return w.neverTwo()
		}
		switch w.condition(rkev1.CreateJobCondition).Reason {
		case rkev1.AttemptsExhaustedReason:
			w.say("exhausted: %s", w.condition(rkev1.CreateJobCondition).Message)
			w.cure()
			w.retry()
		case rkev1.WaitingForRetryReason:
			w.cure()
		}
	}
	return fmt.Errorf("stuck: not Ready after %d turns", maxTurns)
}

// goAway deletes the machine and drives it until it is gone.
func (w *world) goAway() error {
	w.Helper()
	w.deleteMachine()
	for range maxTurns {
		if !w.turn() {
			return w.whenGone()
		}
		switch w.condition(rkev1.DeleteJobCondition).Reason {
		case rkev1.WaitingForRetryReason, rkev1.ServerMayExistReason:
			w.cure()
		}
	}
	return fmt.Errorf("stuck: not gone after %d turns", maxTurns)
}

// live is a whole life under faults: nil when it went as it must.
func (w *world) live(troubles []trouble) error {
	w.Helper()
	defer w.cure()
	w.arm(creating, troubles)
	if err := w.comeReady(); err != nil {
		return err
	}
	if err := w.trueCause(creating, troubles); err != nil {
		return err
	}
	w.cure()
	w.classes = map[string]string{}
	w.arm(removing, troubles)
	if err := w.goAway(); err != nil {
		return err
	}
	return w.trueCause(removing, troubles)
}

// trueCause compares the classes of the attempts that failed with what was wrong with the cloud, when only that was.
func (w *world) trueCause(phase string, troubles []trouble) error {
	if len(troubles) != 1 || troubles[0].place != atCloud || troubles[0].phase != phase {
		return nil
	}
	allowed := effects()[troubles[0].kind].classes
	for class, message := range w.classes {
		if len(allowed) > 0 && !slices.Contains(allowed, class) {
			return fmt.Errorf("the failure is said to be %s, %v would be true: %s", class, allowed, message)
		}
	}
	return nil
}

// observe records a life without faults.
func observe(t *testing.T, l *lab) record {
	t.Helper()
	w := newWorld(t, l, tokenOf(0))
	seen := record{creating: {}, removing: {}}
	look := func(phase string, drive func() error) {
		before := len(theCloud.Faults().Hits())
		w.addRule(fault.Rule{Match: fault.AnyRequest, Token: w.token, Effect: fault.Slow(1)})
		w.arm(phase, nil)
		require.NoError(t, drive(), w.story())
		for _, hit := range theCloud.Faults().Hits()[before:] {
			seen[phase][atCloud] = append(seen[phase][atCloud], hit.Method+" "+hit.Path)
		}
		seen[phase][manager], seen[phase][pod] = w.managerGate.recorded(), w.podGate.recorded()
		w.cure()
	}
	look(creating, w.comeReady)
	look(removing, w.goAway)
	return seen
}

func TestFaults(t *testing.T) {
	l := newLab(t)
	seen := observe(t, l)
	singles := seen.singles()
	t.Logf("%d points: %s", points(seen), strings.Join(tally(singles), ", "))
	require.Greater(t, points(seen), 40)

	told := newReport()
	t.Cleanup(func() { require.NoError(t, writeReport(told)) })
	runs := make(chan int)
	var group sync.WaitGroup
	for worker := range *workers {
		group.Go(func() {
			for n := range runs {
				troubles := seen.run(n)
				t.Run(fmt.Sprintf("%d", n), func(t *testing.T) {
					w := newWorld(t, l, tokenOf(worker))
					err := w.live(troubles)
					told.add(troubles, err)
					require.NoError(t, err, "%v\nonce again: make faults ONLY=%d\n%s", troubles, n, w.story())
				})
			}
		})
	}
	if *only >= 0 {
		runs <- *only
	}
	for n := 0; n < *count && *only < 0; n++ {
		runs <- n
	}
	close(runs)
	group.Wait()
}

func writeReport(told *report) error {
	if *reportFile == "" {
		return nil
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

func tally(all []trouble) []string {
	counts := map[string]int{}
	for _, t := range all {
		counts[t.phase+" "+t.place]++
	}
	var out []string
	for name, n := range counts {
		out = append(out, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(out)
	return out
}
