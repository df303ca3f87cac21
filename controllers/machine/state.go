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
	// secret is nil when there is none, or when it is another machine's.
	secret *corev1.Secret
	// takenBy names the machine whose state has our name; empty when none has.
	takenBy string
	claim   state.Claim
	claimed bool
}

func (st stateSecret) data() map[string][]byte {
	if st.secret == nil {
		return nil
	}
	return st.secret.Data
}

// driver is what the server was made with.
func (st stateSecret) driver() (ref state.DriverRef, ok bool) {
	if st.secret == nil {
		return ref, false
	}
	return state.ReadDriver(st.secret.Annotations)
}

// instanceName is the name that the server got, which a later change of annotations must not change.
func (st stateSecret) instanceName() string {
	if st.secret == nil {
		return ""
	}
	return state.ReadInstanceName(st.secret.Annotations, st.secret.Data)
}

// lost tells that a Job was already started for a machine whose state had been lost.
func (st stateSecret) lost() bool {
	return st.secret != nil && state.ReadLost(st.secret.Annotations)
}

// taggedUID is the UID with which the machine's servers are tagged: a machine that was restored or moved has another than the one
// they were made for. Empty before the first attempt.
func (st stateSecret) taggedUID() string {
	if st.secret == nil {
		return ""
	}
	return state.ReadTaggedUID(st.secret)
}

func (st stateSecret) evidence() jobrunner.Evidence {
	return jobrunner.Evidence{Operation: st.claim.Operation, Attempt: st.claim.Attempt, Data: st.data()}
}

func (r *Reconciler) loadState(ctx context.Context, s *scope) error {
	s.state, s.home = stateSecret{}, client.ObjectKeyFromObject(s)
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
	s.state.secret = secret
	s.state.claim, s.state.claimed = state.ReadClaim(secret.Annotations)
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
