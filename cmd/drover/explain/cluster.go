package explain

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-project/drover/advice"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/listing"
)

// nextCluster is the next step if Cluster API, or one of its other providers, has to act.
const nextCluster = "See the Cluster's conditions: kubectl describe clusters.cluster.x-k8s.io {cluster} -n {ns}"

// Cluster explains a snapshot of a CAPI Cluster: its infrastructure, its control plane, and the
// first machine that is not ready.
func Cluster(s *facts.ClusterSnapshot, command string) *Report {
	c := s.Cluster
	endpoint := ""
	// localhost stands for none, where each server reaches its own API.
	if host := c.Spec.ControlPlaneEndpoint.Host; host != "" && host != "localhost" {
		endpoint = net.JoinHostPort(c.Spec.ControlPlaneEndpoint.Host, strconv.Itoa(int(c.Spec.ControlPlaneEndpoint.Port)))
	}
	r := &Report{
		APIVersion: listing.APIVersion, Kind: Kind, Subject: "Cluster " + c.Namespace + "/" + c.Name, Phase: facts.Clean(c.Status.Phase), now: s.Now,
		Facts: knownFacts([]Fact{{"version", s.Version}, {"running", running(s)}, {"endpoint", endpoint}, {"machines", strconv.Itoa(len(s.Machines))},
			{"age", facts.Age(s.Now, c.CreationTimestamp.Time)}}),
		Events: newEvents(s.Events, nil), Log: failureLog(s.Failure), Problems: cleanAll(s.Problems),
	}
	r.Steps = append(r.Steps, capiStep(clusterv1.ClusterInfrastructureReadyCondition, meta.FindStatusCondition(c.Status.Conditions, clusterv1.ClusterInfrastructureReadyCondition)))
	if topology := meta.FindStatusCondition(c.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition); topology != nil {
		r.Steps = append([]Step{capiStep(topology.Type, topology)}, r.Steps...)
	}
	if s.ControlPlane != nil {
		r.Steps = append(r.Steps, timeline(s.ControlPlane.Conditions, clusterSteps)...)
	}
	for _, part := range []*facts.Object{s.Infrastructure, s.ControlPlane} {
		if part != nil {
			r.Related = append(r.Related, Related{part.Kind, facts.Clean(part.Name), objectState(*part)})
		}
	}
	r.Related = append(r.Related, relatedMachines(s.Machines)...)
	r.decideCluster(s)
	r.addProvisioning(s)
	r.finish(command)
	return r
}

// ControlPlane explains a snapshot of an RKEControlPlane, even if no Cluster refers to it.
func ControlPlane(s *facts.ClusterSnapshot, command string) *Report {
	c := s.ControlPlane
	r := &Report{
		APIVersion: listing.APIVersion, Kind: Kind, Subject: c.Kind + " " + c.Namespace + "/" + c.Name, Phase: "NotReady", now: s.Now,
		Facts: knownFacts([]Fact{{"version", s.Version}, {"running", running(s)}}), Events: newEvents(s.Events, nil), Problems: cleanAll(s.Problems),
		Steps: timeline(c.Conditions, clusterSteps),
	}
	switch {
	case c.Deleting:
		r.Phase = rkev1.PhaseDeleting
	case meta.IsStatusConditionTrue(c.Conditions, rkev1.ReadyCondition):
		r.Phase = rkev1.ReadyCondition
	}
	words := advice.Words{"ns": c.Namespace}
	if s.Cluster != nil {
		r.Related = []Related{{"Cluster", facts.Clean(s.Cluster.Name), facts.Clean(s.Cluster.Status.Phase)}}
		words["cluster"] = s.Cluster.Name
	}
	r.Related = append(r.Related, relatedMachines(s.Machines)...)
	switch {
	case s.Cluster != nil && ptr.Deref(s.Cluster.Spec.Paused, false):
		r.hold(clusterv1.PausedReason, pausedCluster, words)
	case s.Cluster != nil && s.Cluster.DeletionTimestamp != nil:
		r.decideClusterDeleting(s, words)
	default:
		r.decideControlPlane(s, words)
	}
	r.finish(command)
	return r
}

// running are the versions of the Nodes, where one has another than is wanted.
func running(s *facts.ClusterSnapshot) string {
	var versions []string
	for i := range s.Machines {
		if info := s.Machines[i].Status.NodeInfo; info != nil && info.KubeletVersion != "" {
			versions = append(versions, info.KubeletVersion)
		}
	}
	slices.Sort(versions)
	if versions = slices.Compact(versions); len(versions) == 1 && versions[0] == s.Version {
		return ""
	}
	return strings.Join(versions, ", ")
}

