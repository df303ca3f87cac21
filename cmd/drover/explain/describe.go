package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-project/drover/advice"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/listing"
)

// DescriptionKind heads the documents of `drover describe -o json`.
const DescriptionKind = "ClusterDescription"

// Description is the output of `drover describe`. Fields are only ever added.
type Description struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	Version    string `json:"version,omitempty"`
	// Phase is Ready, NotReady, Paused or Deleting.
	Phase string `json:"phase"`
	// Finding is about the Cluster as a whole; nil if it is ready and up to date.
	Finding *Finding `json:"finding,omitempty"`
	// Steps are the Cluster's conditions.
	Steps []Step            `json:"steps"`
	Pools []PoolDescription `json:"pools"`
	// Machines are in no pool.
	Machines []MachineDescription `json:"machines,omitempty"`
	Problems []string             `json:"problems,omitempty"`
	// Warnings are about parts of the specification without an effect.
	Warnings []string `json:"warnings,omitempty"`

	now time.Time
}

// Finding is the cause of a wait or a failure and the best next step, from the report of drover why.
type Finding struct {
	Cause string `json:"cause"`
	Next  string `json:"next,omitempty"`
}

// PoolDescription is a pool and its machines.
type PoolDescription struct {
	provv1.PoolStatus `json:",inline"`

	Roles []string `json:"roles,omitempty"`
	// Removed is true for a pool that is not in the specification any more.
	Removed bool `json:"removed,omitempty"`
	// Pending are the replacements that wait for an approval.
	Pending *provv1.PendingPool `json:"pending,omitempty"`
	// Finding is why machines are missing; nil if none is.
	Finding  *Finding             `json:"finding,omitempty"`
	Machines []MachineDescription `json:"machines"`
}

// MachineDescription is a machine and its objects.
type MachineDescription struct {
	Name  string `json:"name"`
	State string `json:"state,omitempty"`
	// Ref is the infra machine, as <singular>.<group>/<name>; empty if it does not exist.
	Ref        string `json:"ref,omitempty"`
	Phase      string `json:"phase,omitempty"`
	ProviderID string `json:"providerID,omitempty"`
	Address    string `json:"address,omitempty"`
	Job        *Named `json:"job,omitempty"`
	Node       *Named `json:"node,omitempty"`
	// Step is the first step that is not done; nil if all are.
	Step    *Step    `json:"step,omitempty"`
	Finding *Finding `json:"finding,omitempty"`
}

// Named is an object and its state.
type Named struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

// Unfinished returns the machines with a step that is not done, failures first.
func Unfinished(t *facts.ClusterTree) []*facts.ClusterMachine {
	var failed, waiting []*facts.ClusterMachine
	for i := range t.Machines {
		switch step := pendingStep(t, &t.Machines[i]); {
		case step == nil:
		case step.State == StepFailed:
			failed = append(failed, &t.Machines[i])
		default:
			waiting = append(waiting, &t.Machines[i])
		}
	}
	return append(failed, waiting...)
}

// Lacking returns the MachineDeployments of pools that have fewer machines than they want.
func Lacking(t *facts.ClusterTree) []facts.Object {
	var lacking []facts.Object
	for _, pool := range t.Cluster.Status.Pools {
		deployment, found := t.Deployments[pool.Name]
		if found && pool.Made < pool.Wanted && t.Cluster.DeletionTimestamp == nil {
			lacking = append(lacking, deployment)
		}
	}
	return lacking
}

// Findings are reports of drover why about the parts of a Cluster.
type Findings struct {
	// Cluster is the report about the Cluster.
	Cluster *Report
	// Machines and Deployments have reports by the names of machines and of MachineDeployments.
	Machines, Deployments map[string]*Report
}

