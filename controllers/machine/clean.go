package machine

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/attempt"
)

// cleanByPlan asks for a host that the remove Job could not clean to be cleaned by the machine's agent, and reports whether it has been. Who writes plans
// (controllers/rkecontrolplane) is asked by an annotation, and the plan Secret answers. Nobody is asked for a machine whose Machine stays, or whose namespace goes: the
// plan Secret and the agent's access to it went with it, and none can be made.
func (r *Reconciler) cleanByPlan(ctx context.Context, s *scope, last attempt.Attempt) (bool, error) {
	if last.State != attempt.Failed || last.Verdict.Reason != rkev1.HostNotCleanedReason || s.machine == nil || s.machine.DeletionTimestamp.IsZero() {
		return false, nil
	}
	ref := s.machine.Spec.Bootstrap.ConfigRef
	if ref.Kind != "RKEBootstrap" || ref.APIGroup != rkev1.GroupVersion.Group {
		return false, nil
	}
	if s.inFallback() {
		s.cleaning = ". Nor can its agent clean it by plan: the plan Secret, which it follows, goes with the namespace, and no other can be made there"
		return false, nil
	}
	uid := cmp.Or(s.state.TaggedUID, string(s.GetUID())) // as in the host's claim
	if annotations.AddAnnotations(s, map[string]string{rkev1.CleanByPlanAnnotation: uid}) {
		if err := r.patch(ctx, s); err != nil {
			return false, fmt.Errorf("asking for the host to be cleaned by plan: %w", err)
		}
	}
	key := types.NamespacedName{Namespace: s.GetNamespace(), Name: plan.SecretName(ref.Name)}
	r.watchIndex.note(s.request, watchKey{kind: "Secret", name: key})
	secret := &corev1.Secret{}
	err := r.Live.Get(ctx, key, secret)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return false, fmt.Errorf("reading the plan Secret %s: %w", key.Name, err)
	case apierrors.IsNotFound(err):
		s.cleaning = fmt.Sprintf(". Nor can its agent clean it by plan: the plan Secret %s, which it follows, is gone", key.Name)
		return false, nil
	case secret.Type != plan.SecretType:
		return false, nil
	}
	s.hasPlan = true
	if secret.Annotations[rkev1.CleansAnnotation] != uid {
		s.cleaning = ". Its agent has not been told to clean it by plan: one that never took up a plan is not"
		return false, nil
	}
	if plan.State(secret.Data[plan.KeyState]) == plan.StateSucceeded && string(secret.Data[plan.KeyAppliedChecksum]) == plan.Checksum(secret.Data[plan.KeyPlan]) {
		return true, nil
	}
	s.cleaning = toldToClean(secret.Data, s.GetName())
	return false, nil
}

// toldToClean is how far an agent has come that was told to clean its host. It changes with the plan's state only; when the agent called, others tell.
func toldToClean(data map[string][]byte, machine string) string {
	told := ". Its agent was told to clean the host by plan, "
	why := whyNotApplied(data)
	switch {
	case why != "":
		return told + fmt.Sprintf("which failed too: %s; drover logs %s --agent tells more", why, machine)
	case plan.State(data[plan.KeyState]) == plan.StateInProgress:
		return told + "and is at it"
	}
	return told + fmt.Sprintf("and has not taken that up; drover why %s tells when it called last", machine)
}

// whyNotApplied is why the agent's last attempt failed, in its words; empty if none did.
func whyNotApplied(data map[string][]byte) string {
	status, err := plan.DecodeAgentStatus(data[plan.KeyAgentStatus])
	if err != nil || status.Message == "" || status.Checksum != plan.Checksum(data[plan.KeyPlan]) {
		return ""
	}
	return plan.Head(strings.Join(strings.Fields(strings.TrimPrefix(status.Step+": "+status.Message, ": ")), " "), 500)
}
