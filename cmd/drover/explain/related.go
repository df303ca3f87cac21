package explain

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// related lists the related objects of a machine, from its owners down to its pod.
func related(s *facts.Snapshot) []Related {
	var list []Related
	for _, owner := range slices.Backward(s.Owners) {
		list = append(list, Related{owner.Kind, owner.Name, objectState(owner)})
	}
	list = append(list, relatedCluster(s)...)
	if machine := s.CAPIMachine; machine != nil {
		list = append(list, Related{"CAPI Machine", machine.Name, capiState(machine, "no node yet", "", "")})
	}
	list = append(list, relatedDriver(s)...)
	if s.Bootstrap != nil {
		list = append(list, Related{"bootstrap", facts.Clean("Secret " + s.Bootstrap.Name), secretState(s.Bootstrap)})
	}
	if s.Credential != nil {
		list = append(list, Related{"credential", facts.Clean("Secret " + s.Credential.Namespace + "/" + s.Credential.Name), secretState(s.Credential)})
	}
	if s.State != nil && s.State.Name != "" {
		list = append(list, Related{"state", "Secret " + s.State.Name, stateState(s.State)})
	}
	if s.Ahead != nil {
		list = append(list, Related{"asks first", facts.Clean(s.Ahead.Kind.Name + " " + s.Ahead.Name), facts.Clean(s.Ahead.Phase())})
	}
	return append(list, relatedJob(s.Jobs, s.Pods)...)
}

// capiState describes the phase of a CAPI Machine. noNode is shown while it has no node; plan and
// roles are shown unless empty.
func capiState(m *clusterv1.Machine, noNode, plan, roles string) string {
	state := []string{m.Status.Phase, "", plan, noNode, roles}
	if m.DeletionTimestamp != nil {
		state[1] = "being deleted"
	}
	if m.Status.NodeRef.IsDefined() {
		state[3] = "node " + m.Status.NodeRef.Name
	}
	return facts.Clean(strings.Join(slices.DeleteFunc(state, func(part string) bool { return part == "" }), ", "))
}

func objectState(o facts.Object) string {
	var parts []string
	if o.Deleting {
		parts = append(parts, "being deleted")
	}
	if o.Phase != "" {
		parts = append(parts, o.Phase)
	}
	if o.Replicas >= 0 {
		parts = append(parts, fmt.Sprintf("%d of %d machines ready", o.ReadyReplicas, o.Replicas))
	}
	return facts.Clean(strings.Join(parts, ", "))
}

func relatedCluster(s *facts.Snapshot) []Related {
	if s.Cluster == nil {
		state := "missing"
		switch name := s.ClusterName(); {
		case name == "":
			return nil
		case !s.Knows(facts.ClusterPart):
			state = "could not be read"
		}
		return []Related{{"Cluster", facts.Clean(s.ClusterName()), state}}
	}
	state := "infrastructure not provisioned yet"
	if ptr.Deref(s.Cluster.Status.Initialization.InfrastructureProvisioned, false) {
		state = "infrastructure provisioned"
	}
	if ptr.Deref(s.Cluster.Spec.Paused, false) {
		state += ", paused"
	}
	if s.Cluster.DeletionTimestamp != nil {
		state += ", being deleted"
	}
	return []Related{{"Cluster", s.Cluster.Name, state}}
}

func relatedDriver(s *facts.Snapshot) []Related {
	if s.Driver == nil {
		return nil
	}
	ready := meta.FindStatusCondition(s.Driver.Status.Conditions, v3.ReadyCondition)
	state := "not reconciled yet"
	switch {
	case ready != nil && ready.Status == metav1.ConditionTrue:
		state = "ready"
	case ready != nil:
		state = ready.Reason
	}
	if s.Driver.DeletionTimestamp != nil {
		state += ", being deleted"
	}
	return []Related{{"driver", "NodeDriver " + s.Driver.Name, facts.Clean(state)}}
}

func secretState(secret *facts.Secret) string {
	if !secret.Found {
		return "missing"
	}
	if len(secret.Keys) == 0 {
		return "exists, but is empty"
	}
	return "exists (keys " + strings.Join(secret.Keys, ", ") + ")"
}

func stateState(state *facts.State) string {
	switch {
	case len(state.Problems) > 0:
		return "cannot be read in full; a server may exist"
	case state.IsTakenOver():
		return "has a record of a server that another system created"
	case state.Journal == nil:
		return "nothing done yet"
	}
	text := fmt.Sprintf("%s, attempt %d to %s", state.Journal.Phase, state.Journal.Attempt, state.Journal.Operation)
	if state.Server != nil && state.Server.InstanceID != "" {
		text += ", server " + state.Server.InstanceID
	}
	return facts.Clean(text)
}

func relatedJob(jobs []batchv1.Job, pods []corev1.Pod) []Related {
	if len(jobs) == 0 {
		return nil
	}
	list := []Related{{"Job", jobs[0].Name, jobState(&jobs[0])}}
	for i := range pods {
		list = append(list, Related{"pod", pods[i].Name, podState(&pods[i])})
	}
	return list
}

func jobState(job *batchv1.Job) string {
	for _, c := range job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobSuspended:
			return "suspended"
		case batchv1.JobComplete:
			return "succeeded"
		case batchv1.JobFailed:
			return facts.Clean("failed: " + c.Reason)
		default:
		}
	}
	if job.DeletionTimestamp != nil {
		return "being deleted"
	}
	return "running"
}

func podState(pod *corev1.Pod) string {
	state := string(pod.Status.Phase)
	if reason, _ := podTrouble(nil, []corev1.Pod{*pod}, nil); reason != "" {
		return facts.Clean(state + ": " + reason)
	}
	for _, status := range pod.Status.ContainerStatuses {
		if t := status.State.Terminated; t != nil && t.ExitCode != 0 {
			return fmt.Sprintf("%s: %s exited with %d", state, status.Name, t.ExitCode)
		}
	}
	return state
}
