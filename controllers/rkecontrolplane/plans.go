package rkecontrolplane

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// planned are the keys of a plan Secret that the planner reads, noted its labels and annotations.
var (
	planned = []string{plan.KeyPlan, plan.KeyState, plan.KeyMaxFailures, plan.KeyFailureThreshold, plan.KeyAppliedChecksum, plan.KeyFailedChecksum,
		plan.KeyFailureCount, plan.KeyProbeStatuses, plan.KeyAgentStatus}
	noted = []string{clusterv1.ClusterNameLabel, rkev1.InitNodeLabel, rkev1.JoinURLAnnotation, rkev1.JoinedToAnnotation, largeAnnotation}
)

// maxKept is how many bytes of one plan Secret stay in memory. A user may make as many as he likes; what is larger is read when it is needed.
const maxKept = 96 << 10

// largeAnnotation, in memory only, marks a plan Secret whose data is not kept.
const largeAnnotation = "drover.cattle.io/too-large-to-keep"

// NewPlans makes a cache of the plan Secrets with what the planner reads of them, and of no other Secret. Output of instructions, which may be
// long and hold secrets, is not kept.
func NewPlans(config *rest.Config, opts cache.Options) (cache.Cache, error) {
	opts.ByObject = map[client.Object]cache.ByObject{
		&corev1.Secret{}: {Field: fields.OneTermEqualSelector("type", plan.SecretType), Transform: func(in any) (any, error) {
			if secret, ok := in.(*corev1.Secret); ok {
				keep(secret)
			}
			return in, nil
		}},
	}
	made, err := cache.New(config, opts)
	if err != nil {
		return nil, fmt.Errorf("making the cache of plan Secrets: %w", err)
	}
	return made, nil
}

// keep drops what nobody reads.
func keep(secret *corev1.Secret) {
	shrink(secret)
	size := 0
	for _, value := range secret.Data {
		size += len(value)
	}
	for _, value := range secret.Annotations {
		size += len(value)
	}
	if size > maxKept {
		secret.Data, secret.Annotations = nil, nil
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, largeAnnotation, "")
	}
}

func shrink(secret *corev1.Secret) {
	var owners []metav1.OwnerReference
	if owner := metav1.GetControllerOf(secret); owner != nil {
		owners = append(owners, *owner)
	}
	secret.ManagedFields, secret.Finalizers, secret.OwnerReferences = nil, nil, owners
	secret.Labels, secret.Annotations, secret.Data = only(secret.Labels, noted), only(secret.Annotations, noted), only(secret.Data, planned)
}

// only is a map of its own with these keys: one from which the others were deleted would keep their room.
func only[V any](all map[string]V, keys []string) map[string]V {
	left := map[string]V{}
	for _, key := range keys {
		if value, there := all[key]; there {
			left[key] = value
		}
	}
	return left
}

// planSecrets are the plan Secrets of the cluster by the name of their RKEBootstrap.
func (r *Reconciler) planSecrets(ctx context.Context, s *scope) (map[string]*corev1.Secret, error) {
	list := &corev1.SecretList{}
	if err := r.Plans.List(ctx, list, client.InNamespace(s.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: s.cluster.Name}); err != nil {
		return nil, fmt.Errorf("reading the plan Secrets: %w", err)
	}
	found := map[string]*corev1.Secret{}
	for i := range list.Items {
		one := &list.Items[i]
		owner := metav1.GetControllerOf(one)
		if one.Type != plan.SecretType || owner == nil || owner.Kind != "RKEBootstrap" {
			continue
		}
		if _, large := one.Annotations[largeAnnotation]; large {
			if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(one), one); err != nil {
				return nil, fmt.Errorf("reading the plan Secret %s: %w", one.Name, err)
			}
			shrink(one)
		}
		found[owner.Name] = one
	}
	return found, nil
}
