package machine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	managementv3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/attempt"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/credential"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// `clusterctl move` does not move Jobs or status. It does not preserve a deletion, and does not
// move objects that have neither an owner nor its label. It pauses the Cluster and then waits for
// objects with its block annotation. A machine has this annotation until its server exists, and its
// state Secret while the server is being removed: both are written at these times anyway.

func blocksMove(obj metav1.Object) bool {
	_, ok := obj.GetAnnotations()[rkev1.BlockMoveAnnotation]
	return ok
}

func unblockMove(obj metav1.Object) {
	annotations := obj.GetAnnotations()
	delete(annotations, rkev1.BlockMoveAnnotation)
	obj.SetAnnotations(annotations)
}

// allowMove unblocks a move that waits for a machine when no Job of the machine runs. A paused
// machine is not brought forward otherwise, but the end of its Job is recorded in the state,
// because the Job does not move. Nothing is deleted, not even the Job's request: the move has
// listed the objects, and fails if one is gone.
func (r *Reconciler) allowMove(ctx context.Context, s *scope) error {
	secret := s.state.secret
	if s.inFallback() || !blocksMove(s) && (secret == nil || !blocksMove(secret)) {
		return nil
	}
	if s.state.Claimed {
		seen, err := r.readAttempt(ctx, s)
		switch {
		case err != nil:
			return err
		case seen.State == attempt.Running:
			return step.Progress(rkev1.JobRunningReason, "a move (clusterctl) waits for the Job", s.untilDue(seen.Evidence.Pods))
		case seen.State.Ended():
			if err := r.keepVerdict(ctx, s, seen); err != nil {
				return err
			}
		}
	}
	if blocksMove(s) {
		unblockMove(s)
		if err := r.patch(ctx, s); err != nil {
			return fmt.Errorf("unblocking a move: %w", err)
		}
	}
	if secret = s.state.secret; secret != nil && blocksMove(secret) {
		before := secret.DeepCopy()
		unblockMove(secret)
		if err := r.Client.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("unblocking a move: %w", err)
		}
	}
	return nil
}

// removalBegun reports whether a Job was to remove the server.
func (s *scope) removalBegun() bool {
	return s.state.Claimed && s.state.Claim.Operation == state.Remove
}

