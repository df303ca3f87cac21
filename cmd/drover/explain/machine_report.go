package explain

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/advice"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/listing"
	"github.com/drover-project/drover/state"
)

// Machine explains a snapshot of a machine, or of a name without one. Command is the name of the
// CLI, "drover" or "kubectl drover".
func Machine(s *facts.Snapshot, command string) *Report {
	r := &Report{APIVersion: listing.APIVersion, Kind: Kind, Problems: cleanAll(s.Problems), now: s.Now}
	if s.Machine == nil {
		explainAbsent(r, s)
	} else {
		explainMachine(r, s)
	}
	r.Related = related(s)
	r.Events = newEvents(s.Events, s.Pods)
	r.finish(command)
	return r
}

// finish makes all texts safe to show, writes commands with the CLI's name, and makes the list of
// next steps non-nil, because programs read it. It adds the addresses of the reasons' headings.
func (r *Report) finish(command string) {
	r.Subject, r.Verdict = facts.Clean(r.Subject), cleanAll(r.Verdict)
	next := []string{}
	for _, text := range r.Next {
		next = append(next, reach(facts.Clean(text), command))
	}
	r.Next = next
	if r.Blocker != nil {
		r.told = append([]string{r.Blocker.Reason, r.Blocker.Class}, r.told...)
	}
	for _, reason := range r.told {
		r.Docs = appendNew(r.Docs, advice.Page(reason))
	}
}

func explainMachine(r *Report, s *facts.Snapshot) {
	m := s.Machine
	r.Subject = fmt.Sprintf("%s %s/%s", m.Kind.Name, m.Namespace, m.Name)
	r.Phase = facts.Clean(m.Phase())
	r.Facts = knownFacts([]Fact{{"driver", driverName(s)}, {"cluster", m.ClusterName()}, {"address", m.Address()}, {"providerID", m.Spec.ProviderID},
		{"server", m.Status.InstanceName}, {"age", facts.Age(s.Now, m.CreationTimestamp.Time)}})
	order := slices.Clone(createSteps)
	for _, name := range observedSteps {
		if m.Condition(name) != nil {
			order = append(order, name)
		}
	}
	if m.DeletionTimestamp != nil {
		order = removeSteps
	}
	r.Steps = timeline(m.Status.Conditions, order)
	for i := range r.Steps {
		// A condition that was never observed blocks nothing.
		if step := &r.Steps[i]; step.State == StepWaiting && slices.Contains(observedSteps, step.Name) {
			step.State = StepPending
		}
	}
	if m.DeletionTimestamp == nil && s.CAPIMachine != nil {
		if step := bootstrapFailure(s.CAPIMachine); step != nil {
			r.Steps = append(r.Steps, *step)
		}
		for _, name := range planSteps {
			if c := meta.FindStatusCondition(s.CAPIMachine.Status.Conditions, name); c != nil {
				r.Steps = append(r.Steps, newStep(name, c))
			}
		}
		if c := meta.FindStatusCondition(s.CAPIMachine.Status.Conditions, nodeStep); c != nil && s.CAPIMachine.Status.NodeRef.IsDefined() {
			r.Steps = append(r.Steps, capiStep(nodeStep, c))
		}
	}
	r.Log = machineLog(s)
	d := &decision{Report: r, Snapshot: s, words: about(s).Words()}
	d.decide()
	d.withoutLogin()
}

// knownFacts leaves out the empty ones. Values come from drivers and clouds.
func knownFacts(all []Fact) []Fact {
	var known []Fact
	for _, fact := range all {
		if value := facts.Clean(fact.Value); value != "" {
			known = append(known, Fact{fact.Name, value})
		}
	}
	return known
}

func driverName(s *facts.Snapshot) string {
	if s.Driver != nil {
		return s.Driver.DriverName()
	}
	return facts.DriverName(s.Machine.Kind.Name, nil)
}

// logLines is how many lines of a log fit on one screen beside the rest.
const logLines = 8

// machineLog is the end of the log of the running Job, else the output of the plan's failing step,
// else the last saved log: from the state Secret, or else the tail in the status. The state Secret
// has no log of a removal in another namespace.
func machineLog(s *facts.Snapshot) *Log {
	if s.Live != "" {
		return newLog("the current log of Job "+s.Jobs[0].Name, s.Live)
	}
	if log := failureLog(s.Failure); log != nil {
		return log
	}
	var last rkev1.AttemptStatus
	if s.Machine != nil {
		last = ptr.Deref(s.Machine.Status.LastAttempt, last)
	}
	elsewhere := last.Operation == string(state.Remove) && inFallback(s.Machine)
	if kept := ptr.Deref(s.State, facts.State{}); kept.Log != "" && !elsewhere {
		source := "log.txt of Secret " + kept.Name
		if result := kept.Result; result != nil {
			source += fmt.Sprintf(", attempt %d to %s", result.Attempt, result.Operation)
		}
		return newLog(source, kept.Log)
	}
	return newLog(fmt.Sprintf("status.lastAttempt.logTail, attempt %d to %s", last.Number, last.Operation), last.LogTail)
}

// failureLog is the end of the output of the plan's failed step.
func failureLog(f *facts.Failure) *Log {
	if f == nil {
		return nil
	}
	return newLog(fmt.Sprintf("%s on the server of Machine %s", f.Step, f.Machine), f.Output)
}

func newLog(source, text string) *Log {
	lines := lastLines(text, logLines)
	if len(lines) == 0 {
		return nil
	}
	return &Log{Source: facts.Clean(source), Lines: lines}
}

// eventLines is how many events fit on one screen beside the rest.
const eventLines = 6

// newEvents takes the newest events, oldest first. A failed mount of a pod that has started is
// skipped: it means only that the request Secret was deleted, which is not needed any more.
func newEvents(events []corev1.Event, pods []corev1.Pod) []Event {
	events = slices.DeleteFunc(slices.Clone(events), func(e corev1.Event) bool {
		return e.Reason == podNotMounted && slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
			return pod.UID == e.InvolvedObject.UID && pod.Status.Phase != corev1.PodPending
		})
	})
	if len(events) > eventLines {
		events = events[len(events)-eventLines:]
	}
	var list []Event
	for _, e := range events {
		count := e.Count
		if e.Series != nil {
			count = e.Series.Count
		}
		list = append(list, Event{
			Time: facts.EventTime(e).UTC(), Type: cmp.Or(facts.Clean(e.Type), corev1.EventTypeNormal), Reason: facts.Clean(e.Reason),
			Object: facts.Clean(e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name), Message: facts.Clean(e.Message), Count: count,
		})
	}
	return list
}
