package explain

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/listing"
	"github.com/drover-project/drover/jobrunner"
)

// Machine explains what a snapshot of a machine, or of a name without one, tells. Command is how the CLI is called,
// "drover" or "kubectl drover".
func Machine(s *facts.Snapshot, command string) *Report {
	r := &Report{APIVersion: listing.APIVersion, Kind: Kind, Problems: cleanAll(s.Problems), now: s.Now}
	if s.Machine == nil {
		explainAbsent(r, s, command)
	} else {
		explainMachine(r, s, command)
	}
	r.Related = related(s)
	r.Events = newEvents(s.Events)
	return r
}

func explainMachine(r *Report, s *facts.Snapshot, command string) {
	m := s.Machine
	r.Subject = fmt.Sprintf("%s %s/%s", m.Kind.Name, m.Namespace, m.Name)
	r.Phase = m.Phase()
	r.Facts = machineFacts(s)
	order := createSteps
	if m.DeletionTimestamp != nil {
		order = removeSteps
	}
	r.Steps = timeline(m.Status.Conditions, order, machineAdvice)
	r.Log = machineLog(s)
	d := &decision{Report: r, Snapshot: s, words: machineWords(s, command)}
	d.decide()
}

func machineFacts(s *facts.Snapshot) []Fact {
	m := s.Machine
	all := []Fact{
		{"driver", driverName(s)},
		{"cluster", m.ClusterName()},
		{"address", m.Address()},
		{"providerID", m.Spec.ProviderID},
		{"server", m.Status.InstanceName},
		{"age", age(s.Now, m.CreationTimestamp.Time)},
	}
	var known []Fact
	for _, fact := range all {
		if fact.Value != "" {
			known = append(known, fact)
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

// decision finds out what blocks a machine and fills Verdict, Blocker and Next.
type decision struct {
	*Report
	*facts.Snapshot
	words words
}

func (d *decision) decide() {
	m := d.Machine
	if paused := m.Condition(rkev1.PausedCondition); paused != nil && paused.Status == metav1.ConditionTrue {
		d.Blocker = &Blocker{Step: rkev1.PausedCondition, Reason: "Paused", Message: clean(paused.Message)}
		d.say(advice{says: "Nothing happens: the Cluster or the machine is paused.", next: []string{
			"Unpause the Cluster (spec.paused: false) or remove the annotation cluster.x-k8s.io/paused from the machine"}}, d.words)
		return
	}
	if len(m.Status.Conditions) == 0 {
		d.decideUnseen()
		return
	}
	step := firstReached(d.Steps[:len(d.Steps)-1])
	if step == nil {
		d.decideDone()
		return
	}
	d.Blocker = &Blocker{Step: step.Name, Reason: step.Reason, Message: step.Message}
	if step.Reason == "" {
		d.say(advice{says: "The step " + step.Name + " was not reached yet; the manager works on it or has stopped.", next: []string{nextManager}}, d.words)
		return
	}
	d.decideStep(step)
}

// decideUnseen is for a machine that no manager has looked at.
func (d *decision) decideUnseen() {
	d.Blocker = &Blocker{Reason: "NotReconciled"}
	d.say(advice{says: "No manager has looked at this machine yet.", next: []string{nextManager}}, d.words)
	if d.Machine.CAPIMachineName() == "" {
		d.say(machineAdvice[rkev1.WaitingForOwnerReason], d.words)
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
	if d.CAPIMachine != nil && d.CAPIMachine.DeletionTimestamp != nil {
		d.decideOwnerDeleting()
		return
	}
	if d.CAPIMachine != nil && !d.CAPIMachine.Status.NodeRef.IsDefined() {
		d.say(advice{says: "Cluster API waits for its node to join the cluster.", next: []string{nextNode}}, d.words)
	}
}

// decideOwnerDeleting is for a machine that stays because Cluster API has to do something first, such as draining its node.
func (d *decision) decideOwnerDeleting() {
	d.Blocker = &Blocker{Reason: "CAPIMachineDeleting"}
	d.say(advice{says: "Its CAPI Machine is being deleted; Cluster API has not asked for the server's removal yet.",
		next: []string{"See what Cluster API waits for: kubectl -n {ns} describe machine {capi}"}}, d.words)
	if c := facts.FindCondition(d.CAPIMachine.Status.Conditions, clusterv1.MachineDeletingCondition); c != nil && c.Message != "" {
		d.Blocker.Message = clean(c.Message)
		d.Verdict = append(d.Verdict, d.Blocker.Message)
	}
}

// decideStep explains a step that was reached and is not done.
func (d *decision) decideStep(step *Step) {
	condition := d.Machine.Condition(step.Name)
	running := isJobStep(step.Name) && condition.Status == metav1.ConditionUnknown
	if running && d.decideJob() {
		return
	}
	about, known := conditionAdvice(step.Reason)
	last := d.Machine.Status.LastAttempt
	failed := !running && isJobStep(step.Name) && last != nil &&
		last.Outcome != string(jobrunner.Succeeded) && step.Name == conditionOf(last.Operation)
	if failed {
		d.tellAttempt(last)
	}
	if !known {
		about = advice{says: "The step " + step.Name + " is not done: " + step.Reason + ".", next: []string{nextLogs}}
	}
	d.say(about, d.words)
	if !failed && step.Message != "" {
		d.Verdict = append(d.Verdict, step.Message)
	}
	d.tellNextAttempt()
}

func isJobStep(name string) bool {
	return name == rkev1.CreateJobCondition || name == rkev1.DeleteJobCondition
}

func conditionOf(operation string) string {
	if operation == string(jobrunner.Remove) {
		return rkev1.DeleteJobCondition
	}
	return rkev1.CreateJobCondition
}

// decideJob looks behind a Job that is said to run; it reports whether that explained all.
func (d *decision) decideJob() bool {
	job := d.Machine.Status.JobName
	d.words["job"] = job
	reason, message := podTrouble(d.Jobs, d.Pods, d.Snapshot.Events)
	if len(d.Jobs) == 0 && len(d.Snapshot.Problems) == 0 {
		reason = jobMissing
	}
	if reason == "" {
		return false
	}
	if len(d.Pods) > 0 {
		d.words["pod"], d.words["node"] = d.Pods[0].Name, d.Pods[0].Spec.NodeName
	}
	d.Blocker.Reason, d.Blocker.Message = reason, clean(message)
	d.say(podAdvice[reason], d.words)
	if message != "" {
		d.Verdict = append(d.Verdict, clean(message))
	}
	return true
}

// tellAttempt tells how the last attempt failed, by class.
func (d *decision) tellAttempt(last *rkev1.AttemptStatus) {
	d.Blocker.Class, d.Blocker.Message = last.Class, clean(last.Message)
	class := last.Class
	if class == "" {
		class = rkev1.ClassUnknown
	}
	line := fmt.Sprintf("Attempt %d to %s the server: %s (%s)", last.Number, last.Operation, strings.ToLower(last.Outcome), class)
	why := d.resultReason(last)
	if why != "" {
		line = fmt.Sprintf("Attempt %d to %s the server: %s (%s, %s)", last.Number, last.Operation, strings.ToLower(last.Outcome), class, why)
	}
	if last.EndTime != nil {
		line += " " + age(d.Now, last.EndTime.Time) + " ago"
	}
	if last.Message != "" {
		line += ": " + clean(last.Message)
	}
	d.Verdict = append(d.Verdict, line)
	if last.Outcome == string(jobrunner.Failed) {
		d.say(failureAdvice(why), d.words)
		d.say(classAdvice[class], d.words)
	}
}

// resultReason is the one-word reason the Job left in the state Secret, if it is of this attempt.
func (d *decision) resultReason(last *rkev1.AttemptStatus) string {
	if d.State == nil || d.State.Result == nil {
		return ""
	}
	result := d.State.Result
	if result.Attempt != last.Number || string(result.Operation) != last.Operation {
		return ""
	}
	return clean(result.Reason)
}

func (d *decision) tellNextAttempt() {
	next := d.Machine.Status.NextAttemptTime
	if next == nil {
		return
	}
	if next.After(d.Now) {
		d.Verdict = append(d.Verdict, "The next attempt starts in "+duration.HumanDuration(next.Sub(d.Now))+".")
		return
	}
	d.Verdict = append(d.Verdict, "The next attempt is due.")
}

// machineWords are the values the advice may need; a word nothing is known of stands for itself, in capitals.
func machineWords(s *facts.Snapshot, command string) words {
	m := s.Machine
	credentialNamespace, credential := m.CredentialRef()
	w := words{
		"cmd": command, "name": m.Name, "ns": m.Namespace, "podns": m.Namespace, "kind": strings.TrimSuffix(m.Kind.Name, "Machine"),
		"resource": m.Kind.Resource + "." + rkev1.MachineGroupVersion.Group,
		"capi":     m.CAPIMachineName(), "cluster": m.ClusterName(), "driver": driverName(s), "job": m.Status.JobName,
		"credentialns": credentialNamespace, "credentialname": credential, "credential": credential,
		"instance": m.Status.InstanceName, "bootstrap": "", "pod": "", "node": "",
		"state": jobrunner.StateSecretName(m.Name),
	}
	if credential != "" && credentialNamespace != m.Namespace {
		w["credential"] = credentialNamespace + "/" + credential
	}
	if s.State != nil && s.State.Name != "" {
		w["state"] = s.State.Name
	}
	if s.CAPIMachine != nil && s.CAPIMachine.Spec.Bootstrap.DataSecretName != nil {
		w["bootstrap"] = *s.CAPIMachine.Spec.Bootstrap.DataSecretName
	}
	if w["instance"] == "" {
		w["instance"] = m.Name
	}
	for name, value := range w {
		if value == "" {
			w[name] = strings.ToUpper(name)
		}
	}
	return w
}

func age(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(then))
}