// relatedMachines lists the CAPI Machines with their roles, and why their plans wait.
func relatedMachines(machines []clusterv1.Machine) []Related {
	var list []Related
	for i := range machines {
		m := &machines[i]
		var roles []string
		for _, role := range []struct{ name, label string }{
			{"etcd", rkev1.EtcdRoleLabel}, {"control plane", rkev1.ControlPlaneRoleLabel}, {"worker", rkev1.WorkerRoleLabel},
		} {
			if m.Labels[role.label] == "true" {
				roles = append(roles, role.name)
			}
		}
		told := ""
		if len(roles) > 0 {
			told = "roles " + strings.Join(roles, "+")
		}
		plan := ptr.Deref(meta.FindStatusCondition(m.Status.Conditions, rkev1.ReconciledCondition), metav1.Condition{}).Reason
		list = append(list, Related{"Machine", facts.Clean(m.Name), capiState(m, "", plan, told)})
	}
	return list
}

func (r *Report) decideCluster(s *facts.ClusterSnapshot) {
	c := s.Cluster
	words := advice.Words{"ns": c.Namespace, "cluster": c.Name}
	topology := openStep(r.Steps, clusterv1.ClusterTopologyReconciledCondition)
	switch {
	case ptr.Deref(c.Spec.Paused, false):
		r.hold(clusterv1.PausedReason, pausedCluster, words)
	case c.DeletionTimestamp != nil:
		r.decideClusterDeleting(s, words)
	case topology != nil: // Cluster API cannot apply spec.topology; existing objects may have problems too
		next := []string{nextCluster} // for operations that need no action, such as an upgrade
		failed := []string{clusterv1.ClusterTopologyReconciledFailedReason, clusterv1.ClusterTopologyReconciledClusterClassNotReconciledReason}
		if slices.Contains(failed, topology.Reason) {
			next = []string{"Correct spec.topology, or create the object that the message names: kubectl edit clusters.cluster.x-k8s.io {cluster} -n {ns}",
				"List the ClusterClasses: kubectl get clusterclasses.cluster.x-k8s.io -A"}
		}
		r.Blocker = topology.blocker()
		r.advise(own{next: next}, words)
		r.Verdict = appendNew(r.Verdict, "Cluster API has not applied spec.topology ("+topology.Reason+"): "+topology.Message)
		if c.Spec.ControlPlaneRef.IsDefined() {
			r.decideParts(s, words)
			r.Blocker = topology.blocker()
		}
	default:
		r.decideParts(s, words)
	}
}

// decideClusterDeleting reports up to three remaining machines with Cluster API's own messages.
func (r *Report) decideClusterDeleting(s *facts.ClusterSnapshot, words advice.Words) {
	left := fmt.Sprintf("The Cluster {cluster} is being deleted. Its machines are deleted first; machines left: %d.", len(s.Machines))
	r.hold(rkev1.DeletingReason, own{says: left}, words)
	r.reportLeaving(s.Machines, s.ControlPlane, true)
	next := []string{nextCluster}
	if len(s.Machines) == 0 {
		next = append(next, "If it is not deleted, it may refer to a kind that does not exist. Set spec.controlPlaneRef to an RKEControlPlane and spec.infrastructureRef to an RKECluster, "+
			"with any name: kubectl edit clusters.cluster.x-k8s.io {cluster} -n {ns}")
	}
	r.advise(own{next: next}, words)
}

