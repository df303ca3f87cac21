package machine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// stateSecret is the machine's state Secret, read live: it decides whether a server is made.
type stateSecret struct {
	state.State
	// secret is nil when there is none, or when it is another machine's.
	secret *corev1.Secret
	// takenBy names the machine whose state has our name; empty when none has.
	takenBy string
}

func stateOf(secret *corev1.Secret) stateSecret {
	return stateSecret{State: state.Read(secret), secret: secret}
}

func (r *Reconciler) loadState(ctx context.Context, s *scope) error {
	s.state, s.home = stateOf(nil), client.ObjectKeyFromObject(s)
	s.evidence, s.verdict = nil, nil
	if s.deleting() {
		if found, err := r.loadRefuge(ctx, s); found || err != nil {
			return err
		}
	}
	key := types.NamespacedName{Namespace: s.GetNamespace(), Name: jobrunner.StateSecretName(s.GetName())}
	secret := &corev1.Secret{}
	if err := r.Live.Get(ctx, key, secret); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("reading the state Secret %s: %w", key.Name, err)
	}
	// Two machines with one name, of two kinds or one after the other, must not share a state: each would remove the
	// other's server.
	if owner := metav1.GetControllerOf(secret); owner != nil && owner.UID != s.GetUID() {
		r.interests.note(s.request, secretKey(key))
		s.state.takenBy = fmt.Sprintf("%s %s (UID %s)", owner.Kind, owner.Name, owner.UID)
		return nil
	}
	if secret.Type != rkev1.MachineStateSecretType {
		r.interests.note(s.request, secretKey(key))
		s.state.takenBy = fmt.Sprintf("a Secret of type %q", secret.Type)
		return nil
	}
	s.state = stateOf(secret)
	return nil
}

// checkName waits while another machine has our name.
func (s *scope) checkName() error {
	if s.state.takenBy == "" {
		return nil
	}
	return step.Wait(rkev1.NameTakenReason, fmt.Sprintf("the name is taken: the Secret %s belongs to %s. Delete that, or use another name; nothing was made for this machine",
		jobrunner.StateSecretName(s.GetName()), s.state.takenBy), 0)
}
