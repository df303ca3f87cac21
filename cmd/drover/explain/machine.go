package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-project/drover/advice"
	"github.com/drover-project/drover/api/connect"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/state"
)

// decision determines the blocker of a machine and fills Verdict, Blocker and Next.
type decision struct {
	*Report
	*facts.Snapshot
	words advice.Words
}

// serverRuns is the verdict about the server of a machine that waits for something else.
const serverRuns = "The server runs and its state is stored."

func (d *decision) decide() {
	_, annotated := d.Machine.Annotations[clusterv1.PausedAnnotation]
	cluster := d.Cluster != nil && ptr.Deref(d.Cluster.Spec.Paused, false)
	reached := d.Machine.Condition(rkev1.ClusterReadyCondition)
	unowned := reached != nil && reached.Reason == rkev1.WaitingForOwnerReason // the pause, if any, is the reason
	switch {
	case meta.IsStatusConditionTrue(d.Machine.Status.Conditions, rkev1.PausedCondition), (annotated || cluster) && !unowned: // the manager may not have seen it
		d.decidePaused(cluster, annotated)
	case len(d.Machine.Status.Conditions) == 0:
		d.hold("NotReconciled", own{says: "No manager has reconciled this machine yet.", next: []string{nextManager}}, d.words)
		if d.Machine.CAPIMachineName() == "" {
			d.decideOwner("")
		}
	default:
		d.decideSteps()
	}
	if d.CAPIMachine == nil || slices.Contains(d.Next, d.words.Fill(goOnCAPI)[0]) {
		return
	}
	if _, paused := d.CAPIMachine.Annotations[clusterv1.PausedAnnotation]; paused {
		d.advise(own{"The CAPI Machine {capi} is paused (annotation cluster.x-k8s.io/paused). Cluster API does not reconcile or delete it until it is resumed.",
			[]string{goOnCAPI}}, d.words)
	}
}

func (d *decision) decideSteps() {
	aside := append([]string{rkev1.ReadyCondition, bootstrapStep, nodeStep}, planSteps...)
	step := firstReached(slices.DeleteFunc(slices.Clone(d.Steps), func(s Step) bool {
		return slices.Contains(aside, s.Name) || slices.Contains(observedSteps, s.Name) && s.State != StepFailed
	}))
	switch {
	case step == nil, step.Reason == "" && meta.IsStatusConditionTrue(d.Machine.Status.Conditions, rkev1.ReadyCondition):
		d.decideDone()
	case step.Name == rkev1.ClusterReadyCondition && step.Reason == rkev1.DeletingReason:
		// No server is made for a CAPI Machine that goes.
		d.decideOwnerDeleting("Drover creates no server for it.")
	default:
		d.Blocker = step.blocker()
		d.decideOpen(step)
	}
}

// decideOpen explains a step that is not done.
func (d *decision) decideOpen(step *Step) {
	switch step.Reason {
	case "":
		d.advise(own{says: "The step " + step.Name + " is not done yet. The manager works on it, or the manager has stopped.", next: []string{nextManager}}, d.words)
	case rkev1.WaitingForOwnerReason:
		d.decideOwner(step.Message)
	case rkev1.NodeSilentReason: // the manager knows it better than the pod's status does
		d.reportPod(step.Reason, step.Message, d.Pods, d.words)
		if d.Machine.DeletionTimestamp != nil {
			d.advise(own{next: []string{advice.NextAbandon}}, d.words)
		}
	default:
		d.decideStep(step)
	}
}

// The condition may not name every source of a pause: both the Cluster and the machine may be
// paused, and the Cluster may be unreadable.
var (
	pausedCluster = own{"The Cluster {cluster} is paused, so Drover does not reconcile the machine.",
		[]string{"Resume the Cluster: kubectl -n {ns} patch cluster.cluster.x-k8s.io {cluster} --type merge -p '{\"spec\":{\"paused\":false}}'"}}
	pausedMachine = own{"The machine has the annotation cluster.x-k8s.io/paused, so Drover does not reconcile it.",
		[]string{"Resume the machine: kubectl -n {ns} annotate {resource} {name} cluster.x-k8s.io/paused-"}}
)

const goOnCAPI = "Resume the CAPI Machine: kubectl -n {ns} annotate machine.cluster.x-k8s.io {capi} cluster.x-k8s.io/paused-"