// decideParts reports problems of the objects that the Cluster refers to.
func (r *Report) decideParts(s *facts.ClusterSnapshot, words advice.Words) {
	c, ref := s.Cluster, s.Cluster.Spec.ControlPlaneRef
	switch {
	case c.Spec.Topology.IsDefined() && !ref.IsDefined():
		r.hold("ControlPlaneMissing", own{"Cluster API has not created the control plane for spec.topology yet.", []string{nextCluster}}, words)
	case ref.GroupKind() != rkev1.GroupVersion.WithKind("RKEControlPlane").GroupKind():
		r.reportServers(s, isServerFailed)
		r.hold(rkev1.ControlPlaneForeignReason, own{"Drover manages the machines of this Cluster, but not its control plane.", []string{nextCluster}}, words)
	case s.ControlPlane == nil:
		r.hold("ControlPlaneMissing", own{"The RKEControlPlane " + ref.Name + " that the Cluster names does not exist or could not be read.", []string{
			"If spec.controlPlaneRef names the wrong control plane, correct it: kubectl edit clusters.cluster.x-k8s.io {cluster} -n {ns}",
			"List the control planes: kubectl get rkecontrolplanes.rke.cattle.io -n {ns}", "If it does not exist, create it from the cluster's manifest",
		}}, words)
	case s.ControlPlane.Cluster != "" && s.ControlPlane.Cluster != c.Name:
		r.hold(rkev1.ControlPlaneTakenReason, own{
			fmt.Sprintf("The RKEControlPlane %s belongs to Cluster %s. Drover creates no server for this Cluster until it names its own control plane.",
				ref.Name, s.ControlPlane.Cluster),
			advice.ControlPlane{Namespace: c.Namespace, Cluster: c.Name}.On(rkev1.ControlPlaneTakenReason)}, words)
	default:
		r.decideControlPlane(s, words)
	}
}

func (r *Report) decideControlPlane(s *facts.ClusterSnapshot, words advice.Words) {
	if len(s.ControlPlane.Conditions) == 0 {
		r.hold("NotReconciled", own{says: "No manager has reconciled the control plane yet.", next: []string{nextManager}}, words)
		return
	}
	if at := slices.IndexFunc(s.Machines, isRestored); at >= 0 {
		m := &s.Machines[at]
		r.hold(rkev1.OwnerUnknownReason, own{"Machine {machine} was restored from a backup with owners that do not exist. Drover does not change its server, and creates no other server for the cluster. " +
			"Until this is fixed, ignore the other messages of this report.", advice.Machine{}.On(metav1.Condition{Reason: rkev1.OwnerUnknownReason}, nil)[:1]},
			advice.Words{"machine": m.Name})
		r.askAbout(m, "See why it waits")
		return
	}
	// reported before
	steps := slices.DeleteFunc(slices.Clone(r.Steps), func(s Step) bool { return s.Name == clusterv1.ClusterTopologyReconciledCondition })
	if step := firstReached(steps); step != nil {
		r.blockAt(step)
		// Cluster API reports a Cluster's infrastructure, and its conditions carry no advice of
		// ours.
		if step.Name == clusterv1.ClusterInfrastructureReadyCondition {
			r.advise(own{next: []string{nextCluster}}, words)
			return
		}
		r.reportCauses(s, step, steps)
	}
	r.reportBootstraps(s)
	if r.Blocker == nil {
		r.Verdict = []string{matches}
		reconciled := newStep(rkev1.ReconciledCondition, meta.FindStatusCondition(s.ControlPlane.Conditions, rkev1.ReconciledCondition))
		// It names the parts of the specification whose result only the cluster itself knows.
		if _, beyond, found := strings.Cut(reconciled.Message, "specification. "); found {
			r.Verdict = appendNew(r.Verdict, beyond)
		}
	}
	// Parts of the specification without an effect block nothing.
	if warning := newStep(rkev1.WarningsCondition, meta.FindStatusCondition(s.ControlPlane.Conditions, rkev1.WarningsCondition)); warning.State == StepDone {
		r.Verdict = appendNew(r.Verdict, "Warning: "+warning.Message)
		r.told = append(r.told, warning.Reason)
		for _, next := range warning.next {
			r.Next = appendCommand(r.Next, next)
		}
	}
	r.reportNodes(s)
	r.reportLeaving(leaving(s.Machines), s.ControlPlane, false)
	if r.Blocker != nil && len(r.Next) == 0 && s.Provisioning == nil {
		r.advise(own{next: []string{"See the control plane's conditions: kubectl -n {ns} describe rkecontrolplanes.rke.cattle.io {controlplane}"}},
			advice.Words{"ns": s.ControlPlane.Namespace, "controlplane": s.ControlPlane.Name})
	}
}

// isRestored reports whether a Machine's infra machine says that it is only being deleted for its
// owners, which came from a backup.
func isRestored(m clusterv1.Machine) bool {
	c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineInfrastructureReadyCondition)
	return c != nil && c.Reason == rkev1.OwnerUnknownReason
}

