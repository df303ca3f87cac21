package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/state"
)

// decision finds out what blocks a machine and fills Verdict, Blocker and Next.
type decision struct {
	*Report
	*facts.Snapshot
	words words
}

// managerSilent is how long after it held its lease last a manager surely does not run: it is given back at the end, and taken over after 15 s.
const managerSilent = time.Minute

func (d *decision) decide() {
	if !d.ManagerSeen.IsZero() && d.Now.Sub(d.ManagerSeen) > managerSilent {
		d.say(advice{says: "Drover's manager has not been at work for " + age(d.Now, d.ManagerSeen) + ": what follows is of before.", next: []string{nextManager}}, d.words)
	}
	switch {
	case isTrue(d.Machine.Condition(rkev1.PausedCondition)), len(d.Machine.Status.Conditions) == 0 && d.isPaused():
		d.decidePaused()
	case len(d.Machine.Status.Conditions) == 0:
		d.decideUnseen()
	default:
		d.decideSteps()
	}
}

func (d *decision) decideSteps() {
	step := firstReached(slices.DeleteFunc(slices.Clone(d.Steps[:len(d.Steps)-1]), func(s Step) bool {
		return slices.Contains(observedSteps, s.Name) && s.State != StepFailed
	}))
	switch {
	case step == nil, step.Reason == "" && isTrue(d.Machine.Condition(rkev1.ReadyCondition)):
		d.decideDone()
		return
	case step.Name == rkev1.ClusterReadyCondition && step.Reason == rkev1.DeletingReason:
		// No server is made for a CAPI Machine that goes.
		d.decideOwnerDeleting("no server is made for it any more.")
		return
	}
	d.Blocker = &Blocker{Step: step.Name, Reason: step.Reason, Message: step.Message}
	switch step.Reason {
	case "":
		d.say(advice{says: "The step " + step.Name + " was not reached yet; the manager works on it or has stopped.", next: []string{nextManager}}, d.words)
	case rkev1.WaitingForOwnerReason:
		d.decideOwner(step.Message)
	case rkev1.NodeSilentReason:
		d.decideNodeSilent(step)
	default:
		d.decideStep(step)
	}
}

// isPaused reports whether Cluster or machine say so themselves.
func (d *decision) isPaused() bool {
	_, machine := d.Machine.Annotations[clusterv1.PausedAnnotation]
	return machine || d.Cluster != nil && d.Cluster.Spec.Paused != nil && *d.Cluster.Spec.Paused
}

// decidePaused tells who paused the machine, and how to go on.
func (d *decision) decidePaused() {
	d.Blocker = &Blocker{Step: rkev1.PausedCondition, Reason: "Paused"}
	if paused := d.Machine.Condition(rkev1.PausedCondition); paused != nil {
		d.Blocker.Message = clean(paused.Message)
	}
	cluster := d.Cluster != nil && d.Cluster.Spec.Paused != nil && *d.Cluster.Spec.Paused
	_, machine := d.Machine.Annotations[clusterv1.PausedAnnotation]
	if cluster || !machine {
		d.say(pausedCluster, d.words)
	}
	if machine || !cluster {
		d.say(pausedMachine, d.words)
	}
	if !machine && !cluster {
		d.Verdict = []string{"Nothing happens: the Cluster or the machine is paused."}
	}
	if d.Machine.DeletionTimestamp != nil {
		d.Verdict = append(d.Verdict, "It is being deleted; its server is removed when it goes on.")
	}
}

// decideUnseen is for a machine that no manager has looked at.
func (d *decision) decideUnseen() {
	d.Blocker = &Blocker{Reason: "NotReconciled"}
	d.say(advice{says: "No manager has looked at this machine yet.", next: []string{nextManager}}, d.words)
	if d.Machine.CAPIMachineName() == "" {
		d.decideOwner("")
	}
}

// decideOwner is for a machine that nobody owns; message is what the manager says of that.
func (d *decision) decideOwner(message string) {
	if d.CAPIMachine == nil || !d.Machine.IsNamedBy(d.CAPIMachine) {
		d.say(machineAdvice[rkev1.WaitingForOwnerReason], d.words)
		d.Verdict = appendNew(d.Verdict, message)
		return
	}
	paused := facts.FindCondition(d.CAPIMachine.Status.Conditions, clusterv1.PausedCondition)
	if !isTrue(paused) {
		d.say(ownerIdle, d.words)
		return
	}
	d.say(ownerPaused, d.words)
	d.Blocker.Message = clean(paused.Message)
	d.Verdict = appendNew(d.Verdict, d.Blocker.Message)
	_, machine := d.CAPIMachine.Annotations[clusterv1.PausedAnnotation]
	// A Cluster that cannot be read is paused if nothing else can be.
	cluster := d.Cluster == nil && !machine || d.Cluster != nil && ptr.Deref(d.Cluster.Spec.Paused, false)
	if cluster {
		d.say(advice{next: pausedCluster.next}, d.words)
	}
	if machine {
		d.say(ownerLetGo, d.words)
	}
	if !cluster && !machine {
		d.say(ownerAsleep, d.words)
	}
}

