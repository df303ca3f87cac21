package rkecontrolplane

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/rkecontrolplane/authorities"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/planner"
)

// stateSuffix of the name of <control plane>-rke-state.
const stateSuffix = "-rke-state"

// Keys of <control plane>-rke-state. The first two are Rancher's.
const (
	serverTokenKey = "serverToken"
	agentTokenKey  = "agentToken"
	// bootstrappedKey exists after a server has created the cluster, and holds its machine's ID:
	// from then on, the data is only on the etcd machines.
	bootstrappedKey = "bootstrapped"
)

// ensureSecrets creates the cluster's tokens, once. Like its authorities they are created before
// the first plan is delivered. A token that is lost after that is not replaced, because the
// cluster's servers have the old one.
func (r *Reconciler) ensureSecrets(ctx context.Context, s *scope) error {
	name := s.Name + stateSuffix
	var err error
	s.state, err = r.ensureSecret(ctx, s, name, s.hasBegun(), func() (corev1.SecretType, map[string][]byte, error) {
		tokens := map[string][]byte{}
		for _, key := range []string{serverTokenKey, agentTokenKey} {
			tokens[key] = []byte(strings.ToLower(rand.Text() + rand.Text()))
		}
		return rkev1.ClusterStateSecretType, tokens, nil
	})
	if err != nil {
		return err
	}
	if len(s.state.Data[serverTokenKey]) == 0 || len(s.state.Data[agentTokenKey]) == 0 {
		return step.Stall(rkev1.ClusterSecretMissingReason, fmt.Errorf("the Secret %s has no %s or no %s", name, serverTokenKey, agentTokenKey))
	}
	s.snapshot.Tokens = planner.Tokens{Server: string(s.state.Data[serverTokenKey]), Agent: string(s.state.Data[agentTokenKey]), Secret: name}
	s.snapshot.MadeBy = string(s.state.Data[bootstrappedKey])
	s.snapshot.Bootstrapped = s.snapshot.MadeBy != ""
	if s.state.CreationTimestamp.Before(&s.cluster.CreationTimestamp) {
		s.snapshot.OlderState = name
	}
	return nil
}

// ensureAuthorities makes the cluster's authorities, once.
func (r *Reconciler) ensureAuthorities(ctx context.Context, s *scope) error {
	begun := s.hasBegun() || s.snapshot.Bootstrapped
	for _, purpose := range authorities.Purposes {
		name := secret.Name(s.cluster.Name, purpose)
		found, err := r.ensureSecret(ctx, s, name, begun, func() (corev1.SecretType, map[string][]byte, error) {
			data, err := authorities.New(s.cluster.Name, purpose, r.Clock.Now())
			return clusterv1.ClusterSecretType, data, err
		})
		if err != nil {
			return err
		}
		if err := authorities.Check(purpose, found.Data, r.Clock.Now()); err != nil {
			return step.Stall(rkev1.AuthorityInvalidReason, fmt.Errorf("the Secret %s cannot be used: %w", name, err))
		}
		authorities.Put(&s.snapshot.Authorities, purpose, found.Data)
	}
	return nil
}

// hasBegun reports whether a server may have the cluster's authorities and tokens, judged by all
// evidence except the cluster's Secrets.
func (s *scope) hasBegun() bool {
	if s.Annotations[rkev1.BootstrappedAnnotation] == s.Name {
		return true
	}
	for _, one := range s.plans {
		if len(one.Data[deliveredKey]) > 0 {
			return true
		}
	}
	// No server is made before its plan Secret.
	return slices.ContainsFunc(s.members, func(m member) bool { return m.plan == nil && m.Spec.ProviderID != "" && planner.RolesOf(m.Labels).Etcd })
}