// reportCauses reports the machines that a step waits for, and all failed steps: each of them may
// be the cause, or a separate problem.
func (r *Report) reportCauses(s *facts.ClusterSnapshot, step *Step, steps []Step) {
	if step.Name == rkev1.ReconciledCondition {
		r.reportMachine(s)
		r.reportServers(s, isServerAwaited)
	}
	for i := range steps {
		if other := &steps[i]; other.State == StepFailed && other.Name != step.Name && other.Name != rkev1.ReadyCondition {
			r.addStep(other)
		}
	}
}

// reportMachine reports the machine in the worst state: failing before waiting, servers before
// workers.
func (r *Report) reportMachine(s *facts.ClusterSnapshot) {
	var worst *clusterv1.Machine
	order := []StepState{StepFailed, StepWaiting, StepPending, StepDone}
	told := Step{State: StepDone}
	for i := range s.Machines {
		conditions := s.Machines[i].Status.Conditions
		step := newStep(rkev1.ReconciledCondition, meta.FindStatusCondition(conditions, rkev1.ReconciledCondition))
		// The condition is Unknown if it repeats a condition of the control plane.
		repeats := meta.IsStatusConditionPresentAndEqual(conditions, rkev1.ReconciledCondition, metav1.ConditionUnknown)
		if !repeats && slices.Index(order, step.State) < slices.Index(order, told.State) {
			worst, told = &s.Machines[i], step
		}
	}
	if worst == nil {
		return
	}
	r.askAbout(worst, "See why it is not ready")
	r.told = append(r.told, told.Reason)
	isTold := func(line string) bool { return strings.Contains(line, told.Message) }
	if told.Message != "" && !slices.ContainsFunc(r.Verdict, isTold) {
		r.Verdict = append(r.Verdict, facts.Clean("Machine "+worst.Name+": "+told.Message))
	}
	for _, next := range told.next {
		r.Next = appendCommand(r.Next, next)
	}
}

// isServerAwaited reports whether the plan of a machine waits for its server.
func isServerAwaited(m *clusterv1.Machine, _ metav1.Condition) bool {
	plan := meta.FindStatusCondition(m.Status.Conditions, rkev1.ReconciledCondition)
	return plan != nil && plan.Reason == rkev1.WaitingForServerReason
}

// isServerFailed reports whether the server of a machine needs the user. A Cluster without a control
// plane of ours has no other condition that says so.
func isServerFailed(_ *clusterv1.Machine, server metav1.Condition) bool {
	return server.Status == metav1.ConditionFalse && server.Reason != clusterv1.MachineInfrastructureNotReadyReason && !advice.Waits(server.Reason)
}

// reportServers reports why machines have no server yet, with the messages of their infra machines,
// which Cluster API repeats: at most three causes, each with the first machine that has it.
func (r *Report) reportServers(s *facts.ClusterSnapshot, matters func(*clusterv1.Machine, metav1.Condition) bool) {
	told := map[string]bool{}
	for i := range s.Machines {
		m := &s.Machines[i]
		server := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineInfrastructureReadyCondition)
		if server == nil || server.Status == metav1.ConditionTrue || !matters(m, *server) || told[server.Reason] || len(told) == 3 {
			continue
		}
		told[server.Reason] = true
		r.told = append(r.told, server.Reason)
		says, _, _ := strings.Cut(newStep(server.Type, server).Message, ". ")
		r.Verdict = appendNew(r.Verdict, facts.Clean("Machine "+m.Name+": "+server.Reason+": "+says))
		r.askAbout(m, "See the state of its server")
	}
}

// askAbout says how to hear more of a machine.
func (r *Report) askAbout(m *clusterv1.Machine, what string) {
	r.Next = appendCommand(r.Next, advice.Words{"ns": m.Namespace, "machine": m.Name}.Fill(what + ": drover why {machine} -n {ns}")[0])
}

// reportNodes reports up to three Nodes that existed and are unhealthy.
func (r *Report) reportNodes(s *facts.ClusterSnapshot) {
	told := 0
	for i := range s.Machines {
		m := &s.Machines[i]
		c := meta.FindStatusCondition(m.Status.Conditions, nodeStep)
		if c == nil || !m.Status.NodeRef.IsDefined() || c.Status == metav1.ConditionTrue || m.DeletionTimestamp != nil || told == 3 {
			continue
		}
		told++
		r.askAbout(m, "See why its Node is not healthy")
		r.Verdict = appendNew(r.Verdict, facts.Clean("The Node "+m.Status.NodeRef.Name+" of Machine "+m.Name+" is not healthy: "+capiStep(nodeStep, c).Message))
	}
}
