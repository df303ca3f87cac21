package machine

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// ensureOwnership puts back what keeps a machine and its state until the server is gone, and what tells whose the state is. A restored
// backup, or a tool that takes owners away, may have lost it.
func (r *Reconciler) ensureOwnership(ctx context.Context, s *scope) error {
	secret := s.state.secret
	if secret == nil || !s.state.Claimed {
		return nil // nothing was made yet: adopt comes first
	}
	if controllerutil.AddFinalizer(s, rkev1.MachineFinalizer) {
		if err := r.patch(ctx, s); err != nil {
			return fmt.Errorf("putting the finalizer back: %w", err)
		}
	}
	if err := r.ensureCredentialOwnership(ctx, s); err != nil {
		return err
	}
	before := secret.DeepCopy()
	finalizer := controllerutil.AddFinalizer(secret, rkev1.MachineFinalizer)
	moved, err := r.moveCredential(ctx, s)
	if err != nil {
		return err
	}
	delete(secret.Data, state.CredentialKey)
	if owner := s.ensureOwner(secret); !owner && !finalizer && !moved {
		return nil
	}
	if err := r.Client.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("putting the state Secret's owner and finalizer back: %w", err)
	}
	return nil
}

// ensureCredentialOwnership does the same for the credential of last resort, of which no more than its metadata is looked at.
func (r *Reconciler) ensureCredentialOwnership(ctx context.Context, s *scope) error {
	secret := metadataOf(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := r.Cache.Get(ctx, types.NamespacedName{Namespace: s.GetNamespace(), Name: jobrunner.CredentialSecretName(s.GetName())}, secret)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for the Secret with the credential: %w", err)
	}
	if !secret.DeletionTimestamp.IsZero() || !s.controls(secret) && !s.succeeds(secret) {
		return nil
	}
	before := secret.DeepCopy()
	finalizer := controllerutil.AddFinalizer(secret, rkev1.MachineFinalizer)
	if owner := s.ensureOwner(secret); !owner && !finalizer {
		return nil
	}
	if err := r.Client.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("putting the owner and finalizer of the Secret with the credential back: %w", err)
	}
	return nil
}

// ensureOwner makes the machine the owner of an object, in the version of its kind that there is, and reports whether it was not.
func (s *scope) ensureOwner(obj metav1.Object) bool {
	want := *s.Reference()
	owners := obj.GetOwnerReferences()
	if owner := metav1.GetControllerOf(obj); owner != nil && owner.UID == want.UID && owner.APIVersion == want.APIVersion {
		return false
	}
	owners = slices.DeleteFunc(owners, func(ref metav1.OwnerReference) bool {
		group, err := schema.ParseGroupVersion(ref.APIVersion)
		return ref.UID == want.UID || err == nil && group.Group == s.GroupVersionKind().Group && ref.Kind == want.Kind && ref.Name == want.Name
	})
	obj.SetOwnerReferences(append(owners, want))
	return true
}