func (d *decision) decidePaused(cluster, machine bool) {
	d.Blocker = &Blocker{Step: rkev1.PausedCondition, Reason: "Paused"}
	if paused := d.Machine.Condition(rkev1.PausedCondition); paused != nil {
		d.Blocker.Message = facts.Clean(paused.Message)
	}
	switch {
	case cluster == machine: // both, or it is not known which
		d.advise(pausedCluster, d.words)
		d.advise(pausedMachine, d.words)
		if !cluster {
			d.Verdict = []string{"The Cluster or the machine is paused, so Drover does not reconcile the machine."}
		}
	case cluster:
		d.advise(pausedCluster, d.words)
	default:
		d.advise(pausedMachine, d.words)
	}
	if d.Machine.DeletionTimestamp != nil {
		d.Verdict = append(d.Verdict, "It is being deleted. Its server is removed after it is resumed.")
	}
}

// decideOwner explains a machine without an owner; message is the manager's own. The CAPI Machine
// that refers to a machine sets itself as the owner, unless it is paused.
func (d *decision) decideOwner(message string) {
	const runs = "check whether Cluster API's controllers run"
	if d.CAPIMachine == nil || !d.Machine.IsNamedBy(d.CAPIMachine) {
		d.advise(own{"It waits for the CAPI Machine that owns it.", []string{"If you created this object by hand, create a CAPI Machine whose spec.infrastructureRef names it",
			"If a MachineSet created it, Cluster API sets the owner within seconds. Otherwise " + runs, nextManager}}, d.words)
		d.Verdict = appendNew(d.Verdict, message)
		return
	}
	paused := meta.FindStatusCondition(d.CAPIMachine.Status.Conditions, clusterv1.PausedCondition)
	if paused == nil || paused.Status != metav1.ConditionTrue {
		d.advise(own{"The CAPI Machine {capi} names it but does not own it yet. Cluster API sets the owner within seconds.",
			[]string{nextCAPI, "If its conditions show no cause, " + runs, nextManager}}, d.words)
		return
	}
	d.advise(own{says: "The CAPI Machine {capi} names it but does not own it yet, because the CAPI Machine is paused."}, d.words)
	d.Blocker.Message = facts.Clean(paused.Message)
	d.Verdict = appendNew(d.Verdict, d.Blocker.Message)
	_, machine := d.CAPIMachine.Annotations[clusterv1.PausedAnnotation]
	// A Cluster that cannot be read is paused if nothing else can be.
	cluster := d.Cluster == nil && !machine || d.Cluster != nil && ptr.Deref(d.Cluster.Spec.Paused, false)
	if cluster {
		d.advise(own{next: pausedCluster.next}, d.words)
	}
	if machine {
		d.advise(own{next: []string{goOnCAPI}}, d.words)
	}
	if !cluster && !machine {
		d.advise(own{"The pause of the CAPI Machine and its Cluster has ended.", []string{
			"Trigger a reconcile of the CAPI Machine: kubectl -n {ns} annotate machine.cluster.x-k8s.io {capi} --overwrite woken=$(date +%s)", "If nothing changes, " + runs, nextManager}}, d.words)
	}
}

func (d *decision) decideDone() {
	m := d.Machine
	if m.DeletionTimestamp != nil {
		d.hold("Finalizers", own{"The server is removed. The object waits for its finalizers: " + strings.Join(m.Finalizers, ", ") + ".",
			[]string{"The object is deleted within seconds. A finalizer other than " + rkev1.MachineFinalizer + " belongs to another controller", nextManager}}, d.words)
		return
	}
	unwell, behind, bootstrap := openStep(d.Steps, nodeStep), openStep(d.Steps, rkev1.ReconciledCondition), openStep(d.Steps, bootstrapStep)
	d.reportServer(unwell == nil)
	if d.CAPIMachine != nil && d.CAPIMachine.DeletionTimestamp != nil {
		d.decideOwnerDeleting("Cluster API has not deleted the infra machine yet.")
		return
	}
	// Of the plan's steps, this one names the cause.
	if behind != nil {
		d.blockAt(behind)
	}
	if bootstrap != nil {
		d.reportBootstrap(d.CAPIMachine, bootstrap, "Its")
	}
	switch {
	case unwell != nil:
		// The agent's delay, reported before, may have the same cause.
		if d.Blocker == nil {
			d.blockAt(unwell)
		} else {
			d.addStep(unwell)
		}
		d.advise(ofNode(d.CAPIMachine.Status.NodeRef.Name, unwell.Reason), d.words)
	case behind == nil && bootstrap == nil && d.CAPIMachine != nil && !d.CAPIMachine.Status.NodeRef.IsDefined():
		d.decideNoNode()
	}
	if unwell != nil || d.CAPIMachine != nil && !d.CAPIMachine.Status.NodeRef.IsDefined() {
		d.reportUnseen()
	}
}