func (d *decision) decideDone() {
	m := d.Machine
	if m.DeletionTimestamp != nil {
		d.Blocker = &Blocker{Reason: "Finalizers"}
		d.say(advice{says: "The server is gone; the object waits for its finalizers: " + strings.Join(m.Finalizers, ", ") + ".",
			next: []string{"It goes within seconds; a finalizer that is not " + rkev1.MachineFinalizer + " belongs to another controller", nextManager}}, d.words)
		return
	}
	d.say(machineAdvice[rkev1.ReadyReason], d.words)
	if d.State != nil && d.State.Deleting {
		d.say(stateGoing, d.words)
	}
	if d.CAPIMachine != nil && d.CAPIMachine.DeletionTimestamp != nil {
		d.decideOwnerDeleting("Cluster API has not asked for the server's removal yet.")
		return
	}
	if d.CAPIMachine != nil && !d.CAPIMachine.Status.NodeRef.IsDefined() {
		d.say(advice{says: "Cluster API waits for its node to join the cluster.", next: []string{nextNode}}, d.words)
	}
}

// decideOwnerDeleting is for a machine that stays because Cluster API has to do something first, such as draining its node.
func (d *decision) decideOwnerDeleting(meaning string) {
	d.Blocker = &Blocker{Reason: "CAPIMachineDeleting"}
	d.say(advice{says: "Its CAPI Machine is being deleted; " + meaning,
		next: []string{"See what Cluster API waits for: kubectl -n {ns} describe machine.cluster.x-k8s.io {capi}"}}, d.words)
	if d.CAPIMachine == nil {
		return
	}
	if c := facts.FindCondition(d.CAPIMachine.Status.Conditions, clusterv1.MachineDeletingCondition); c != nil && c.Message != "" {
		d.Blocker.Message = clean(c.Message)
		d.Verdict = append(d.Verdict, d.Blocker.Message)
	}
}

// decideStep explains a step that was reached and is not done.
func (d *decision) decideStep(step *Step) {
	running := isJobStep(step.Name) && d.Machine.Condition(step.Name).Status == metav1.ConditionUnknown
	if running && d.decideJob(step) {
		return
	}
	about := d.adviceFor(step)
	if last := d.failedAttempt(step); last != nil && !running {
		d.tellAttempt(last)
		switch {
		case step.Reason != rkev1.ServerMayExistReason:
		case step.Name == rkev1.CreateJobCondition:
			about = lookFirst
		default:
			about = stillThere
		}
		d.say(about, d.words)
	} else {
		d.say(about, d.words)
		if step.Message != "" {
			d.Verdict = append(d.Verdict, step.Message)
		}
	}
	if running && len(d.Pods) > 0 && d.Pods[0].Spec.ActiveDeadlineSeconds != nil && d.Pods[0].Status.StartTime != nil {
		until := d.Pods[0].Status.StartTime.Add(time.Duration(*d.Pods[0].Spec.ActiveDeadlineSeconds) * time.Second)
		d.Verdict = append(d.Verdict, fmt.Sprintf("If the driver hangs, it is waited for until %s (in %s): then the Job is ended.",
			until.UTC().Format(time.RFC3339), duration.HumanDuration(max(until.Sub(d.Now), 0))))
	}
	if step.Name == rkev1.CreateJobCondition {
		d.tellAhead()
	}
	if tellsOfAttempt(step.Reason) {
		d.tellNextAttempt()
	}
}

// decideNodeSilent is for a Job whose pod cannot end, which the manager knows better than the pod's status does.
func (d *decision) decideNodeSilent(step *Step) {
	if len(d.Pods) > 0 {
		d.words["pod"], d.words["node"] = d.Pods[0].Name, d.Pods[0].Spec.NodeName
	}
	about := resultAdvice[step.Reason]
	if d.Machine.DeletionTimestamp != nil {
		about = forRemoval(about)
	}
	d.say(about, d.words)
	d.Verdict = append(d.Verdict, step.Message)
}

