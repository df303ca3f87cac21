package machine

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// A state can be without its machine: a backup brings the Secrets back first, with an owner that was never there, and the garbage
// collector deletes them. Their finalizer keeps them until the machine comes, which takes them over (inherit). Only a namespace
// that is being deleted takes them along: nobody could make the machine there any more.

// orphanCheck is how often it is looked whether the namespace of a state without a machine is being deleted.
const orphanCheck = time.Minute

// releaseOrphan lets go what a namespace that is being deleted holds of a machine that is not there.
func (r *Reconciler) releaseOrphan(ctx context.Context, gone Request) error {
	for _, name := range []string{jobrunner.StateSecretName(gone.Name), jobrunner.CredentialSecretName(gone.Name)} {
		key := types.NamespacedName{Namespace: gone.Namespace, Name: name}
		known := metadataOf(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := r.Cache.Get(ctx, key, known)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("looking for the Secret %s of a machine that is gone: %w", name, err)
		}
		owner := metav1.GetControllerOf(known)
		if owner != nil && (owner.Kind != gone.Kind.Kind || owner.Name != gone.Name) || !slices.Contains(known.Finalizers, rkev1.MachineFinalizer) {
			continue
		}
		secret := &corev1.Secret{}
		if err := r.Live.Get(ctx, key, secret); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("reading the Secret %s of a machine that is gone: %w", name, err)
		}
		kept := state.Read(secret)
		if kept.ServerMayExist() && slices.Contains(secret.Finalizers, rkev1.MachineFinalizer) {
			r.Recorder.Eventf(secret, nil, corev1.EventTypeWarning, rkev1.WaitingForOwnerReason, "Keep", "there is no %s %s, and this state knows its server %s (%s): "+
				"a machine of that kind and name takes it over, and deleting that one removes it", gone.Kind.Kind, gone.Name, kept.InstanceName, kept.Server.Value.InstanceID)
		}
		if secret.DeletionTimestamp.IsZero() {
			continue // an event tells when it is being deleted
		}
		going, err := r.isTerminating(ctx, gone.Namespace)
		if err != nil {
			return err
		}
		if !going {
			// That a namespace is being deleted changes nothing of a Secret that is so already: nobody would wake us.
			return step.Wait(rkev1.WaitingForOwnerReason, fmt.Sprintf("the Secret %s waits for its machine", name), orphanCheck)
		}
		log.FromContext(ctx).Info("releasing a Secret of a machine that is not there, for its namespace is being deleted", "secret", name,
			"serverMayExist", kept.ServerMayExist(), "server", kept.InstanceName, "instanceID", kept.Server.Value.InstanceID)
		if _, err := step.DropFinalizer(ctx, r.Client, secret, rkev1.MachineFinalizer); err != nil {
			return fmt.Errorf("releasing the Secret %s of a machine that is gone: %w", name, err)
		}
	}
	return nil
}

// isTerminating reports whether a namespace is being deleted. The API server is asked as it will answer a Job: reading namespaces
// is a right that nothing else here needs.
func (r *Reconciler) isTerminating(ctx context.Context, namespace string) (bool, error) {
	probe := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "drover-probe-"}}
	err := r.Client.Create(ctx, probe, client.DryRunAll, client.FieldOwner(FieldOwner))
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err) {
		return true, nil
	}
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return false, nil // a quota or a policy
	}
	if err != nil {
		return false, fmt.Errorf("asking whether namespace %s is being deleted: %w", namespace, err)
	}
	return false, nil
}