// reportUnseen reports that no scan has listed the server, which may be why no healthy Node exists.
func (d *decision) reportUnseen() {
	c := d.Machine.Condition(rkev1.ServerExistsCondition)
	if c == nil || c.Reason != rkev1.ServerNotSeenReason || !clouds.Of(driverName(d.Snapshot)).Lists {
		return
	}
	text, _ := advice.Split(c.Message)
	d.Verdict = appendNew(d.Verdict, "It is not known whether the server exists: "+facts.Clean(text))
	d.advise(own{next: []string{"Ask whether the cloud lists the server: drover gc -n {ns}"}}, d.words)
}

// reportServer reports an existing server and its state. It says that the server runs unless a
// condition contradicts this.
func (d *decision) reportServer(runs bool) {
	switch {
	case d.State != nil && d.State.Name == "":
		d.Blocker = &Blocker{Step: rkev1.StateStoredCondition, Reason: rkev1.StateMissingReason}
		d.advise(own{"The server was created, but its state Secret {state} is missing. Login to the server needs this Secret.",
			about(d.Snapshot).On(metav1.Condition{Reason: rkev1.StateMissingReason}, nil)}, d.words)
	case runs:
		d.advise(own{says: serverRuns}, d.words)
	default:
		d.advise(own{says: "The server was created and its state is stored."}, d.words)
	}
	if d.State != nil && d.State.Deleting {
		d.advise(own{"Its state Secret {state} is being deleted; only its finalizer keeps it. Login to the server needs this Secret.", []string{
			"Save the Secret in a file that only you can read: (umask 077; kubectl -n {ns} get secret {state} -o yaml | grep -v '^ *resourceVersion:' > {state}.yaml)",
			"After it is saved, remove its finalizer: kubectl -n {ns} patch secret {state} --type merge -p '{\"metadata\":{\"finalizers\":null}}'",
			"Then create the Secret again from the file, and delete the file: kubectl -n {ns} create -f {state}.yaml"}}, d.words)
	}
}

// decideNoNode is for a server that is no Node yet: its control plane may give no plans, or the
// cluster's API be out of the manager's reach.
func (d *decision) decideNoNode() {
	if d.ControlPlane != nil {
		name := rkev1.ReconciledCondition
		if meta.FindStatusCondition(d.CAPIMachine.Status.Conditions, name) != nil { // it has applied its plan
			name = rkev1.AvailableCondition
		}
		step := newStep(name, meta.FindStatusCondition(d.ControlPlane.Conditions, name))
		if step.State == StepFailed || step.State == StepWaiting {
			step.Message = "the control plane " + d.ControlPlane.Name + ": " + step.Message
			d.blockAt(&step)
			return
		}
	}
	next := []string{advice.NextNode}
	if meta.IsStatusConditionTrue(d.CAPIMachine.Status.Conditions, rkev1.ReconciledCondition) { // its bootstrap is over, and its kubelet runs
		next = []string{advice.NextRegister, nextNodeUnwell[0]}
	}
	d.advise(own{"Cluster API waits for the Node to join the cluster.", next}, d.words)
}

// nextNodeUnwell is for a node that was well before.
var nextNodeUnwell = []string{
	"See the state of the kubelet: drover ssh {name} -n {ns} -- 'systemctl status --no-pager kubelet k3s k3s-agent rke2-server rke2-agent; df -h'",
	"Read the log of the kubelet, k3s or RKE2: drover ssh {name} -n {ns} -- 'sudo journalctl -u kubelet -u k3s -u k3s-agent -u rke2-server -u rke2-agent -n 50 --no-pager'",
	"If the login fails, look at the server in the cloud",
	"If the server is lost, delete its Machine. Never delete the cluster's only server, which holds the cluster's data: kubectl -n {ns} delete machine.cluster.x-k8s.io {capi}",
}

