package machine

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// The credential that the last Job was given is kept in a Secret of its own, for a removal when the user's Secret is gone. Only
// the manager reads it: the state Secret, which a Job's pod and whoever logs in to servers may read, holds nothing that pays bills.

// lastCredential is the one that the last Job was given; without a name when there is none. One that cannot be read is none.
func (r *Reconciler) lastCredential(ctx context.Context, s *scope) (state.Credential, error) {
	secret := &corev1.Secret{}
	key := types.NamespacedName{Namespace: s.home.Namespace, Name: jobrunner.CredentialSecretName(s.home.Name)}
	err := r.Live.Get(ctx, key, secret)
	if client.IgnoreNotFound(err) != nil {
		return state.Credential{}, fmt.Errorf("reading the Secret %s: %w", key.Name, err)
	}
	if err == nil && secret.Type == rkev1.MachineCredentialSecretType && (s.owns(secret) || s.succeeds(secret)) {
		if last, err := state.ReadCredential(secret.Data); err == nil {
			return last, nil
		}
	}
	return s.state.Credential.Value, nil
}

// moveCredential takes the credential out of a state that an earlier manager wrote, and reports whether the state still has it.
func (r *Reconciler) moveCredential(ctx context.Context, s *scope) (bool, error) {
	old, ok := s.state.secret.Data[state.CredentialKey]
	if !ok {
		return false, nil
	}
	moved, err := jobrunner.CredentialSecret(jobrunner.Task{Owner: s.Reference(), Credential: s.state.Credential.Value,
		Request: jobrunner.Request{Machine: s.ref(), Namespace: s.home.Namespace, Driver: state.DriverRef{Name: r.kind.Driver}}})
	if err != nil {
		return false, err
	}
	if !s.state.Credential.IsRead() {
		return true, nil // nothing of it can be used
	}
	moved.Data[state.CredentialKey] = bytes.Clone(old)
	err = r.Client.Create(ctx, moved, client.FieldOwner(FieldOwner))
	if client.IgnoreAlreadyExists(err) != nil {
		return false, fmt.Errorf("moving the credential out of the state Secret: %w", err)
	}
	return true, nil
}

// releaseCredential lets the credential go together with the machine.
func (r *Reconciler) releaseCredential(ctx context.Context, s *scope) error {
	secret := metadataOf(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: s.GetNamespace(), Name: jobrunner.CredentialSecretName(s.GetName())}, secret)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil && (s.controls(secret) || s.succeeds(secret)) {
		_, err = step.DropFinalizer(ctx, r.Client, secret, rkev1.MachineFinalizer)
	}
	if err != nil {
		return fmt.Errorf("releasing the Secret with the credential: %w", err)
	}
	return nil
}
