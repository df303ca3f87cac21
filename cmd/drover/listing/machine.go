package listing

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-project/drover/advice"
	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// APIVersion heads the documents of -o json and -o yaml. Fields are only ever added.
const APIVersion = "cli.drover.cattle.io/v1"

// phaseDraining is shown while Cluster API drains the Node of a machine that is being deleted.
const phaseDraining = "Draining"

// List is the document of `drover get`, `drover get drivers` and `drover gc` with -o json, even for
// a single name.
type List[T any] struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Items      []T    `json:"items"`
}

// Machine sums one machine up.
type Machine struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Ref names the object for kubectl and for drover: <singular>.<group>/<name>.
	Ref         string `json:"ref"`
	Kind        string `json:"kind"`
	Driver      string `json:"driver"`
	Cluster     string `json:"cluster,omitempty"`
	CAPIMachine string `json:"capiMachine,omitempty"`
	Phase       string `json:"phase"`
	Ready       bool   `json:"ready"`
	Paused      bool   `json:"paused"`
	// Reason and Message come from the condition that blocks the machine, or are NotReconciled;
	// empty if the machine is ready.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Address is the one of Addresses most likely reached.
	Address         string                     `json:"address,omitempty"`
	Addresses       []clusterv1.MachineAddress `json:"addresses,omitempty"`
	ProviderID      string                     `json:"providerID,omitempty"`
	InstanceName    string                     `json:"instanceName,omitempty"`
	JobName         string                     `json:"jobName,omitempty"`
	Attempts        int32                      `json:"attempts,omitempty"`
	NextAttemptTime *time.Time                 `json:"nextAttemptTime,omitempty"`
	Created         time.Time                  `json:"created"`
	Deleting        bool                       `json:"deleting,omitempty"`
}

// NewMachineList sums machines up, sorted by namespace, name and kind.
func NewMachineList(machines []*facts.Machine, drivers []v3.NodeDriver) List[Machine] {
	list := List[Machine]{APIVersion, "MachineList", []Machine{}}
	for _, m := range machines {
		list.Items = append(list.Items, NewMachine(m, drivers))
	}
	slices.SortFunc(list.Items, func(a, b Machine) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	return list
}

// NewMachine sums one machine up.
func NewMachine(m *facts.Machine, drivers []v3.NodeDriver) Machine {
	s := Machine{
		Namespace: m.Namespace, Name: m.Name, Ref: m.Ref(), Kind: m.Kind.Name,
		Driver: facts.DriverName(m.Kind.Name, drivers), Cluster: m.ClusterName(), CAPIMachine: m.CAPIMachineName(),
		Phase: m.Phase(), Ready: meta.IsStatusConditionTrue(m.Status.Conditions, rkev1.ReadyCondition), Paused: m.PausedBy() != "",
		Address: m.Address(), Addresses: m.Status.Addresses, ProviderID: m.Spec.ProviderID, InstanceName: m.Status.InstanceName, JobName: m.Status.JobName,
		Attempts: m.Status.Attempts, Created: m.CreationTimestamp.UTC(), Deleting: m.DeletionTimestamp != nil,
	}
	// Ready's own reason sums up the others.
	switch ready := m.Condition(rkev1.ReadyCondition); {
	case s.Paused:
		s.Reason, s.Message = clusterv1.PausedReason, m.PausedBy()
	case ready == nil, s.Ready && s.Deleting:
		s.Reason, s.Message = "NotReconciled", "no manager has looked at it yet"
	case !s.Ready:
		s.Reason = ready.Reason
		s.Message, _ = advice.Split(ready.Message)
	}
	if leaving := m.Leaving; leaving != nil {
		s.Phase = rkev1.PhaseDeleting
		if leaving.Reason == clusterv1.MachineDeletingDrainingNodeReason {
			s.Phase = phaseDraining
		}
		if !s.Paused {
			s.Reason, s.Message = leaving.Reason, leaving.Message
		}
	}
	if next := m.Status.NextAttemptTime; next != nil {
		when := next.UTC()
		s.NextAttemptTime = &when
	}
	return s
}
