package facts

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	v3 "github.com/drover-project/drover/api/management/v3"
)

// Part is one part of a Snapshot, as far as it may be unknown.
type Part string

// The parts of a Snapshot that are read one by one.
const (
	OwnersPart     Part = "owners"
	ClusterPart    Part = "cluster"
	DriverPart     Part = "driver"
	BootstrapPart  Part = "bootstrap"
	CredentialPart Part = "credential"
	StatePart      Part = "state"
	JobsPart       Part = "jobs"
	PodsPart       Part = "pods"
	AheadPart      Part = "the machine that asks first"
	EventsPart     Part = "events"
	LivePart       Part = "the Job's log"
	FailurePart    Part = "the agent's report"
	CleaningPart   Part = "the plan that cleans the host"
)

// Snapshot is everything about one machine, or one name, at one moment. A nil pointer is an object
// that does not exist or could not be read; Unread distinguishes the two.
type Snapshot struct {
	Now       time.Time
	Namespace string
	// Name is the name that the user asked for.
	Name string
	// Asked is the kind that the user asked for, if that is a pool's.
	Asked string

	Machine *Machine
	// MissingKind is the kind the CAPI Machine refers to, when that machine does not exist.
	MissingKind string
	CAPIMachine *clusterv1.Machine
	Cluster     *clusterv1.Cluster
	// ControlPlane is the Cluster's RKEControlPlane.
	ControlPlane *Object
	Driver       *v3.NodeDriver
	// Owners are the MachineSet and MachineDeployment above the CAPI Machine, nearest first; or the
	// objects that Name names.
	Owners []Object
	// Machines are the CAPI Machines of the pool that Name names.
	Machines []clusterv1.Machine

	Bootstrap  *Secret
	Credential *Secret
	State      *State
	// Jobs of the machine, newest first, and the pods of the newest.
	Jobs []batchv1.Job
	Pods []corev1.Pod
	// Ahead is the machine that the cloud refused, while this one waits for its turn.
	Ahead *Machine
	// Events of all of these, oldest first.
	Events []corev1.Event
	// Problems lists the read errors, in words for the user; Unread lists the parts that are
	// therefore unknown.
	Problems []string
	Unread   []Part
	// Unseen lists the parts that the user is not allowed to read; a machine of this name may exist
	// in them. It is empty if the user may read all parts.
	Unseen string
	// Live is the end of the log of the newest Job's pod while the Job runs.
	Live string
	// Failure is why the machine's agent fails at its plan; nil when it does not.
	Failure *Failure
	// Cleaning is the progress of an agent that cleans its host by plan; nil without such a plan.
	Cleaning *Cleaning
}

// Cleaning is a plan that cleans a host: its state, the instruction that has been running for long,
// if one has, and when the agent called the manager last.
type Cleaning struct {
	State, Running string
	AgentSeen      time.Time
}

// Failure is the end of the output of the plan's failed step on a server. The output may contain
// secrets: show it only as a log.
type Failure struct {
	// Machine is the CAPI Machine.
	Machine, Step, Output string
}

// Knows reports whether a part was read: then an object that is missing from it does not exist.
func (s *Snapshot) Knows(part Part) bool {
	return !slices.Contains(s.Unread, part)
}

// ClusterName is the CAPI Cluster that the CAPI Machine or, without one, the machine, or the pool's
// machines belong to; it may be empty.
func (s *Snapshot) ClusterName() string {
	switch {
	case s.CAPIMachine != nil:
		return s.CAPIMachine.Spec.ClusterName
	case s.Machine != nil:
		return s.Machine.ClusterName()
	case len(s.Machines) > 0:
		return s.Machines[0].Spec.ClusterName
	}
	return ""
}