// Describe describes a Cluster and its parts. Machines without a report get the message of their
// step, and drover why as the next step.
func Describe(t *facts.ClusterTree, found Findings, command string) *Description {
	c := t.Cluster
	d := &Description{
		APIVersion: listing.APIVersion, Kind: DescriptionKind, Namespace: c.Namespace, Name: c.Name, Version: facts.Clean(c.Spec.KubernetesVersion), now: t.Now,
		Phase: clusterPhase(c), Steps: timeline(c.Status.Conditions, provisioningSteps), Pools: []PoolDescription{}, Problems: cleanAll(t.Problems),
	}
	if summary := listing.NewCluster(c); summary.Reason != "" || summary.Paused || found.Cluster != nil && len(found.Cluster.told) > 0 {
		d.Finding = clusterFinding(t, found, command)
	}
	if without := meta.FindStatusCondition(c.Status.Conditions, provv1.NotActedOnCondition); without != nil && without.Status == metav1.ConditionTrue {
		d.Warnings = []string{facts.Clean(problem(without))}
	}
	describe := func(m *facts.ClusterMachine) MachineDescription {
		return describeMachine(t, m, found.Machines[m.Name()], command)
	}
	for _, name := range poolNames(t) {
		pool := newPool(t, name)
		if deployment, known := t.Deployments[name]; known {
			// A pool may have fewer machines than it wants while its MachineDeployment has all.
			if report := found.Deployments[deployment.Name]; report != nil && report.Blocker != nil {
				pool.Finding = newFinding(report, nil)
			}
		}
		for i := range t.Machines {
			if m := &t.Machines[i]; m.Pool() == name {
				pool.Machines = append(pool.Machines, describe(m))
			}
		}
		d.Pools = append(d.Pools, pool)
	}
	for i := range t.Machines {
		if m := &t.Machines[i]; m.Pool() == "" {
			d.Machines = append(d.Machines, describe(m))
		}
	}
	return d
}

func clusterPhase(c *provv1.Cluster) string {
	switch {
	case c.DeletionTimestamp != nil:
		return rkev1.PhaseDeleting
	case meta.IsStatusConditionTrue(c.Status.Conditions, provv1.PausedCondition):
		return clusterv1.PausedReason
	case meta.IsStatusConditionTrue(c.Status.Conditions, provv1.ReadyCondition) && c.Status.ObservedGeneration >= c.Generation:
		return provv1.ReadyCondition
	}
	return "NotReady"
}

// clusterFinding is the cause that the report about the Cluster names. That report may have none
// while machines of a pool are not ready: then it is the cause in the Cluster's own conditions, and
// the next step of the first machine that is not ready.
func clusterFinding(t *facts.ClusterTree, found Findings, command string) *Finding {
	if r := found.Cluster; r != nil && (r.Blocker != nil || len(r.told) > 0) {
		if r.Blocker == nil || !advice.Waits(r.Blocker.Reason) || r.isHeld() {
			return newFinding(r, nil)
		}
		return cmp.Or(firstOfMachines(t, found), newFinding(r, nil))
	}
	c := t.Cluster
	f := newFinding(Provisioning(facts.Object{Kind: "Cluster", Namespace: c.Namespace, Name: c.Name, Conditions: c.Status.Conditions, Deleting: c.DeletionTimestamp != nil}, t.Now, command), nil)
	if f == nil {
		summary := listing.NewCluster(c)
		about := &metav1.Condition{Reason: summary.Reason}
		if at := slices.IndexFunc(c.Status.Conditions, func(c metav1.Condition) bool { return c.Reason == summary.Reason }); at >= 0 {
			about = &c.Status.Conditions[at]
		}
		f = &Finding{Cause: facts.Clean(summary.Reason + ": " + sentence(summary.Message)),
			Next: reach(advice.Words{"ns": c.Namespace, "cluster": c.Name}.Fill(nextOn(about)...)[0], command)}
	}
	if ready := meta.FindStatusCondition(c.Status.Conditions, provv1.ReadyCondition); ready != nil && advice.Waits(ready.Reason) {
		for _, m := range Unfinished(t) {
			if of := newFinding(found.Machines[m.Name()], nil); of != nil && of.Next != "" {
				f.Next = of.Next
				break
			}
		}
	}
	return f
}

// firstOfMachines is the finding of the first machine that is not ready; nil without one.
func firstOfMachines(t *facts.ClusterTree, found Findings) *Finding {
	for _, m := range Unfinished(t) {
		if of := newFinding(found.Machines[m.Name()], pendingStep(t, m)); of != nil && of.Next != "" {
			return &Finding{Cause: "Machine " + facts.Clean(m.Name()) + ": " + of.Cause, Next: of.Next}
		}
	}
	return nil
}

// newFinding is the first cause and the first next step of a report; nil if it names none. The cause
// includes the message of the blocker or, without one, of the step.
func newFinding(r *Report, step *Step) *Finding {
	if r == nil || len(r.Verdict) == 0 {
		return nil
	}
	f := &Finding{Cause: r.Verdict[0]}
	if f.Cause == serverRuns && len(r.Verdict) > 1 {
		f.Cause = r.Verdict[1]
	}
	first, _, _ := strings.Cut(f.Cause, ": ")
	isTold := slices.Contains(r.told, first)
	detail := ptr.Deref(step, Step{}).Message
	if r.Blocker != nil {
		detail = facts.Clean(cmp.Or(r.Blocker.Message, detail))
	}
	if detail != "" && !isTold && !strings.Contains(f.Cause, detail) && slices.ContainsFunc(r.Verdict, func(line string) bool { return strings.Contains(line, detail) }) {
		f.Cause += " " + detail
	}
	if r.Blocker != nil && r.Blocker.Reason != "" && !isTold && first != r.Blocker.Reason {
		f.Cause = facts.Clean(r.Blocker.Reason) + ": " + f.Cause
	}
	if len(r.Next) > 0 {
		f.Next = r.Next[0]
	}
	return f
}

