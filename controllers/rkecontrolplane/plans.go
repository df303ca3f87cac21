package rkecontrolplane

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/limit"
	"github.com/drover-project/drover/planner"
)

// planned are the keys of a plan Secret that the planner reads beside the plan; noted are its
// labels and annotations.
var (
	planned = []string{plan.KeyState, plan.KeyMaxFailures, plan.KeyFailureThreshold, plan.KeyAppliedChecksum, plan.KeyFailedChecksum, plan.KeyFailureCount,
		plan.KeyProbeStatuses, plan.KeyAgentStatus, plan.KeyAgentPublicKey}
	noted = []string{clusterv1.ClusterNameLabel, rkev1.InitNodeLabel, rkev1.JoinURLAnnotation, rkev1.JoinedToAnnotation, rkev1.AgentSeenAnnotation, rkev1.AgentServerAnnotation, rkev1.CleansAnnotation,
		rkev1.PlanRetriedAnnotation}
)

// deliveredKey, in memory only, holds the planner's facts about the plan.
const deliveredKey = "delivered"

// largeAnnotation, in memory only, marks a plan Secret whose content is not kept.
const largeAnnotation = "drover.cattle.io/too-large-to-keep"

// A user can create any number of plan Secrets with any content. Content that is not kept is read
// when it is needed.
const (
	maxValue         = 32 << 10 // of one key
	maxOfCluster     = 16 << 20 // of a cluster, at a look
	maxOfNamespace   = 8 << 20  // kept of a namespace
	maxOfAllClusters = 64 << 20 // kept of all
)

// NewPlans makes a cache of the plan Secrets that keeps only the content that the planner reads. It
// does not keep plans, which contain a cluster's keys, or the output of instructions, which may be
// long and contain secrets.
func NewPlans(config *rest.Config, opts cache.Options) (cache.Cache, error) {
	memory := newPlanMemory()
	opts.ByObject = map[client.Object]cache.ByObject{
		&corev1.Secret{}: {Field: fields.OneTermEqualSelector("type", plan.SecretType), Transform: func(in any) (any, error) {
			if secret, ok := in.(*corev1.Secret); ok {
				memory.keep(secret)
			}
			return in, nil
		}},
	}
	made, err := cache.New(config, opts)
	if err != nil {
		return nil, fmt.Errorf("making the cache of plan Secrets: %w", err)
	}
	// It is not started yet: nothing is waited for.
	informer, err := made.GetInformer(context.Background(), &corev1.Secret{}, cache.BlockUntilSynced(false))
	if err == nil {
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: memory.forget})
	}
	if err != nil {
		return nil, fmt.Errorf("watching for deleted plan Secrets: %w", err)
	}
	return made, nil
}

// planMemory has the plan Secrets in the cache. Its quota counts their bytes, so that one namespace
// cannot take the memory of the others.
type planMemory struct {
	mu    sync.Mutex
	kept  map[types.NamespacedName]kept
	quota *limit.Quota[string, types.NamespacedName]
	// decode is planner.NewDelivered. Only one goroutine transforms the plan Secrets of all
	// tenants, so that it must not decode a plan that it has decoded before.
	decode func(raw []byte) *planner.Delivered
}

// kept is a plan Secret in the cache.
type kept struct {
	// checksum of its plan, and the planner's facts about that plan, as JSON.
	checksum  string
	delivered []byte
}

func newPlanMemory() *planMemory {
	return &planMemory{kept: map[types.NamespacedName]kept{}, decode: planner.NewDelivered,
		quota: limit.NewQuota[string, types.NamespacedName](maxOfNamespace, maxOfAllClusters)}
}

// keep drops the parts of a plan Secret that the planner does not read, or all of it if its
// namespace has no bytes left. At its start, an informer transforms each object twice.
func (m *planMemory) keep(secret *corev1.Secret) {
	if _, dropped := secret.Annotations[largeAnnotation]; dropped && len(secret.Data) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	name := client.ObjectKeyFromObject(secret)
	before := m.kept[name]
	raw, delivered := secret.Data[plan.KeyPlan], secret.Data[deliveredKey]
	if !bytes.Equal(delivered, before.delivered) { // a tenant wrote this key
		delivered = nil
	}
	shrink(secret)
	size := sizeOf(secret) + len(delivered)
	if len(raw) > 0 {
		size += planner.MaxDeliveredBytes // so that a Secret that will be dropped is not decoded first
	}
	if !m.quota.Set(name.Namespace, name, size) {
		m.quota.Delete(name)
		delete(m.kept, name)
		secret.Data, secret.Annotations = nil, map[string]string{largeAnnotation: ""}
		return
	}
	is := kept{checksum: before.checksum, delivered: delivered}
	if len(raw) > 0 {
		is = before
		if checksum := plan.Checksum(raw); checksum != before.checksum {
			is = kept{checksum: checksum, delivered: encodeDelivered(m.decode(raw))}
		}
	}
	if len(is.delivered) > 0 {
		secret.Data[deliveredKey] = is.delivered
	}
	m.kept[name] = is
	m.quota.Set(name.Namespace, name, sizeOf(secret)) // it fits: it is at most the size before
}

