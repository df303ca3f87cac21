package machine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// stateSecret is the machine's state Secret, read live: it decides whether a server is made.
type stateSecret struct {
	state.State
	// secret is nil if the state Secret does not exist, or if it belongs to another machine.
	secret *corev1.Secret
	// takenBy describes the owner of another Secret with the name of our state, and the remedy;
	// empty without one.
	takenBy string
	// inherited is true if the state belongs to an earlier machine of this kind and name, and a
	// backup restored both. No Job of this machine has verified its content.
	inherited bool
	// stray keeps the machine from taking it over; see strayOwner.
	stray string
}

func stateOf(secret *corev1.Secret) stateSecret {
	return stateSecret{State: state.Read(secret), secret: secret}
}

func (r *Reconciler) loadState(ctx context.Context, s *scope) error {
	s.state, s.home = stateOf(nil), client.ObjectKeyFromObject(s)
	s.attempt, s.recorded = nil, false
	key := types.NamespacedName{Namespace: s.GetNamespace(), Name: jobrunner.StateSecretName(s.GetName())}
	secret := &corev1.Secret{}
	err := r.Live.Get(ctx, key, secret)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the state Secret %s: %w", key.Name, err)
	}
	missing := err != nil
	// A machine in the fallback namespace has left this state behind; it is deleted with its own
	// namespace. If the machine stopped before it recorded its move, it moves again, which changes
	// nothing.
	if s.deleting() && (missing || !secret.DeletionTimestamp.IsZero() || strings.HasPrefix(s.status.JobName, s.fallbackOf().Name)) {
		if found, err := r.loadFallback(ctx, s); found || err != nil {
			return err
		}
	}
	if missing {
		return nil //nolint:nilerr // a missing state is an empty state
	}
	if s.state.takenBy = s.takenBy(secret); s.state.takenBy != "" {
		r.watchIndex.note(s.request, watchKey{kind: "Secret", name: key})
		return nil
	}
	s.state = stateOf(secret)
	// The state of an earlier machine of this kind and name. That machine is gone, because only one
	// object can have the name. Its server exists, because the finalizer that keeps the state is
	// removed last.
	if !metav1.IsControlledBy(secret, s) && secret.Labels[rkev1.MachineUIDLabel] != string(s.GetUID()) {
		s.state.inherited, s.state.Claimed, s.state.Claim = true, false, state.Claim{}
	}
	return nil
}

// takenBy describes the owner of a Secret with the name of our state; empty if the Secret is ours.
// Two machines with one name, of two kinds or one after the other, must not share a state: each
// would remove the other's server.
func (s *scope) takenBy(secret *corev1.Secret) string {
	owner := metav1.GetControllerOf(secret)
	switch {
	case secret.Type != rkev1.MachineStateSecretType:
		return fmt.Sprintf("is a Secret of type %q: delete that, or use another name", secret.Type)
	case owner == nil || metav1.IsControlledBy(secret, s):
		return ""
	case !s.succeeds(secret):
		return fmt.Sprintf("belongs to %s %s (UID %s): use another name, or delete that machine. Keep the Secret, because it is the only record of a server",
			owner.Kind, owner.Name, owner.UID)
	case !controllerutil.ContainsFinalizer(secret, rkev1.MachineFinalizer):
		// The finalizer was removed when the earlier machine was released: its server is gone.
		return fmt.Sprintf("belongs to an earlier machine of this name whose server was removed (UID %s): wait until the garbage collector deletes it. "+
			"If it comes from a backup, apply it again without metadata.ownerReferences", owner.UID)
	}
	return ""
}

