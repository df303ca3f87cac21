package machine

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

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
	// takenBy says whose Secret has the name of ours, and what to do; empty when none has.
	takenBy string
	// inherited says that the state is of an earlier machine of this kind and name: a backup brought both back. What it claims was
	// never looked at for this machine.
	inherited bool
}

func stateOf(secret *corev1.Secret) stateSecret {
	return stateSecret{State: state.Read(secret), secret: secret}
}

func (r *Reconciler) loadState(ctx context.Context, s *scope) error {
	s.state, s.home = stateOf(nil), client.ObjectKeyFromObject(s)
	s.evidence, s.verdict = nil, nil
	key := types.NamespacedName{Namespace: s.GetNamespace(), Name: jobrunner.StateSecretName(s.GetName())}
	secret := &corev1.Secret{}
	err := r.Live.Get(ctx, key, secret)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the state Secret %s: %w", key.Name, err)
	}
	missing := err != nil
	// A machine in the fallback namespace left this one behind; it is deleted with its own namespace. A machine that had no time to
	// write down that it has moved moves again, which changes nothing.
	if s.deleting() && (missing || !secret.DeletionTimestamp.IsZero() || strings.HasPrefix(s.status.JobName, s.fallbackOf().Name)) {
		if found, err := r.loadFallback(ctx, s); found || err != nil {
			return err
		}
	}
	if missing {
		return nil //nolint:nilerr // a state that is not there is none
	}
	if s.state.takenBy = s.takenBy(secret); s.state.takenBy != "" {
		r.watchIndex.note(s.request, secretKey(key))
		return nil
	}
	s.state = stateOf(secret)
	if s.inherits(secret) {
		s.state.inherited, s.state.Claimed, s.state.Claim = true, false, state.Claim{}
	}
	return nil
}

// takenBy says whose a Secret with the name of our state is; empty when it is ours. Two machines with one name, of two kinds or one
// after the other, must not share a state: each would remove the other's server.
func (s *scope) takenBy(secret *corev1.Secret) string {
	owner := metav1.GetControllerOf(secret)
	switch {
	case secret.Type != rkev1.MachineStateSecretType:
		return fmt.Sprintf("is a Secret of type %q: delete that, or use another name", secret.Type)
	case owner == nil || s.controls(secret):
		return ""
	case !s.succeeds(secret):
		return fmt.Sprintf("belongs to %s %s (UID %s): use another name, or delete that machine. Keep the Secret: it is all that is known of a server",
			owner.Kind, owner.Name, owner.UID)
	case !controllerutil.ContainsFinalizer(secret, rkev1.MachineFinalizer):
		// Whoever let the earlier machine go has taken the finalizer: its server is gone.
		return fmt.Sprintf("is what an earlier machine of this name left when its server was gone (UID %s): wait until the garbage collector has taken it. "+
			"If it comes from a backup, apply it again without metadata.ownerReferences", owner.UID)
	}
	return ""
}

// inherits reports whether a state is an earlier machine's of this kind and name. That one is gone, for there is one object of a
// name; and its server is not, for the finalizer that keeps the state goes last.
func (s *scope) inherits(secret *corev1.Secret) bool {
	return !s.controls(secret) && secret.Labels[rkev1.MachineUIDLabel] != string(s.GetUID())
}

// inherit makes an earlier machine's state this machine's. The claim goes, so that a Job looks whether the server is there before
// anything is said of it; it looks with the UID that the server is tagged with. While the machine's owner is not there it waits:
// the garbage collector is about to delete the machine, and only the state still tells that it was never one of this cluster.
func (r *Reconciler) inherit(ctx context.Context, s *scope) error {
	_, _, owned := s.Owner()
	if !s.state.inherited || owned && s.machine == nil && !s.deleting() {
		return nil
	}
	if controllerutil.AddFinalizer(s, rkev1.MachineFinalizer) {
		if err := r.patch(ctx, s); err != nil {
			return fmt.Errorf("setting the finalizer: %w", err)
		}
	}
	secret := s.state.secret
	before := secret.DeepCopy()
	s.ensureOwner(secret)
	if secret.DeletionTimestamp.IsZero() { // to one that is being deleted none can be added; it has ours, or it would be gone
		controllerutil.AddFinalizer(secret, rkev1.MachineFinalizer)
	}
	if s.state.TaggedUID != "" {
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, rkev1.TaggedUIDAnnotation, s.state.TaggedUID)
	}
	metav1.SetMetaDataLabel(&secret.ObjectMeta, rkev1.MachineUIDLabel, string(s.GetUID()))
	state.DropClaim(secret.Annotations)
	if err := r.Client.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("taking over the state of an earlier machine of this name: %w", err)
	}
	s.state.inherited = false
	return nil
}

// checkName waits while another machine has our name.
func (s *scope) checkName() error {
	if s.state.takenBy == "" {
		return nil
	}
	return step.Wait(rkev1.NameTakenReason, fmt.Sprintf("the name is taken: the Secret %s %s. Nothing was made for this machine",
		jobrunner.StateSecretName(s.GetName()), s.state.takenBy), 0)
}
