package machine

import (
	"context"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/credential"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// `clusterctl move` takes neither Jobs nor status along, forgets that an object was being deleted, and leaves behind what has
// neither an owner nor its label. It pauses the Cluster and then waits for what carries its annotation. A machine carries that
// until its server is there, its state Secret while the server is being removed: both are written then anyway.

func blocksMove(obj metav1.Object) bool {
	_, ok := obj.GetAnnotations()[rkev1.BlockMoveAnnotation]
	return ok
}

func blockMove(obj metav1.Object) {
	annotations := maps.Clone(obj.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[rkev1.BlockMoveAnnotation] = ""
	obj.SetAnnotations(annotations)
}

func unblockMove(obj metav1.Object) {
	annotations := obj.GetAnnotations()
	delete(annotations, rkev1.BlockMoveAnnotation)
	obj.SetAnnotations(annotations)
}

// awaitJob keeps in the state how the Job of a paused machine ended.
func (r *Reconciler) awaitJob(ctx context.Context, s *scope) error {
	if !s.state.Claimed {
		return nil
	}
	evidence, err := r.gather(ctx, s)
	if err != nil || neverStarted(evidence) {
		return err
	}
	verdict := jobrunner.OutcomeOf(evidence)
	if !verdict.Done {
		return step.Progress(rkev1.JobRunningReason, "a move waits for the Job", s.untilDue(evidence.Pods))
	}
	return r.keepVerdict(ctx, s, evidence, verdict)
}

// allowMove lets a move go on that waits for a machine, as soon as no Job of it runs. Of a paused machine nothing else is brought
// forward; but how its Job ended is kept in the state, for the Job does not move. Nothing is deleted, not even the Job's request:
// the move has listed what there is, and fails when some of it is gone.
func (r *Reconciler) allowMove(ctx context.Context, s *scope) error {
	secret := s.state.secret
	if s.inFallback() || !blocksMove(s) && (secret == nil || !blocksMove(secret)) {
		return nil
	}
	if err := r.awaitJob(ctx, s); err != nil {
		return err
	}
	if blocksMove(s) {
		unblockMove(s)
		if err := r.patch(ctx, s); err != nil {
			return fmt.Errorf("letting a move go on: %w", err)
		}
	}
	if secret = s.state.secret; secret != nil && blocksMove(secret) {
		before := secret.DeepCopy()
		unblockMove(secret)
		if err := r.Client.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("letting a move go on: %w", err)
		}
	}
	return nil
}

// removalBegun reports whether a Job was to remove the server.
func (s *scope) removalBegun() bool {
	return s.state.Claimed && s.state.Claim.Operation == state.Remove
}

// undoneDeletion says what to do with a machine that is not being deleted any more, though its server may be gone. It gets no
// other one: its Machine was to go, and its bootstrap data may have been used up.
func (s *scope) undoneDeletion() error {
	return step.Wait(rkev1.RemovalBegunReason, fmt.Sprintf("the removal of this machine's server was begun, and then a move or a restore forgot that the machine was being deleted: "+
		"delete the CAPI Machine %s again. No other server is made for it", s.machineName()), 0)
}

func (s *scope) machineName() string {
	name, _, _ := s.Owner()
	return name
}

// labelled remembers which Secrets this manager has labelled: its cache is behind, and machines that share a Secret are many.
type labelled struct{ sync.Map }

// takeAlong labels the user's Secrets that a Job was given, so that they are on the other side when a machine is made there. Only
// Secrets of the machine's own namespace, which is what moves, and none that has an owner, with which it moves or stays.
func (r *Reconciler) takeAlong(ctx context.Context, s *scope) error {
	names := []string{s.status.CloudCredentialSecretName}
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
			return fmt.Errorf("looking at the Secret %s: %w", name, err)
		} else if err != nil || len(secret.OwnerReferences) > 0 || metav1.HasLabel(secret.ObjectMeta, rkev1.MoveLabel) {
			continue
		}
		if _, done := r.labelled.LoadOrStore(secret.UID, true); done {
			continue
		}
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"uid":%q,"labels":{%q:""}}}`, secret.UID, rkev1.MoveLabel))
		if err := r.Client.Patch(ctx, secret, patch, client.FieldOwner(FieldOwner)); client.IgnoreNotFound(err) != nil {
			r.labelled.Delete(secret.UID)
			return fmt.Errorf("labelling the Secret %s, so that a move takes it along: %w", name, err)
		}
	}
	return nil
}