// poolNames are the pools in the status, which are in the order of the specification, then those
// that only the specification or a machine has.
func poolNames(t *facts.ClusterTree) []string {
	var names []string
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, pool := range t.Cluster.Status.Pools {
		add(pool.Name)
	}
	for _, pool := range ptr.Deref(t.Cluster.Spec.RKEConfig, provv1.RKEConfig{}).MachinePools {
		add(pool.Name)
	}
	for i := range t.Machines {
		add(t.Machines[i].Pool())
	}
	return names
}

func newPool(t *facts.ClusterTree, name string) PoolDescription {
	pool := PoolDescription{PoolStatus: provv1.PoolStatus{Name: facts.Clean(name)}, Removed: true, Machines: []MachineDescription{}}
	for _, wanted := range ptr.Deref(t.Cluster.Spec.RKEConfig, provv1.RKEConfig{}).MachinePools {
		if wanted.Name == name {
			pool.Removed, pool.Wanted, pool.Roles = false, ptr.Deref(wanted.Quantity, 1), roles(wanted.EtcdRole, wanted.ControlPlaneRole, wanted.WorkerRole)
		}
	}
	at := slices.IndexFunc(t.Cluster.Status.Pools, func(status provv1.PoolStatus) bool { return status.Name == name })
	if at >= 0 {
		pool.PoolStatus = t.Cluster.Status.Pools[at]
	} else {
		for i := range t.Machines {
			if t.Machines[i].Pool() == name {
				pool.Made++
			}
		}
	}
	for _, pending := range ptr.Deref(t.Cluster.Status.PendingReplacement, provv1.PendingReplacement{}).Pools {
		if pending.Name == name {
			pending.Changes = cleanAll(pending.Changes)
			pool.Pending = &pending
		}
	}
	return pool
}

func roles(etcd, controlPlane, worker bool) []string {
	var names []string
	for _, role := range []struct {
		name  string
		given bool
	}{{"etcd", etcd}, {"control plane", controlPlane}, {"worker", worker}} {
		if role.given {
			names = append(names, role.name)
		}
	}
	return names
}

func describeMachine(t *facts.ClusterTree, m *facts.ClusterMachine, report *Report, command string) MachineDescription {
	d := MachineDescription{Name: facts.Clean(m.Name()), Step: pendingStep(t, m)}
	if m.CAPI != nil {
		d.State = facts.Clean(m.CAPI.Status.Phase)
		d.Node = describeNode(m.CAPI)
	}
	if m.Infra != nil {
		d.Ref, d.Phase = m.Infra.Ref(), facts.Clean(m.Infra.Phase())
		d.ProviderID, d.Address = facts.Clean(m.Infra.Spec.ProviderID), facts.Clean(m.Infra.Address())
		d.Job = describeJob(m, d.Step)
	}
	if d.Step == nil {
		return d
	}
	if d.Finding = newFinding(report, d.Step); d.Finding == nil {
		d.Finding = &Finding{Cause: d.Step.Name + ": " + cmp.Or(d.Step.Message, d.Step.Reason, "not done yet"),
			Next: reach("See the cause: drover why "+facts.Word("machine/"+m.Name())+" -n "+t.Cluster.Namespace, command)}
	}
	return d
}

// describeNode is the Node of a CAPI Machine; nil if it has none.
func describeNode(m *clusterv1.Machine) *Named {
	if !m.Status.NodeRef.IsDefined() {
		return nil
	}
	state := "state unknown"
	if c := meta.FindStatusCondition(m.Status.Conditions, nodeStep); c != nil {
		state = "ready"
		if c.Status != metav1.ConditionTrue {
			state = capiStep(nodeStep, c).Reason
		}
	}
	return &Named{facts.Clean(m.Status.NodeRef.Name), state}
}

// describeJob is the newest Job of a machine; nil if it has none. A Job that has ended is deleted
// after some time, so a missing Job is shown only while a step waits for it.
func describeJob(m *facts.ClusterMachine, step *Step) *Named {
	name := m.Infra.Status.JobName
	switch {
	case m.Job != nil:
		return &Named{facts.Clean(m.Job.Name), jobState(m.Job)}
	case name != "" && step != nil && (step.Name == rkev1.CreateJobCondition || step.Name == rkev1.DeleteJobCondition):
		return &Named{facts.Clean(name), "not found"}
	}
	return nil
}

