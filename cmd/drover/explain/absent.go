package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-project/drover/advice"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/listing"
)

// explainAbsent explains why no machine has this name: not yet, not any more, or never.
func explainAbsent(r *Report, s *facts.Snapshot) {
	w := advice.Words{"name": s.Name, "ns": s.Namespace}
	if s.State != nil {
		w["state"], w["instance"] = s.State.Name, s.Name
		if s.State.Journal != nil && s.State.Journal.InstanceName != "" {
			w["instance"] = s.State.Journal.InstanceName
		}
	}
	switch {
	case s.CAPIMachine != nil:
		explainCAPIMachine(r, s, w)
	case len(s.Owners) > 0:
		explainOwner(r, s, w)
	default:
		explainGone(r, s)
	}
	r.addUnmet(len(s.Machines) > 0)
	r.Log = machineLog(s)
	r.Next = w.Fill(r.Next...)
}

func explainCAPIMachine(r *Report, s *facts.Snapshot, w advice.Words) {
	machine := s.CAPIMachine
	ref := machine.Spec.InfrastructureRef
	r.Subject = fmt.Sprintf("CAPI Machine %s/%s", machine.Namespace, machine.Name)
	r.Phase = facts.Clean(machine.Status.Phase)
	r.Steps = conditionSteps(machine.Status.Conditions)
	w["kind"], w["driver"], w["capi"] = ref.Kind, facts.DriverName(ref.Kind, nil), machine.Name
	noKind := s.Driver == nil || s.Driver.Status.MachineKind != ref.Kind
	bringKind := []string{"List the drivers: drover get drivers", "See why the driver is not ready: drover why driver/{nodedriver}"}
	if s.Driver != nil {
		w["nodedriver"] = s.Driver.Name
	} else {
		bringKind = advice.Machine{Driver: w["driver"]}.On(metav1.Condition{Reason: rkev1.DriverNotFoundReason}, nil)
	}
	switch {
	case ref.APIGroup != rkev1.MachineGroupVersion.Group:
		r.block("OtherProvider", fmt.Sprintf("Its infrastructure is a %s of group %s, which Drover does not manage.", ref.Kind, ref.APIGroup),
			"See the Machine's conditions, which the provider of that group sets: kubectl -n {ns} describe machine.cluster.x-k8s.io {capi}")
	case machine.DeletionTimestamp != nil && noKind && s.Knows(facts.DriverPart):
		r.block(rkev1.DriverNotFoundReason, fmt.Sprintf("It refers to a %s, and no active driver defines this kind. Cluster API cannot verify "+
			"that the machine is gone, and keeps the CAPI Machine until the kind exists again.", ref.Kind), bringKind...)
	case machine.DeletionTimestamp != nil:
		r.block(rkev1.DeletingReason, fmt.Sprintf("Its %s %s is deleted. The CAPI Machine itself waits for its finalizers: %s.", ref.Kind, ref.Name, strings.Join(machine.Finalizers, ", ")),
			nextCAPI)
	case s.Driver == nil && !s.Knows(facts.DriverPart):
		r.block("InfrastructureMissing", fmt.Sprintf("It refers to %s %s, which does not exist. The cause is not known, because you may not read NodeDrivers.", ref.Kind, ref.Name),
			"Ask your administrator for this permission, and try again")
	case noKind:
		r.block(rkev1.DriverNotFoundReason, fmt.Sprintf("It refers to a %s, and no active driver defines this kind.", ref.Kind), bringKind...)
	default:
		r.block("InfrastructureMissing", fmt.Sprintf("It refers to %s %s, which does not exist. It was deleted or never created.", ref.Kind, ref.Name),
			"If a MachineSet or MachineDeployment owns the CAPI Machine, delete the Machine to get a new one: kubectl -n {ns} delete machine.cluster.x-k8s.io {capi}",
			"Otherwise create the "+ref.Kind+" yourself")
	}
}