// forget gives a Secret's bytes back.
func (m *planMemory) forget(obj any) {
	if unseen, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unseen.Obj
	}
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	name := client.ObjectKeyFromObject(secret)
	m.quota.Delete(name)
	delete(m.kept, name)
}

func sizeOf(secret *corev1.Secret) int {
	size := 0
	for _, value := range secret.Data {
		size += len(value)
	}
	for _, value := range secret.Annotations {
		size += len(value)
	}
	return size
}

// shrink leaves the parts of a plan Secret that the planner reads beside the plan. A value that is
// too long is dropped: our agent writes no such value.
func shrink(secret *corev1.Secret) {
	var owners []metav1.OwnerReference
	if owner := metav1.GetControllerOf(secret); owner != nil {
		owners = append(owners, *owner)
	}
	data := only(secret.Data, planned)
	if status, err := plan.DecodeAgentStatus(data[plan.KeyAgentStatus]); err == nil && status.Output != "" {
		status.Output = ""
		data[plan.KeyAgentStatus], _ = json.Marshal(status) // texts and numbers are always encoded
	}
	maps.DeleteFunc(data, func(_ string, value []byte) bool { return len(value) > maxValue })
	secret.ManagedFields = nil
	secret.Finalizers = nil
	secret.OwnerReferences = owners
	secret.Labels = only(secret.Labels, noted)
	secret.Annotations = only(secret.Annotations, noted)
	secret.Data = data
	maps.DeleteFunc(secret.Annotations, func(_, value string) bool { return len(value) > maxValue })
}

// planChanged reports whether the planner may decide otherwise because a plan Secret of the cache
// changed. A resync has the same version. Nothing is known of a Secret that was dropped.
func planChanged(was, is *corev1.Secret) bool {
	if _, dropped := is.Annotations[largeAnnotation]; dropped || was.ResourceVersion == is.ResourceVersion {
		return true
	}
	was, is = was.DeepCopy(), is.DeepCopy()
	was.ResourceVersion = is.ResourceVersion
	return !equality.Semantic.DeepEqual(was, is)
}

// only returns a new map with these keys: deleting the other keys would keep their memory.
func only[V any](all map[string]V, keys []string) map[string]V {
	left := map[string]V{}
	for _, key := range keys {
		if value, there := all[key]; there {
			left[key] = value
		}
	}
	return left
}

// encodeDelivered is the value of deliveredKey.
func encodeDelivered(delivered *planner.Delivered) []byte {
	if delivered == nil {
		return nil
	}
	raw, _ := json.Marshal(delivered) // texts are always encoded
	return raw
}

// deliveredTo returns the known facts about the plan in a plan Secret.
func deliveredTo(secret *corev1.Secret) *planner.Delivered {
	raw := secret.Data[deliveredKey]
	if len(raw) == 0 {
		return nil
	}
	delivered := &planner.Delivered{}
	if err := json.Unmarshal(raw, delivered); err != nil {
		delivered.Broken = err.Error() // it was encoded by encodeDelivered
	}
	return delivered
}

// planSecrets are the plan Secrets of the cluster by the name of their RKEBootstrap.
func (r *Reconciler) planSecrets(ctx context.Context, s *scope) (map[string]*corev1.Secret, error) {
	list, live := &corev1.SecretList{}, r.Plans == nil
	plans := r.Plans
	if live {
		plans = r.Reader
	}
	if err := plans.List(ctx, list, client.InNamespace(s.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: s.cluster.Name}); err != nil {
		return nil, fmt.Errorf("reading the plan Secrets: %w", err)
	}
	found, size := map[string]*corev1.Secret{}, 0
	for i := range list.Items {
		one := &list.Items[i]
		owner := metav1.GetControllerOf(one)
		if one.Type != plan.SecretType || owner == nil || owner.Kind != "RKEBootstrap" || one.Name != plan.SecretName(owner.Name) {
			continue
		}
		_, dropped := one.Annotations[largeAnnotation]
		if dropped {
			*one = corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: one.Namespace, Name: one.Name}}
			if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(one), one); err != nil {
				return nil, fmt.Errorf("reading the plan Secret %s: %w", one.Name, err)
			}
		}
		if dropped || live {
			delivered := encodeDelivered(planner.NewDelivered(one.Data[plan.KeyPlan]))
			shrink(one)
			if len(delivered) > 0 {
				one.Data[deliveredKey] = delivered
			}
		}
		if size += sizeOf(one); size > maxOfCluster {
			return nil, step.Stall(rkev1.PlansExceededReason, fmt.Errorf("the data that the manager keeps of the plan Secrets of the cluster's machines exceeds %d bytes", maxOfCluster))
		}
		found[owner.Name] = one
	}
	return found, nil
}