// pendingStep is the first step of a machine that is not done: of the server, then of its plan and
// its Node. It is nil if all are done.
func pendingStep(t *facts.ClusterTree, m *facts.ClusterMachine) *Step {
	if m.Infra == nil {
		step := capiStep(clusterv1.MachineInfrastructureReadyCondition, meta.FindStatusCondition(m.CAPI.Status.Conditions, clusterv1.MachineInfrastructureReadyCondition))
		return &step
	}
	if m.CAPI != nil && m.CAPI.DeletionTimestamp != nil && m.Infra.DeletionTimestamp == nil {
		step := capiStep(clusterv1.MachineDeletingCondition, meta.FindStatusCondition(m.CAPI.Status.Conditions, clusterv1.MachineDeletingCondition))
		step.State = StepWaiting
		return &step
	}
	r := &Report{now: t.Now}
	explainMachine(r, &facts.Snapshot{Now: t.Now, Machine: m.Infra, CAPIMachine: m.CAPI})
	isReady := m.Infra.DeletionTimestamp == nil && meta.IsStatusConditionTrue(m.Infra.Status.Conditions, rkev1.ReadyCondition)
	steps := slices.DeleteFunc(r.Steps, func(s Step) bool {
		return s.Name == rkev1.ReadyCondition || s.State == StepPending && (isReady || slices.Contains(observedSteps, s.Name))
	})
	if step := firstReached(steps); step != nil {
		return step
	}
	if m.Infra.DeletionTimestamp != nil {
		return &Step{Name: clusterv1.MachineDeletingCondition, State: StepPending} // finalizers of others
	}
	if m.CAPI != nil && !m.CAPI.Status.NodeRef.IsDefined() {
		return &Step{Name: nodeStep, State: StepPending}
	}
	return nil
}

// Awaited is the step that a Cluster waits for until it is ready; empty if it is ready.
func Awaited(c *provv1.Cluster) string {
	summary := listing.NewCluster(c)
	ready := meta.FindStatusCondition(c.Status.Conditions, provv1.ReadyCondition)
	if summary.Ready == string(metav1.ConditionTrue) {
		return ""
	}
	name := provv1.ReadyCondition
	if ready != nil && summary.Ready == string(ready.Status) {
		// Ready repeats the step that it waits for.
		for _, step := range timeline(c.Status.Conditions, provisioningSteps) {
			if step.State != StepDone && step.Reason == ready.Reason {
				name = step.Name
				break
			}
		}
	}
	return facts.Clean(strings.Join(nonEmpty(name, summary.Reason, sentence(summary.Message)), ": "))
}

// shownRemains bounds the machines that one line names.
const shownRemains = 5

// Remaining names the machines that a deletion waits for, and their steps.
func Remaining(t *facts.ClusterTree) string {
	if len(t.Machines) == 0 {
		return "no machine left"
	}
	var shown []string
	for i := range t.Machines[:min(len(t.Machines), shownRemains)] {
		text := t.Machines[i].Name()
		if step := pendingStep(t, &t.Machines[i]); step != nil {
			text += " (" + strings.Join(nonEmpty(step.Name, step.Reason), " ") + ")"
		}
		shown = append(shown, facts.Clean(text))
	}
	if more := len(t.Machines) - len(shown); more > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", more))
	}
	return counted(len(t.Machines)) + " left: " + strings.Join(shown, ", ")
}

// counted is a number of machines.
func counted(n int) string {
	if n == 1 {
		return "1 machine"
	}
	return fmt.Sprintf("%d machines", n)
}

// Loss lists the machines that the deletion of a Cluster removes.
func Loss(t *facts.ClusterTree) string {
	c := t.Cluster
	text := fmt.Sprintf("The Cluster %s in namespace %s has ", c.Name, c.Namespace) + counted(len(t.Machines)) + ". The servers and all data on them are deleted:\n"
	if len(t.Machines) == 0 {
		text = fmt.Sprintf("The Cluster %s in namespace %s has no machines.\n", c.Name, c.Namespace)
	}
	for i := range t.Machines {
		m := &t.Machines[i]
		address := ""
		if m.Infra != nil {
			address = cmp.Or(m.Infra.Address(), m.Infra.Spec.ProviderID)
		}
		text += facts.Clean("- "+strings.Join(nonEmpty(m.Name(), address), "  ")) + "\n"
	}
	for _, problem := range t.Problems {
		text += facts.Clean("There may be more: "+problem) + "\n"
	}
	return text
}