// explainOwner explains why a MachineDeployment or MachineSet has fewer machines than wanted.
func explainOwner(r *Report, s *facts.Snapshot, w advice.Words) {
	owner, going := &s.Owners[0], leaving(s.Machines)
	r.Subject = fmt.Sprintf("%s %s/%s", owner.Kind, owner.Namespace, owner.Name)
	r.Phase = facts.Clean(owner.Phase)
	r.Steps = conditionSteps(owner.Conditions)
	w["resource"] = strings.ToLower(owner.Kind)
	var see []string // where its machines are known, those that go are named
	if len(s.Machines) == 0 {
		see = []string{"List its machines, and see why a machine remains: drover get -n {ns}; drover why MACHINE -n {ns}"}
	}
	switch {
	case owner.Deleting:
		r.Phase = rkev1.PhaseDeleting
		r.block(rkev1.DeletingReason, "It is being deleted with all its machines.", see...)
	case owner.Replicas < 0:
		r.Verdict = []string{"The number of machines is not known, because spec.replicas is not set."}
		r.Next = []string{"Scale it: kubectl -n {ns} scale {resource} {name} --replicas=1"}
	case owner.Replicas == 0 && owner.Machines > 0:
		r.block("MachinesLeft", fmt.Sprintf("spec.replicas is 0, and %d machines are not deleted yet.", owner.Machines), see...)
	case owner.Replicas == 0:
		r.Verdict = []string{"It has no machines, because spec.replicas is 0."}
		r.Next = []string{"Scale it up: kubectl -n {ns} scale {resource} {name} --replicas=1"}
	case owner.Replicas > owner.ReadyReplicas:
		r.block("MachinesMissing", fmt.Sprintf("Too few machines are ready: %d of %d.", owner.ReadyReplicas, owner.Replicas))
		r.reportUnready(s)
	case len(going) > 0:
		r.block("MachinesLeaving", fmt.Sprintf("All its machines are ready, and %d more are being deleted.", len(going)))
	default:
		r.Verdict = []string{"All its machines are ready."}
	}
	r.reportLeaving(going, s.ControlPlane, owner.Deleting)
}

// reportUnready reports up to three machines of a pool, failing ones before waiting ones. A pool
// without machines most likely lacks a template.
func (r *Report) reportUnready(s *facts.Snapshot) {
	unready := slices.DeleteFunc(slices.Clone(s.Machines), func(m clusterv1.Machine) bool {
		return m.DeletionTimestamp != nil || meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineReadyCondition)
	})
	switch {
	case len(s.Machines) == 0 && s.Owners[0].Machines == 0:
		r.Next = []string{"No machine exists yet. Check whether its machine template and bootstrap template exist: kubectl -n {ns} describe {resource} {name}"}
	case len(unready) == 0:
		r.Next = []string{"List its machines: drover get -n {ns}"}
	}
	order := []StepState{StepFailed, StepWaiting, StepPending}
	slices.SortStableFunc(unready, func(a, b clusterv1.Machine) int {
		return slices.Index(order, trouble(&a).State) - slices.Index(order, trouble(&b).State)
	})
	for i := range unready[:min(3, len(unready))] {
		m := &unready[i]
		if step := trouble(m); step.Reason != "" {
			says, _, _ := strings.Cut(step.Message, ". ")
			r.Verdict = appendNew(r.Verdict, "Machine "+m.Name+": "+step.Reason+": "+says)
		}
		r.askAbout(m, "See why it is not ready")
	}
}

// trouble is the first part of a Machine that is not as it should be.
func trouble(m *clusterv1.Machine) Step {
	if step := bootstrapFailure(m); step != nil {
		return *step
	}
	for _, name := range []string{clusterv1.MachineInfrastructureReadyCondition, rkev1.ReconciledCondition, nodeStep} {
		if step := newStep(name, meta.FindStatusCondition(m.Status.Conditions, name)); step.State == StepFailed || step.State == StepWaiting {
			step.Message = sentence(step.Message)
			return step
		}
	}
	return Step{State: StepPending}
}

// explainGone explains the remains of a machine that no longer exists.
func explainGone(r *Report, s *facts.Snapshot) {
	asked := cmp.Or(s.Asked, "machine")
	r.Subject = fmt.Sprintf("%s %s/%s", asked, s.Namespace, s.Name)
	r.Phase = "Gone"
	r.Verdict = []string{"No " + asked + " of this name exists."}
	if s.Unseen != "" {
		r.Phase = ""
		r.Verdict = []string{"Drover cannot find out whether a machine of this name exists: " + s.Unseen + "."}
		r.Next = []string{"Ask your administrator for this permission, and try again"}
		return
	}
	switch state := s.State; {
	case state == nil || state.Name == "":
		r.Verdict = append(r.Verdict, "The events below are the only information about it. Events are kept for an hour.")
		r.Next = []string{"List all machines: drover get -A"}
	case state.ServerMayExist:
		r.Verdict = append(r.Verdict, "Its state Secret "+state.Name+" still exists: "+facts.Clean(came(state))+". A server may exist.")
		r.Next = []string{"Look in the cloud for a server named {instance}", "Keep the Secret until no server is left, because it holds the server's key and record. Then delete it: kubectl -n {ns} patch secret {state} --type=merge -p '{\"metadata\":{\"finalizers\":null}}' && kubectl -n {ns} delete secret {state}"}
	default:
		r.Verdict = append(r.Verdict, "Its state Secret "+state.Name+" still exists and records that no server is left.")
		r.Next = []string{"Delete the Secret: kubectl -n {ns} delete secret {state}"}
	}
}