// inherit gives an earlier machine's state to this machine. It drops the claim, so that a Job first
// checks whether the server exists; the Job searches with the UID in the server's tag. While the
// machine's owner does not exist, inherit waits: the garbage collector will delete the machine, and
// only the state shows that it never ran in this cluster.
func (r *Reconciler) inherit(ctx context.Context, s *scope) error {
	_, _, owned := s.Owner()
	if !s.state.inherited || owned && s.machine == nil && !s.deleting() {
		return nil
	}
	if owned && !s.deleting() {
		var err error
		if s.state.stray, err = r.strayOwner(ctx, s.machine, "CAPI Machine", 0); s.state.stray != "" || err != nil {
			return err // awaitCluster reports it
		}
	}
	if controllerutil.AddFinalizer(s, rkev1.MachineFinalizer) {
		if err := r.patch(ctx, s); err != nil {
			return fmt.Errorf("setting the finalizer: %w", err)
		}
	}
	secret := s.state.secret
	if err := r.dropRestoredJobs(ctx, s, secret.Labels[rkev1.MachineUIDLabel]); err != nil {
		return err
	}
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

// dropRestoredJobs deletes the restored Jobs of an earlier machine of this name: their pods do
// nothing, or wait for a request that does not exist.
func (r *Reconciler) dropRestoredJobs(ctx context.Context, s *scope, uid string) error {
	jobs := &batchv1.JobList{}
	if uid == "" || uid == string(s.GetUID()) {
		return nil
	}
	if err := r.Live.List(ctx, jobs, client.InNamespace(s.GetNamespace()), client.MatchingLabels{rkev1.MachineUIDLabel: uid}); err != nil {
		return fmt.Errorf("listing Jobs of the earlier machine: %w", err)
	}
	for i := range jobs.Items {
		if err := r.runner.Stop(ctx, &jobs.Items[i], metav1.DeletePropagationBackground); err != nil {
			return err
		}
	}
	return nil
}

// checkTaggedUID waits while the UID in the servers' tag belongs to another existing machine; an
// earlier machine of this name does not exist. A user with write access to the state may have set
// the UID. The cached Secrets only show where to look for that machine.
func (r *Reconciler) checkTaggedUID(ctx context.Context, s *scope) error {
	uid := s.state.TaggedUID
	if uid == "" || uid == string(s.GetUID()) {
		return nil
	}
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := r.Cache.List(ctx, secrets, client.MatchingLabels{rkev1.MachineUIDLabel: uid}); err != nil {
		return fmt.Errorf("finding the machine whose tag the state names: %w", err)
	}
	for i := range secrets.Items {
		owner := metav1.GetControllerOf(&secrets.Items[i])
		if owner == nil || string(owner.UID) != uid || owner.APIVersion != rkev1.MachineGroupVersion.String() {
			continue
		}
		other := metadataOf(rkev1.MachineGroupVersion.WithKind(owner.Kind))
		err := r.Live.Get(ctx, types.NamespacedName{Namespace: secrets.Items[i].Namespace, Name: owner.Name}, other)
		if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
			return fmt.Errorf("finding the machine whose tag the state names: %w", err)
		}
		if err == nil && string(other.UID) == uid {
			return step.Wait(rkev1.NameTakenReason, fmt.Sprintf("the state Secret %s names the tag of machine UID %s for this machine's servers, and the machine %s in namespace %s has this UID: "+
				"Drover changes no server. If this machine is not a copy of that one, set the annotation %s of the Secret to this machine's UID, %s",
				jobrunner.StateSecretName(s.home.Name), uid, other.Name, other.Namespace, rkev1.TaggedUIDAnnotation, s.GetUID()), foreignCheck)
		}
	}
	return nil
}

// ensureOwnership restores the finalizers that keep a machine and its state until the server is
// gone, and the state's owner reference. A restored backup, or a tool that removes owners, may have
// lost them.
func (r *Reconciler) ensureOwnership(ctx context.Context, s *scope) error {
	if !s.state.Claimed {
		return nil // nothing was made yet: adopt comes first
	}
	if controllerutil.AddFinalizer(s, rkev1.MachineFinalizer) {
		if err := r.patch(ctx, s); err != nil {
			return fmt.Errorf("restoring the finalizer: %w", err)
		}
	}
	if err := r.ensureCredentialOwnership(ctx, s); err != nil {
		return err
	}
	if err := r.moveCredential(ctx, s); err != nil {
		return err
	}
	secret := s.state.secret
	before := secret.DeepCopy()
	_, moved := secret.Data[state.CredentialKey]
	delete(secret.Data, state.CredentialKey)
	// Comparing both objects would cost a quarter of all allocations of a reconcile.
	if finalizer, owner := controllerutil.AddFinalizer(secret, rkev1.MachineFinalizer), s.ensureOwner(secret); !finalizer && !owner && !moved {
		return nil
	}
	if err := r.Client.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("restoring the state Secret's owner and finalizer: %w", err)
	}
	return nil
}