// adviceFor is the advice for a step that is not done.
func (d *decision) adviceFor(step *Step) advice {
	if step.Reason == rkev1.CredentialMissingReason && !d.namesCredential() {
		return noCredential
	}
	about, known := conditionAdvice(step.Reason)
	if known && d.Machine.DeletionTimestamp != nil && step.State == StepFailed {
		if step.Reason == rkev1.CredentialMissingReason {
			about.next = append(slices.Clone(about.next), nextLendCredential...)
		}
		return forRemoval(about)
	}
	if known {
		return about
	}
	next := nextDescribe
	if isJobStep(step.Name) {
		next = nextLogs
	}
	return advice{says: "The step " + step.Name + " is not done: " + step.Reason + ".", next: []string{next}}
}

// forRemoval is advice for a machine that only has to go: no template helps it, and it can be given up.
func forRemoval(about advice) advice {
	about.next = slices.DeleteFunc(slices.Clone(about.next), func(next string) bool {
		return next == nextTemplate || next == nextOtherCredential || next == nextAbandon
	})
	about.next = append(about.next, nextAbandon)
	return about
}

func (d *decision) namesCredential() bool {
	name := d.Machine.Credential().Name
	return name != ""
}

// failedAttempt is the attempt that a step tells of; nil when it tells of something else, such as a Job that is refused.
func (d *decision) failedAttempt(step *Step) *rkev1.AttemptStatus {
	last := d.Machine.Status.LastAttempt
	if !isJobStep(step.Name) || !tellsOfAttempt(step.Reason) || last == nil || last.Outcome == string(state.Succeeded) ||
		step.Name != conditionOf(last.Operation) {
		return nil
	}
	return last
}

// tellsOfAttempt reports whether a condition with the reason says how the last attempt ended.
func tellsOfAttempt(reason string) bool {
	switch reason {
	case rkev1.WaitingForRetryReason, rkev1.AttemptsExhaustedReason, rkev1.ServerMayExistReason, rkev1.CreateErrorReason,
		rkev1.DeleteErrorReason, rkev1.JobCancelledReason:
		return true
	}
	return false
}

func isTrue(c *metav1.Condition) bool {
	return c != nil && c.Status == metav1.ConditionTrue
}

func isJobStep(name string) bool {
	return name == rkev1.CreateJobCondition || name == rkev1.DeleteJobCondition
}

func conditionOf(operation string) string {
	if operation == string(state.Remove) {
		return rkev1.DeleteJobCondition
	}
	return rkev1.CreateJobCondition
}

// decideJob looks behind a Job that is said to run; it reports whether that explained all.
func (d *decision) decideJob(step *Step) bool {
	if step.Name == rkev1.DeleteJobCondition && step.Reason == rkev1.JobCancelledReason {
		d.say(cancelling, d.words)
		d.Verdict = appendNew(d.Verdict, step.Message)
		return true
	}
	reason, message := d.jobTrouble(step.Reason)
	if reason == "" {
		return false
	}
	if len(d.Pods) > 0 {
		d.words["pod"], d.words["node"] = d.Pods[0].Name, d.Pods[0].Spec.NodeName
	}
	d.Blocker.Reason, d.Blocker.Message = reason, clean(message)
	d.say(podAdvice[reason], d.words)
	d.Verdict = appendNew(d.Verdict, clean(message))
	return true
}

// jobTrouble is what is wrong with the Job that the machine names and with its pod; said is what the manager says of it.
func (d *decision) jobTrouble(said string) (reason, message string) {
	name := d.Machine.Status.JobName
	named := func(job batchv1.Job) bool { return job.Name == name }
	switch {
	case name == "" || len(d.Jobs) > 0 && named(d.Jobs[0]):
		return podTrouble(d.Jobs, d.Pods, d.Snapshot.Events)
	case slices.ContainsFunc(d.Jobs, named) || !d.Knows(facts.JobsPart):
		// A newer Job was made since the status was written, or nothing is known: the pods are not this Job's.
		return "", ""
	case said != rkev1.JobRunningReason && said != rkev1.JobPendingReason:
		// The manager itself says what holds the Job up.
		return "", ""
	case inFallback(d.Machine):
		return jobInFallback, ""
	}
	return jobMissing, ""
}

// fallbackNamespace is where the remove Job of a machine runs whose own namespace is being deleted (docs/dataflow.md).
const fallbackNamespace = "drover-drivers"

func inFallback(m *facts.Machine) bool {
	return m.UID != "" && strings.HasPrefix(m.Status.JobName, "refuge-"+string(m.UID))
}
