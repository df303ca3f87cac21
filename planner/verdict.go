package planner

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// Result is the planner's result: the actions to take and the reported state.
type Result struct {
	// Reason and Message are about the cluster; the reason is ReconciledReason if all machines are
	// up to date.
	Reason, Message string
	// Machines has a verdict for each machine, in the order in which machines change. It is empty
	// if the cluster as a whole waits.
	Machines []Verdict
	// Warnings are about configuration that is passed on or passed over.
	Warnings []string
	// ControlPlaneReady: a control plane has applied its plan and is healthy.
	ControlPlaneReady bool
}

// Verdict is about one machine.
type Verdict struct {
	// Machine is the name of the CAPI Machine.
	Machine string
	// Reason and Message explain why it waits; the reason is UpToDateReason if it does not wait.
	Reason, Message string
	// Object is the Secret or ConfigMap that the reason is about, if it is about one.
	Object ObjectKey
	// Field is the field of the specification that names the object, if several kinds of fields can.
	Field string
	// Progress is its progress with its previous plan, as a separate reason; ProgressMessage
	// explains it. Both are empty without a plan.
	Progress, ProgressMessage string
	// Delivery is written into its plan Secret; nil leaves the Secret unchanged.
	Delivery *Delivery
}

// Done reports whether the machine matches the specification.
func (v Verdict) Done() bool { return v.Reason == rkev1.UpToDateReason }

// isDone reports whether a machine is among those that are done.
func isDone(verdicts []Verdict, machine string) bool {
	return slices.ContainsFunc(verdicts, func(v Verdict) bool { return v.Machine == machine && v.Done() })
}

// Delivery is a plan with its marks.
type Delivery struct {
	// Plan is nil if the agent has to apply the delivered plan again.
	Plan []byte
	// MaxFailures is how often the agent tries it; plan.Unlimited for any number.
	MaxFailures int
	// InitNode, JoinURL and JoinedTo are the label and the annotations of the plan Secret.
	InitNode          bool
	JoinURL, JoinedTo string
	// Retried is an annotation of the plan Secret: the Machine's Retry.
	Retried string
}

// Data is a plan Secret's data with the plan in it. The old data is not changed.
func (d Delivery) Data(old map[string][]byte) map[string][]byte {
	data := map[string][]byte{}
	for key, value := range old {
		if key != plan.KeyProbeStatuses {
			data[key] = value
		}
	}
	if data[plan.KeyState] = []byte(plan.StatePending); d.Plan != nil {
		data[plan.KeyPlan] = d.Plan
	}
	data[plan.KeyMaxFailures] = []byte(strconv.Itoa(d.MaxFailures))
	return data
}

// fault is why a plan cannot be rendered or must wait: a reason, a message, and the object that
// causes it, if there is one.
type fault struct {
	reason, message string
	object          ObjectKey
	field           string
}

func (f *fault) Error() string { return f.message }

func because(reason, format string, args ...any) *fault {
	return &fault{reason: reason, message: fmt.Sprintf(format, args...)}
}

// of names the object.
func (f *fault) of(kind, name string) *fault {
	f.object = ObjectKey{kind, name}
	return f
}

// at names the field that names the object.
func (f *fault) at(field string) *fault {
	f.field = field
	return f
}

// summary returns the cluster's reason and a message of at most three causes, each with at most
// three of its machines. Reasons that need the user come first.
func summary(verdicts []Verdict) (reason, message string) {
	waiting := slices.DeleteFunc(slices.Clone(verdicts), Verdict.Done)
	if len(waiting) == 0 {
		return rkev1.ReconciledReason, "all machines match the specification"
	}
	rank := map[bool]int{true: 0, false: 1}
	slices.SortStableFunc(waiting, func(a, b Verdict) int { return rank[stops(a.Reason)] - rank[stops(b.Reason)] })
	var causes []string
	machines := map[string][]string{}
	for _, v := range waiting {
		if machines[v.Message] == nil {
			causes = append(causes, v.Message)
		}
		machines[v.Message] = append(machines[v.Message], v.Machine)
	}
	var parts []string
	more := len(waiting)
	for _, cause := range causes[:min(3, len(causes))] {
		names := machines[cause]
		more -= len(names)
		parts = append(parts, listed(names)+": "+cause)
	}
	if more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	reason = rkev1.WaitingForMachinesReason
	if first := waiting[0].Reason; stops(first) {
		reason = first
	}
	return reason, strings.Join(parts, "; ")
}

// listed has at most three of some names.
func listed(names []string) string {
	text := strings.Join(names[:min(3, len(names))], ", ")
	if len(names) > 3 {
		text += fmt.Sprintf(" and %d more", len(names)-3)
	}
	return text
}

// stops reports whether a reason does not resolve automatically, so that the cluster shows it.
func stops(reason string) bool {
	return slices.Contains([]string{rkev1.ConfigInvalidReason, rkev1.MachineInvalidReason, rkev1.RegistrySecretMissingReason, rkev1.RegistrySecretInvalidReason,
		rkev1.FileSourceMissingReason, rkev1.FileSourceNotAuthorizedReason, rkev1.FileSourceInvalidReason, rkev1.SnapshotCredentialMissingReason,
		rkev1.SnapshotCredentialInvalidReason, rkev1.PlanFailedReason, rkev1.RetryingPlanReason, rkev1.AgentStuckReason, rkev1.AgentSilentReason,
		rkev1.ProbesFailingReason, rkev1.KubernetesVersionDiffersReason, rkev1.ServerTokenChangedReason, rkev1.AddressChangedReason, rkev1.NoRoleReason, rkev1.OperatingSystemUnsupportedReason, rkev1.TierUnsupportedReason}, reason)
}