// ensureCredentialOwnership does the same for the credential of last resort. It reads only the
// metadata.
func (r *Reconciler) ensureCredentialOwnership(ctx context.Context, s *scope) error {
	secret := metadataOf(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := r.Cache.Get(ctx, types.NamespacedName{Namespace: s.GetNamespace(), Name: jobrunner.CredentialSecretName(s.GetName())}, secret)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("finding the Secret with the credential: %w", err)
	}
	if !secret.DeletionTimestamp.IsZero() || !metav1.IsControlledBy(secret, s) && !s.succeeds(secret) {
		return nil
	}
	before := secret.DeepCopy()
	if finalizer, owner := controllerutil.AddFinalizer(secret, rkev1.MachineFinalizer), s.ensureOwner(secret); !finalizer && !owner {
		return nil
	}
	if err := r.Client.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("restoring the owner and finalizer of the Secret with the credential: %w", err)
	}
	return nil
}

// ensureOwner makes the machine the owner of an object, in the present version of its kind, and
// reports whether it changed the object.
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

// A state Secret can be lost: by a restore without Secrets, or because a user emptied it or removed
// its finalizer. An empty state must not be read as "no server".

// lostCheck is how often the controller checks whether a lost state was restored: a Secret without
// an owner wakes no machine.
const lostCheck = time.Minute

// hadServer reports whether the machine had a server that its state does not record.
func (s *scope) hadServer() bool {
	if !s.state.NothingMade() {
		return false
	}
	last := s.status.LastAttempt
	provisioned := s.status.Initialization.Provisioned
	return provisioned != nil && *provisioned ||
		last != nil && last.Operation == string(state.Create) && last.Outcome == string(state.Succeeded) ||
		// Cluster API copies the provider ID when a server exists; on our machine the user may have
		// set it before.
		s.machine != nil && s.machine.Spec.ProviderID != ""
}

// mayHaveServer also reports true if an earlier attempt may have requested a server and its state
// is lost.
func (s *scope) mayHaveServer() bool {
	if !s.state.NothingMade() {
		return false
	}
	return s.hadServer() || s.state.Lost || s.state.secret == nil && (s.status.Attempts > 0 || s.deleting() && s.ProviderID() != "") ||
		s.restoredWithoutState()
}

// restoredWithoutState reports whether a machine that is being deleted was restored from a backup
// without its state, or before its state: it has our finalizer, but this manager never set it. A
// status from before the machine's creation also came from the backup.
func (s *scope) restoredWithoutState() bool {
	if !s.deleting() || s.state.secret != nil || s.state.takenBy != "" || !controllerutil.ContainsFinalizer(s, rkev1.MachineFinalizer) {
		return false
	}
	after := s.conditions.Get(rkev1.DriverReadyCondition) // the first step after the finalizer
	return after == nil || after.LastTransitionTime.Time.Before(s.GetCreationTimestamp().Time)
}

// A state can exist without its machine: a backup restores the Secrets first, with an owner that
// never existed here, and the garbage collector deletes them. Their finalizer keeps them until the
// machine is restored and takes them over (inherit). They are released only if their namespace is
// being deleted, because the machine cannot be created there any more.

// orphanCheck is how often to check whether the namespace of a state without a machine is being
// deleted.
const orphanCheck = time.Minute

// restoreGrace is how long a credential without a machine waits for its state, and a state without
// a record of a server waits for its machine, because a restore may create these Secrets first.
// After this time they have no use.
const restoreGrace = time.Hour

// releaseUnwatched does the same as releaseOrphan for a machine whose kind is not watched: its CRD
// is gone, or a manager that starts has not seen it yet. No later event would report Secrets that
// were already being deleted. The watch of the kind finds a machine that exists.
func (o Options) releaseUnwatched(ctx context.Context, request Request) error {
	for _, name := range []string{jobrunner.StateSecretName(request.Name), jobrunner.CredentialSecretName(request.Name)} {
		known := metadataOf(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := o.Cache.Get(ctx, types.NamespacedName{Namespace: request.Namespace, Name: name}, known)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("finding the Secret %s of a machine of a kind that is not watched: %w", name, err)
		}
		if err != nil || known.DeletionTimestamp.IsZero() {
			continue
		}
		err = o.Live.Get(ctx, request.NamespacedName, metadataOf(request.Kind))
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return o.releaseOrphan(ctx, request)
		}
		return err
	}
	return nil
}

