package machine

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// registered reports to a create attempt whether the machine's agent has registered, and from which
// server. The Job needs it if the cloud made two servers for the machine: it may remove only the
// server without the agent. It is empty if another provider supplies the bootstrap data, because
// Drover does not see that provider's registrations.
func (r *Reconciler) registered(ctx context.Context, s *scope, claim state.Claim) (string, error) {
	if claim.Operation != state.Create || s.bootstrap == nil || s.machine == nil {
		return "", nil
	}
	ref := s.machine.Spec.Bootstrap.ConfigRef
	if ref.GroupKind() != ourBootstrap {
		return "", nil
	}
	secret := &corev1.Secret{}
	key := types.NamespacedName{Namespace: s.GetNamespace(), Name: plan.SecretName(ref.Name)}
	err := r.Live.Get(ctx, key, secret)
	switch {
	case apierrors.IsNotFound(err), err == nil && secret.Type != plan.SecretType:
		return jobrunner.RegisteredUnknown, nil
	case err != nil:
		return "", fmt.Errorf("reading the plan Secret %s: %w", key.Name, err)
	}
	if len(secret.Data[plan.KeyAgentPublicKey]) == 0 {
		return jobrunner.RegisteredNone, nil
	}
	return cmp.Or(s.cloud().AgentServer(secret.Annotations[rkev1.AgentServerAnnotation]), jobrunner.RegisteredUnknown), nil
}