// ensureSecret reads a Secret of the cluster, or creates it.
func (r *Reconciler) ensureSecret(ctx context.Context, s *scope, name string, begun bool, content func() (corev1.SecretType, map[string][]byte, error)) (*corev1.Secret, error) {
	found, err := r.known.get(ctx, r.Cache, r.Reader, client.ObjectKey{Namespace: s.Namespace, Name: name})
	if err == nil {
		return found, errors.Join(r.adopt(ctx, s, found), r.takeAlong(ctx, found))
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	if begun {
		return nil, step.Stall(rkev1.ClusterSecretMissingReason, errors.New("the Secret "+name+", which the cluster was created with, does not exist"))
	}
	kind, data, err := content()
	if err != nil {
		return nil, fmt.Errorf("making Secret %s: %w", name, err)
	}
	made := &corev1.Secret{ObjectMeta: r.meta(s, name), Type: kind, Data: data}
	// Create, not apply: a Secret that a user created in between is the user's.
	if err := r.Client.Create(ctx, made, client.FieldOwner(fieldOwner)); err != nil {
		return nil, fmt.Errorf("making Secret %s: %w", name, err)
	}
	return made, nil
}

// adopt makes the control plane the owner of a Secret that it created and that has lost its owner,
// for example in a backup. The Secret then ends with its cluster, and the next cluster of that name
// does not use it. Secrets of users have another type, as in all of Cluster API.
func (r *Reconciler) adopt(ctx context.Context, s *scope, found *corev1.Secret) error {
	ours := found.Type == clusterv1.ClusterSecretType || found.Type == rkev1.ClusterStateSecretType
	if !ours || metav1.GetControllerOf(found) != nil || found.Labels[clusterv1.ClusterNameLabel] != s.cluster.Name {
		return nil
	}
	before := found.DeepCopy()
	found.OwnerReferences = append(found.OwnerReferences, r.meta(s, found.Name).OwnerReferences...)
	if err := r.Client.Patch(ctx, found, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("adopting Secret %s again: %w", found.Name, err)
	}
	return nil
}

// takeAlong labels an object of the user that has no owner, so that clusterctl moves it.
func (r *Reconciler) takeAlong(ctx context.Context, obj client.Object) error {
	if _, labelled := obj.GetLabels()[rkev1.MoveLabel]; labelled || len(obj.GetOwnerReferences()) > 0 {
		return nil
	}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"uid":%q,"labels":{%q:""}}}`, obj.GetUID(), rkev1.MoveLabel))
	copied, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return nil
	}
	if err := r.Client.Patch(ctx, copied, patch, client.FieldOwner(fieldOwner)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("labelling %s for a move: %w", obj.GetName(), err)
	}
	return nil
}

func (r *Reconciler) meta(s *scope, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.Namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: s.cluster.Name},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.RKEControlPlane, rkev1.GroupVersion.WithKind("RKEControlPlane"))}}
}

// rememberBootstrapped records which machine created the cluster. Unlike status, the Secret is part
// of a move.
func (r *Reconciler) rememberBootstrapped(ctx context.Context, s *scope, machineID string) error {
	if s.snapshot.Bootstrapped {
		return nil
	}
	before := s.state.DeepCopy()
	s.state.Data[bootstrappedKey] = []byte(machineID)
	if err := r.Client.Patch(ctx, s.state, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("writing Secret %s: %w", s.state.Name, err)
	}
	s.snapshot.Bootstrapped, s.snapshot.MadeBy = true, machineID
	return nil
}

// markBootstrapped also records outside of the Secrets that a server has created the cluster: if a
// backup restores the Secrets last, no new ones may be created. The mark requires that the API
// answers, because the Secrets alone may come from an earlier cluster of that name.
func (r *Reconciler) markBootstrapped(ctx context.Context, s *scope) error {
	if !s.snapshot.Bootstrapped || !meta.IsStatusConditionTrue(s.Status.Conditions, rkev1.AvailableCondition) || s.Annotations[rkev1.BootstrappedAnnotation] == s.Name {
		return nil
	}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, s.UID, rkev1.BootstrappedAnnotation, s.Name))
	if err := r.Client.Patch(ctx, s.RKEControlPlane, patch, client.FieldOwner(fieldOwner)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("recording that the cluster exists: %w", err)
	}
	return nil
}

// known caches the Secrets that every reconcile of a cluster needs. The metadata in the manager's
// cache show when one has changed.
type known struct {
	mu      sync.Mutex
	secrets map[types.UID]*corev1.Secret
}

// maxKnown bounds the number of Secrets, and maxKnownBytes the size of each.
const (
	maxKnown      = 10_000
	maxKnownBytes = 16 << 10
)

// get reads a Secret if it has changed since the last read.
func (k *known) get(ctx context.Context, cached, live client.Reader, name client.ObjectKey) (*corev1.Secret, error) {
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := cached.Get(ctx, name, metadata); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	k.mu.Lock()
	found := k.secrets[metadata.UID]
	k.mu.Unlock()
	if found != nil && found.ResourceVersion == metadata.ResourceVersion {
		return found.DeepCopy(), nil
	}
	found = &corev1.Secret{}
	if err := live.Get(ctx, name, found); err != nil {
		return nil, err
	}
	if found.Size() > maxKnownBytes {
		return found, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.secrets == nil || len(k.secrets) >= maxKnown {
		k.secrets = map[types.UID]*corev1.Secret{}
	}
	k.secrets[found.UID] = found.DeepCopy()
	return found, nil
}