// releaseOrphan releases the Secrets of a machine that does not exist: all of them if the namespace
// is being deleted, a state that never led to a request for a server, and a credential without a
// state.
func (o Options) releaseOrphan(ctx context.Context, gone Request) error {
	stateKept := false
	for _, name := range []string{jobrunner.StateSecretName(gone.Name), jobrunner.CredentialSecretName(gone.Name)} {
		key := types.NamespacedName{Namespace: gone.Namespace, Name: name}
		known := metadataOf(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := o.Cache.Get(ctx, key, known)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("finding the Secret %s of a deleted machine: %w", name, err)
		}
		owner := metav1.GetControllerOf(known)
		if err != nil || owner != nil && (owner.Kind != gone.Kind.Kind || owner.Name != gone.Name) {
			continue
		}
		stateKept = stateKept || name == jobrunner.StateSecretName(gone.Name)
		if !slices.Contains(known.Finalizers, rkev1.MachineFinalizer) {
			continue
		}
		if err := o.releaseSecret(ctx, gone, key, stateKept); err != nil {
			return err
		}
	}
	return nil
}

// neverAsked reports whether a state shows that a create was started and that no driver was asked
// for a server. A pod that still asks for one first notes this in the state, and cannot do so after
// the state is gone.
func neverAsked(kept state.State) bool {
	return kept.Claimed && kept.Claim.Operation == state.Create && !kept.Lost && kept.NothingMade()
}

// releaseSecret releases one of these Secrets, or waits; stateKept is true if the state is kept.
func (o Options) releaseSecret(ctx context.Context, gone Request, key types.NamespacedName, stateKept bool) error {
	secret := &corev1.Secret{}
	if err := o.Live.Get(ctx, key, secret); err != nil {
		return client.IgnoreNotFound(err)
	}
	kept := state.Read(secret)
	if kept.ServerMayExist() && slices.Contains(secret.Finalizers, rkev1.MachineFinalizer) {
		o.Recorder.Eventf(secret, nil, corev1.EventTypeWarning, rkev1.WaitingForOwnerReason, "Keep", "%s %s does not exist, and this state Secret records its server %s (%s): "+
			"create a machine of this kind and name, which takes over the Secret; to remove the server, delete that machine", gone.Kind.Kind, gone.Name, kept.InstanceName, kept.Server.Value.InstanceID)
	}
	if secret.DeletionTimestamp.IsZero() {
		return nil // an event reports its deletion
	}
	why := "its state Secret does not exist either"
	if key.Name == jobrunner.StateSecretName(gone.Name) && neverAsked(kept) {
		stateKept, why = false, "no server was ever requested for it"
	}
	if end := secret.DeletionTimestamp.Add(restoreGrace); stateKept || o.Clock.Now().Before(end) {
		going, err := o.isTerminating(ctx, gone.Namespace)
		if err != nil {
			return err
		}
		if !going {
			if !stateKept {
				o.Recorder.Eventf(secret, nil, corev1.EventTypeNormal, rkev1.WaitingForOwnerReason, "Keep", "%s %s does not exist, and %s: "+
					"unless a restore creates the missing object, Drover removes the finalizer of this Secret at %s", gone.Kind.Kind, gone.Name, why, end.UTC().Format(time.RFC3339))
			}
			// The deletion of a namespace does not change a Secret that is already being deleted,
			// so no event follows.
			return step.Wait(rkev1.WaitingForOwnerReason, fmt.Sprintf("the Secret %s waits for its machine", key.Name), orphanCheck)
		}
		why = "its namespace is being deleted"
	}
	log.FromContext(ctx).Info("Releasing a Secret whose machine does not exist", "why", why, "secret", key.Name,
		"serverMayExist", kept.ServerMayExist(), "server", kept.InstanceName, "instanceID", kept.Server.Value.InstanceID)
	if _, err := step.DropFinalizer(ctx, o.Client, secret, rkev1.MachineFinalizer); err != nil {
		return fmt.Errorf("releasing the Secret %s of a deleted machine: %w", key.Name, err)
	}
	return nil
}

// isTerminating reports whether a namespace is being deleted. It uses a dry run of a create, which
// fails as a Job's would: reading namespaces is a permission that no other code here needs.
func (o Options) isTerminating(ctx context.Context, namespace string) (bool, error) {
	probe := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "drover-probe-"}}
	err := o.Client.Create(ctx, probe, client.DryRunAll, client.FieldOwner(FieldOwner))
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err) {
		return true, nil
	}
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return false, nil // a quota or a policy
	}
	if err != nil {
		return false, fmt.Errorf("checking whether namespace %s is being deleted: %w", namespace, err)
	}
	return false, nil
}