// ofNode returns advice about a node that existed; reason is Cluster API's.
func ofNode(name, reason string) own {
	if reason == clusterv1.MachineNodeDeletedReason || reason == clusterv1.MachineNodeDoesNotExistReason {
		return own{"Its Node " + name + " does not exist any more. It was deleted, or the server is gone.", slices.Concat([]string{advice.NextRegister}, nextNodeUnwell)}
	}
	return own{"Its Node " + name + " is not healthy or not reachable. The server may be off, gone or overloaded.", nextNodeUnwell}
}

// decideOwnerDeleting is for a machine that stays because Cluster API has to do something first,
// such as draining its node.
func (d *decision) decideOwnerDeleting(meaning string) {
	d.hold("CAPIMachineDeleting", own{"Its CAPI Machine is being deleted; " + meaning, []string{nextCAPI}}, d.words)
	if d.CAPIMachine == nil {
		return
	}
	if c := meta.FindStatusCondition(d.CAPIMachine.Status.Conditions, clusterv1.MachineDeletingCondition); c != nil && c.Message != "" {
		d.Blocker.Message = capiStep(c.Type, c).Message
		d.Verdict = append(d.Verdict, d.Blocker.Message)
	}
	d.reportHooks(d.CAPIMachine)
	if draining(d.CAPIMachine) {
		goes := func(owner facts.Object) bool { return owner.Deleting }
		d.reportDrain(d.CAPIMachine, d.ControlPlane, slices.ContainsFunc(d.Owners, goes) || d.Cluster != nil && d.Cluster.DeletionTimestamp != nil)
	}
}

// decideStep explains a step in progress: by its condition, or by the problem of its Job's pod.
func (d *decision) decideStep(step *Step) {
	ofJob := slices.Contains([]string{rkev1.CreateJobCondition, rkev1.DeleteJobCondition}, step.Name)
	running := ofJob && d.Machine.Condition(step.Name).Status == metav1.ConditionUnknown
	if running && step.Reason != rkev1.JobCancelledReason {
		if reason, message := d.jobTrouble(step.Reason); reason != "" {
			d.reportPod(reason, message, d.Pods, d.words)
			return
		}
	}
	d.addStep(step)
	switch {
	case len(step.next) > 0:
	case ofJob: // a reason of a newer or an older manager
		d.advise(own{next: []string{"Read the whole log: drover logs {name} -n {ns}"}}, d.words)
	default:
		d.advise(own{next: []string{"See all conditions of the machine: kubectl -n {ns} describe {resource} {name}"}}, d.words)
	}
	if running {
		d.reportDeadline()
	}
	if bootstrap := openStep(d.Steps, bootstrapStep); bootstrap != nil && step.Name == rkev1.BootstrapReadyCondition {
		d.reportHeld(bootstrap)
		d.reportBootstrap(d.CAPIMachine, bootstrap, "Its")
	}
	switch step.Name {
	case rkev1.CreateJobCondition:
		d.reportAhead()
	case rkev1.DeleteJobCondition:
		d.reportCleaning(d.Cleaning)
	}
	if ofJob && !running && advice.IsAboutAttempt(step.Reason) {
		d.reportAttempt(step.Name == rkev1.DeleteJobCondition)
	}
}

// reportHeld refers to the control plane if it is the reason why an RKEBootstrap makes no data: no
// action on this machine helps.
func (d *decision) reportHeld(bootstrap *Step) {
	if d.ControlPlane != nil && newStep("", meta.FindStatusCondition(d.ControlPlane.Conditions, rkev1.ReconciledCondition)).Reason == bootstrap.Reason {
		d.Next = nil
		d.advise(own{next: []string{"See why its control plane is not ready: drover why cluster/{cluster} -n {ns}"}},
			advice.Words{"ns": d.CAPIMachine.Namespace, "cluster": d.CAPIMachine.Spec.ClusterName})
	}
}

// reportDeadline reports the deadline of a running Job. The Job's log shows its progress.
func (d *decision) reportDeadline() {
	if len(d.Pods) > 0 && d.Pods[0].Spec.ActiveDeadlineSeconds != nil && d.Pods[0].Status.StartTime != nil {
		until := d.Pods[0].Status.StartTime.Add(time.Duration(*d.Pods[0].Spec.ActiveDeadlineSeconds) * time.Second)
		d.Verdict = append(d.Verdict, fmt.Sprintf("The Job's deadline is %s (in %s). It is stopped then, even if it waits for the driver or the server.",
			until.UTC().Format(time.RFC3339), duration.HumanDuration(max(until.Sub(d.Now), 0))))
	}
}