// takeAlong labels the user's Secrets that a Job has used, so that they are moved before a machine
// is created on the other side. It labels only Secrets of the machine's own namespace, because only
// that namespace moves, and only Secrets without an owner, because the others move or stay with
// their owner.
func (r *Reconciler) takeAlong(ctx context.Context, s *scope) error {
	names := []string{s.CredentialName()}
	if s.machine != nil && s.machine.Spec.Bootstrap.DataSecretName != nil {
		names = append(names, *s.machine.Spec.Bootstrap.DataSecretName)
	}
	for _, name := range names {
		key := credential.Parse(s.GetNamespace(), name)
		if name == "" || key.IsForeign() {
			continue
		}
		secret := metadataOf(corev1.SchemeGroupVersion.WithKind("Secret"))
		if err := r.Cache.Get(ctx, key.NamespacedName, secret); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the Secret %s: %w", name, err)
		} else if err != nil || len(secret.OwnerReferences) > 0 || metav1.HasLabel(secret.ObjectMeta, rkev1.MoveLabel) {
			continue
		}
		if _, done := r.labelled.LoadOrStore(secret.UID, true); done {
			continue
		}
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"uid":%q,"labels":{%q:""}}}`, secret.UID, rkev1.MoveLabel))
		if err := r.Client.Patch(ctx, secret, patch, client.FieldOwner(FieldOwner)); client.IgnoreNotFound(err) != nil {
			r.labelled.Delete(secret.UID)
			return fmt.Errorf("labelling the Secret %s for a move: %w", name, err)
		}
	}
	return nil
}

// If a whole namespace is deleted, its machines' servers must be removed too, but no object can be
// created in it any more. The state is then copied to the namespace of the driver cache, and the
// remove Job runs there. The objects there have no owner. They are found and deleted by name, which
// contains the machine's UID.

// fallbackOf returns the namespace and the base name of a machine's objects outside of its
// namespace.
func (s *scope) fallbackOf() types.NamespacedName {
	return types.NamespacedName{Namespace: driver.CacheNamespace, Name: "refuge-" + string(s.GetUID())}
}

func (s *scope) inFallback() bool { return s.home == s.fallbackOf() }

// owns reports whether an object was made for this machine.
func (s *scope) owns(obj metav1.Object) bool {
	if s.inFallback() {
		return obj.GetLabels()[rkev1.MachineUIDLabel] == string(s.GetUID())
	}
	return metav1.IsControlledBy(obj, s)
}

// loadFallback reads the state from the fallback namespace, if the machine has moved there.
func (r *Reconciler) loadFallback(ctx context.Context, s *scope) (bool, error) {
	fallback := s.fallbackOf()
	key := types.NamespacedName{Namespace: fallback.Namespace, Name: jobrunner.StateSecretName(fallback.Name)}
	secret := &corev1.Secret{}
	err := r.Live.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the state Secret %s: %w", key, err)
	}
	r.watchIndex.note(s.request, watchKey{kind: "Secret", name: key})
	s.home, s.state = fallback, stateOf(secret)
	return true, nil
}

// fallBack copies the state out of a namespace that is being deleted, and starts the remove Job
// beside the copy.
func (r *Reconciler) fallBack(ctx context.Context, s *scope) error {
	if err := r.checkRecordedDriver(ctx, s); err != nil {
		return err
	}
	fallback := s.fallbackOf()
	// The content of the copy: the pod's documents, and the notes beside them.
	secret := cmp.Or(s.state.secret, &corev1.Secret{})
	data, notes := maps.Clone(secret.Data), state.CopyNotes(secret.Annotations)
	delete(data, state.CredentialKey)
	notes[rkev1.TaggedUIDAnnotation] = s.state.TaggedUID
	if s.mayHaveServer() {
		state.NoteLost(notes)
	}
	copied := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: fallback.Namespace, Name: jobrunner.StateSecretName(fallback.Name),
			Labels: map[string]string{rkev1.MachineUIDLabel: string(s.GetUID())}, Annotations: notes},
		Type: rkev1.MachineStateSecretType, Data: data}
	copies := []client.Object{copied}
	if s.credential.Name != "" {
		credential, err := jobrunner.CredentialSecret(jobrunner.Task{Base: fallback.Name, Credential: s.credential,
			Request: jobrunner.Request{Machine: s.ref(), Namespace: fallback.Namespace, Driver: s.driver.ref}})
		if err != nil {
			return err
		}
		copies = []client.Object{credential, copied} // the state last: with it the machine has moved
	}
	for _, obj := range copies {
		err := r.Client.Create(ctx, obj, client.FieldOwner(FieldOwner))
		if client.IgnoreAlreadyExists(err) != nil {
			return step.Wait(rkev1.NamespaceTerminatingReason, fmt.Sprintf("the namespace is being deleted, so no Job can be created in it, and copying the state to namespace %s failed: %v", fallback.Namespace, err), fallbackCheck)
		}
	}
	s.attempt, s.recorded = nil, false
	if _, err := r.loadFallback(ctx, s); err != nil {
		return err
	}
	return r.attempt(ctx, s, state.Remove)
}

// checkRecordedDriver rejects a driver that only the machine's namespace records, before it runs in
// the namespace where all drivers are cached, unless it is a binary that was probed for a
// NodeDriver.
func (r *Reconciler) checkRecordedDriver(ctx context.Context, s *scope) error {
	ref := s.driver.ref
	if !s.driver.recorded || ref.Builtin {
		return nil
	}
	if driver.CheckDigest(ref.Digest) == nil {
		all := &managementv3.NodeDriverList{}
		if err := r.Cache.List(ctx, all); err != nil {
			return fmt.Errorf("listing the NodeDrivers: %w", err)
		}
		if slices.ContainsFunc(all.Items, func(nd managementv3.NodeDriver) bool { return nd.Status.Digest == ref.Digest }) {
			return nil
		}
		part := metadataOf(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		err := r.Live.Get(ctx, types.NamespacedName{Namespace: driver.CacheNamespace, Name: driver.CachePartName(ref.Digest, 0)}, part)
		if driver.IsPartOf(part, ref.Digest) {
			return nil
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the driver from the cache: %w", err)
		}
	}
	return step.Wait(rkev1.DriverNotFoundReason, fmt.Sprintf("the namespace is being deleted, so the remove Job runs in namespace %s, where only cached drivers can run: create NodeDriver %s again, or give up the server with the annotation %s=%s",
		driver.CacheNamespace, r.kind.Driver, rkev1.AbandonAnnotation, s.GetName()), 0)
}

// leaveFallback deletes all objects of a machine in the fallback namespace.
func (r *Reconciler) leaveFallback(ctx context.Context, s *scope) error {
	if !s.inFallback() {
		return nil
	}
	own := types.NamespacedName{Namespace: s.GetNamespace(), Name: jobrunner.StateSecretName(s.GetName())}
	left := &corev1.Secret{}
	err := r.Live.Get(ctx, own, left)
	if err == nil {
		_, err = step.DropFinalizer(ctx, r.Client, left, rkev1.MachineFinalizer)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("releasing the state Secret: %w", err)
	}
	// The Jobs and requests of all attempts, by their label: the pod can overwrite the recorded
	// number of attempts.
	var objects []client.Object
	stateName := jobrunner.StateSecretName(s.home.Name)
	for _, kind := range []schema.GroupVersionKind{batchv1.SchemeGroupVersion.WithKind("Job"), corev1.SchemeGroupVersion.WithKind("Secret")} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		err := r.Live.List(ctx, list, client.InNamespace(s.home.Namespace), client.MatchingLabels{rkev1.MachineUIDLabel: string(s.GetUID())})
		if err != nil {
			return fmt.Errorf("listing the objects created in namespace %s: %w", s.home.Namespace, err)
		}
		for i := range list.Items {
			if list.Items[i].Name != stateName {
				list.Items[i].SetGroupVersionKind(kind)
				objects = append(objects, &list.Items[i])
			}
		}
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: s.home.Namespace, Name: name} }
	access := jobrunner.AccessName(s.home.Name)
	objects = append(objects,
		&rbacv1.RoleBinding{ObjectMeta: meta(access)}, &rbacv1.Role{ObjectMeta: meta(access)}, &corev1.ServiceAccount{ObjectMeta: meta(access)},
		// Delete the state last: while it exists, the other objects are searched.
		&corev1.Secret{ObjectMeta: meta(stateName)})
	for _, obj := range objects {
		err := r.Client.Delete(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("cleaning up namespace %s: %w", s.home.Namespace, err)
		}
	}
	return nil
}