// DriverSnapshot is everything about one NodeDriver at one moment.
type DriverSnapshot struct {
	Now    time.Time
	Driver *v3.NodeDriver
	Jobs   []batchv1.Job
	Pods   []corev1.Pod
	Events []corev1.Event
	// Machines is how many machines of the driver's kind exist; -1 when unknown.
	Machines int
	// Log is the kept end of the probe's log.
	Log      string
	Problems []string
}

// ClusterSnapshot is everything about one CAPI Cluster at one moment, or about an RKEControlPlane
// without a Cluster. A missing or unreadable object is nil; Problems has the read errors.
type ClusterSnapshot struct {
	Now     time.Time
	Cluster *clusterv1.Cluster
	// ControlPlane and Infrastructure are the objects that the Cluster refers to; Version is the
	// control plane's spec.kubernetesVersion.
	ControlPlane, Infrastructure *Object
	Version                      string
	// Provisioning is the provisioning Cluster of the same name; nil if there is none.
	Provisioning *Object
	// Machines by their names.
	Machines []clusterv1.Machine
	// Failure is the failure of the first machine that fails at its plan.
	Failure  *Failure
	Events   []corev1.Event
	Problems []string
}

// ClusterRemains are the remains of a CAPI Cluster that does not exist. Problems lists the parts
// that could not be read.
type ClusterRemains struct {
	Namespace, Name string
	Machines        []*Machine
	CAPIMachines    []clusterv1.Machine
	// Secrets by their names.
	Secrets  []string
	Problems []string
}

// Secret holds the facts about a Secret that may be shown.
type Secret struct {
	Namespace, Name string
	Found           bool
	Keys            []string
}

// Object holds the facts about a related object.
type Object struct {
	Kind, Namespace, Name string
	// Cluster is the Cluster that owns it, the first if there are several.
	Cluster    string
	Deleting   bool
	Phase      string
	Conditions []metav1.Condition
	// Replicas wanted and there; -1 when the object has none.
	Replicas, ReadyReplicas int64
	// Machines are those it has, also such as are still to go.
	Machines int64
}

// DecodeObject reads any API object that has conditions of Kubernetes' own form, or none.
func DecodeObject(u *unstructured.Unstructured) Object {
	o := Object{
		Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(),
		Deleting: u.GetDeletionTimestamp() != nil, Replicas: -1, ReadyReplicas: -1,
	}
	owned := func(ref metav1.OwnerReference) bool {
		group, err := schema.ParseGroupVersion(ref.APIVersion)
		return err == nil && group.Group == clusterv1.GroupVersion.Group && ref.Kind == "Cluster"
	}
	if at := slices.IndexFunc(u.GetOwnerReferences(), owned); at >= 0 {
		o.Cluster = u.GetOwnerReferences()[at].Name
	}
	o.Phase, _, _ = unstructured.NestedString(u.Object, "status", "phase")
	if n, found, err := unstructured.NestedInt64(u.Object, "spec", "replicas"); found && err == nil {
		o.Replicas = n
		o.ReadyReplicas, _, _ = unstructured.NestedInt64(u.Object, "status", "readyReplicas")
	}
	o.Machines, _, _ = unstructured.NestedInt64(u.Object, "status", "replicas")
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	o.Conditions = decodeConditions(conditions)
	return o
}

// decodeConditions skips malformed entries.
func decodeConditions(list []any) []metav1.Condition {
	var conditions []metav1.Condition
	for _, item := range list {
		fields, ok := item.(map[string]any)
		if !ok {
			continue
		}
		text := func(key string) string { value, _ := fields[key].(string); return value }
		c := metav1.Condition{
			Type: text("type"), Status: metav1.ConditionStatus(text("status")), Reason: text("reason"), Message: text("message"),
		}
		if when, err := time.Parse(time.RFC3339, text("lastTransitionTime")); err == nil {
			c.LastTransitionTime = metav1.NewTime(when)
		}
		c.ObservedGeneration, _ = fields["observedGeneration"].(int64)
		conditions = append(conditions, c)
	}
	return conditions
}