// GoneCluster explains the remains of a CAPI Cluster that does not exist; nil if nothing remains.
func GoneCluster(s *facts.ClusterRemains, command string) *Report {
	if len(s.Machines)+len(s.CAPIMachines)+len(s.Secrets) == 0 {
		return nil
	}
	r := &Report{APIVersion: listing.APIVersion, Kind: Kind, Subject: "Cluster " + s.Namespace + "/" + s.Name, Phase: "Gone", Problems: cleanAll(s.Problems)}
	r.Verdict = []string{"No Cluster of this name exists.", fmt.Sprintf("Objects that carry its label still exist: %d infra machines, %d CAPI Machines, %d Secrets.",
		len(s.Machines), len(s.CAPIMachines), len(s.Secrets))}
	for _, m := range s.Machines {
		r.Related = append(r.Related, Related{m.Kind.Name, facts.Clean(m.Name), facts.Clean(m.Phase())})
		words := advice.Words{"ns": s.Namespace, "machine": m.Name}
		r.Next = append(r.Next, words.Fill("It may have a server. See why it remains: drover why {machine} -n {ns}")...)
	}
	r.Related = append(r.Related, relatedMachines(s.CAPIMachines)...)
	for _, name := range s.Secrets {
		r.Related = append(r.Related, Related{"Secret", facts.Clean(name), ""})
	}
	r.Next = r.Next[:min(3, len(r.Next))]
	w := advice.Words{"ns": s.Namespace, "cluster": s.Name}
	if len(s.CAPIMachines) > 0 {
		r.advise(own{next: []string{"List the Machines, and delete the ones that are not needed: " +
			"kubectl get machines.cluster.x-k8s.io -n {ns} -l cluster.x-k8s.io/cluster-name={cluster}"}}, w)
	}
	if len(s.Secrets) > 0 {
		r.advise(own{next: []string{"List the Secrets. Delete a Secret only if its content, such as an authority or a server's key, is not needed: " +
			"kubectl get secrets -n {ns} -l cluster.x-k8s.io/cluster-name={cluster}"}}, w)
	}
	r.finish(command)
	return r
}

// negative are conditions of Cluster API for which False is the good state.
var negative = map[string]bool{
	clusterv1.MachineUpdatingCondition: true, clusterv1.MachineDeletingCondition: true, clusterv1.PausedCondition: true,
	clusterv1.MachineSetScalingUpCondition: true, clusterv1.MachineSetScalingDownCondition: true, clusterv1.MachineSetRemediatingCondition: true,
	clusterv1.MachineDeploymentRollingOutCondition: true,
}

// conditionSteps shows conditions of Cluster API as steps.
func conditionSteps(conditions []metav1.Condition) []Step {
	var steps []Step
	for i := range conditions {
		c := conditions[i]
		step := capiStep(c.Type, &c)
		if negative[c.Type] {
			step.State = StepDone
			if c.Status == metav1.ConditionTrue {
				step.State = StepWaiting
			}
		}
		steps = append(steps, step)
	}
	return steps
}

// addUnmet adds Cluster API's own messages about unmet or unknown conditions. Cluster API reports a
// missing template even if no machine is wanted. If machines is set, the condition about a pool's
// machines is left out, because they were reported one by one.
func (r *Report) addUnmet(machines bool) {
	var told []string
	for _, step := range r.Steps {
		if machines && step.Name == clusterv1.MachinesReadyCondition {
			continue
		}
		if (step.State != StepDone || negative[step.Name]) && step.Message != "" && !slices.Contains(told, step.Message) {
			told = append(told, step.Message)
			r.Verdict = append(r.Verdict, step.Name+": "+step.Message)
		}
	}
}

// KnowsAnything reports whether a snapshot has any facts about its name.
func KnowsAnything(s *facts.Snapshot) bool {
	return s.Machine != nil || s.CAPIMachine != nil || len(s.Owners) > 0 || len(s.Events) > 0 || (s.State != nil && s.State.Name != "")
}