// strayOwner finds an object above a machine whose owner references all name a UID that does not
// exist: the garbage collector is about to delete that object and all objects below it. The result
// describes the object, and is empty without such an object. Such references come from backups that
// were restored unchanged. An owner of a kind that the manager may not read counts as existing.
func (r *Reconciler) strayOwner(ctx context.Context, obj metav1.Object, kind string, above int) (string, error) {
	const most = 8 // bounds levels, and owners of one object: a user could write references that form a cycle
	owners := obj.GetOwnerReferences()
	if above >= most {
		return "", nil
	}
	missing := ""
	for _, ref := range owners[:min(len(owners), most)] {
		owner := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: ref.APIVersion, Kind: ref.Kind}}
		err := r.Live.Get(ctx, types.NamespacedName{Namespace: obj.GetNamespace(), Name: ref.Name}, owner)
		switch {
		case apierrors.IsForbidden(err):
			return "", nil
		case client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err):
			return "", fmt.Errorf("finding the owner of %s %s: %w", kind, obj.GetName(), err)
		case err == nil && owner.UID == ref.UID:
			return r.strayOwner(ctx, owner, ref.Kind, above+1)
		}
		missing = cmp.Or(missing, fmt.Sprintf("%s %s is owned by %s %s (UID %s), which does not exist", kind, obj.GetName(), ref.Kind, ref.Name, ref.UID))
	}
	return missing, nil
}

// spareRestored keeps the garbage collector from destroying a running server. A raw backup restores
// a machine with an owner reference to a CAPI Machine of another UID. That Machine does not exist,
// so the machine is deleted without a request from a user. A later adoption by Cluster API proves
// nothing, because Cluster API adopts every machine that a CAPI Machine names.
//
// This does not apply to a machine that ever ran here. An ordinary deletion comes from a CAPI
// Machine or Cluster that is being deleted and waits for the machine.
func (r *Reconciler) spareRestored(ctx context.Context, s *scope) error {
	name, uid, owned := s.Owner()
	if !owned || !s.state.inherited && !s.restoredWithoutState() || s.GetAnnotations()[rkev1.RemoveRestoredAnnotation] == s.GetName() {
		return nil
	}
	if s.cluster != nil && !s.cluster.DeletionTimestamp.IsZero() {
		return nil
	}
	was, toKeep, orMachine, err := r.checkOwner(ctx, s.GetNamespace(), name, uid)
	if was == "" || err != nil {
		return err
	}
	if going, err := r.isTerminating(ctx, s.GetNamespace()); going || err != nil {
		return err
	}
	// That its namespace is being deleted wakes no machine that is so already.
	return step.Wait(rkev1.OwnerUnknownReason, fmt.Sprintf("this machine was restored from a backup, and %s. Drover does not change its server, and creates no other server for its Cluster. To keep the server, %s; the Secret %s is kept for it. "+
		"To remove the server, set the annotation %s=%s%s", was, toKeep, jobrunner.StateSecretName(s.GetName()), rkev1.RemoveRestoredAnnotation, s.GetName(), orMachine), orphanCheck)
}

// How to keep a restored machine: alone if a CAPI Machine exists that names it. Otherwise restore
// the whole namespace, because the Machines that Cluster API creates as replacements would conflict
// with the restored ones.
const (
	keepAlone = "remove the finalizer " + rkev1.MachineFinalizer + " from this machine and apply it again without metadata.ownerReferences"
	keepAll   = "restore again: empty the namespace without touching its servers, and apply the backup without metadata.ownerReferences, as docs/dataflow.md describes"
)

// checkOwner returns why the CAPI Machine that owns a machine does not request its removal, how the
// user can keep the machine, and how that Machine could request it; was is empty if it does request
// it.
func (r *Reconciler) checkOwner(ctx context.Context, namespace, name string, uid types.UID) (was, toKeep, orMachine string, err error) {
	owner := &clusterv1.Machine{} // an event wakes the machine when the cache was behind
	err = r.Cache.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, owner)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return "", "", "", fmt.Errorf("reading the CAPI Machine %s: %w", name, err)
	case err == nil && !owner.DeletionTimestamp.IsZero():
		stray, err := r.strayOwner(ctx, owner, "CAPI Machine", 0)
		if stray == "" || err != nil {
			return "", "", "", err
		}
		return stray + ", so the garbage collector deleted the CAPI Machine, and no user did", keepAll, "", nil
	case err == nil && owner.UID == uid:
		return fmt.Sprintf("it was being deleted before the CAPI Machine %s became its owner", name), keepAlone, ", or delete the CAPI Machine", nil
	case err == nil:
		toKeep = keepAlone
	default:
		toKeep = keepAll
	}
	return fmt.Sprintf("the CAPI Machine %s (UID %s) that its owner reference names never existed in this cluster, so the garbage collector deletes the machine", name, uid), toKeep, "", nil
}