// reportCleaning reports whether an agent with a plan to clean its host is working on it, or
// silent.
func (d *decision) reportCleaning(c *facts.Cleaning) {
	if c == nil {
		return
	}
	line := "The agent's plan to clean the host is " + c.State
	if c.Running != "" {
		line += ", at " + c.Running
	}
	if !c.AgentSeen.IsZero() {
		line += fmt.Sprintf(". The agent last called the manager %s ago; it calls every %s", facts.Age(d.Now, c.AgentSeen), duration.HumanDuration(connect.TokenLife/2))
	}
	d.Verdict = append(d.Verdict, line+".")
}

// jobReason returns the reason that the Job of the last attempt gave for its failure. It returns ""
// if the state Secret has another attempt's result, or if the reason says no more than the class.
func (d *decision) jobReason(last *rkev1.AttemptStatus) string {
	if d.State == nil || d.State.Result == nil {
		return ""
	}
	result := d.State.Result
	if result.Attempt != last.Number || string(result.Operation) != last.Operation || result.Reason == rkev1.CreateFailedReason {
		return ""
	}
	return result.Reason
}

// reportAttempt reports when the last attempt ended, and when the next one starts.
func (d *decision) reportAttempt(removes bool) {
	last, next := d.Machine.Status.LastAttempt, d.Machine.Status.NextAttemptTime
	if last != nil && last.Outcome != string(state.Succeeded) && removes == (last.Operation == string(state.Remove)) {
		d.Blocker.Class, d.Blocker.Message = last.Class, facts.Clean(last.Message)
		d.told = append(d.told, d.jobReason(last))
		if last.EndTime != nil {
			d.Verdict = append(d.Verdict, fmt.Sprintf("Attempt %d to %s the server ended %s ago.", last.Number, facts.Clean(last.Operation), facts.Age(d.Now, last.EndTime.Time)))
		}
	}
	if next != nil {
		d.Verdict = append(d.Verdict, when(d.Now, next.Time, "The next attempt starts", "The next attempt is due."))
	}
}

// when says in how long something comes, or that it is due.
func when(now, then time.Time, comes, due string) string {
	if then.After(now) {
		return comes + " in " + duration.HumanDuration(then.Sub(now)) + "."
	}
	return due
}

// reportAhead reports the machine that calls the cloud first, while this one waits.
func (d *decision) reportAhead() {
	if d.Ahead == nil {
		return
	}
	line, asks := "Machine "+d.Ahead.Name+" retries first", "It retries now."
	if last := d.Ahead.Status.LastAttempt; last != nil {
		line += fmt.Sprintf(": the cloud rejected its attempt %d (%s): %s", last.Number, last.Class, last.Message)
	}
	if next := d.Ahead.Status.NextAttemptTime; next != nil {
		asks = when(d.Now, next.Time, "It retries", "Its retry is due.")
	}
	d.Verdict = append(d.Verdict, facts.Clean(line), asks)
}

// jobTrouble returns the problem of the machine's Job or its pod; said is the reason that the
// manager reports.
func (d *decision) jobTrouble(said string) (reason, message string) {
	name := d.Machine.Status.JobName
	at := slices.IndexFunc(d.Jobs, func(job batchv1.Job) bool { return job.Name == name })
	switch {
	case name == "" || at == 0:
		return podTrouble(d.Jobs, d.Pods, d.Snapshot.Events)
	case at > 0 || !d.Knows(facts.JobsPart):
		// A newer Job was made since the status was written, or nothing is known: the pods are not
		// this Job's.
		return "", ""
	case said != rkev1.JobRunningReason && said != rkev1.JobPendingReason:
		// The manager itself reports the problem of the Job.
		return "", ""
	case inFallback(d.Machine):
		return jobInFallback, ""
	}
	return jobMissing, ""
}

// fallbackNamespace is where the remove Job of a machine runs whose own namespace is being deleted
// (docs/dataflow.md).
const fallbackNamespace = "drover-drivers"

func inFallback(m *facts.Machine) bool {
	return m.UID != "" && strings.HasPrefix(m.Status.JobName, "refuge-"+string(m.UID))
}
