package machine

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	managementv3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/jobrunner"
)

// ofMachine maps an object to the machine that controls it.
func ofMachine(obj metav1.Object) []Request {
	owner := metav1.GetControllerOf(obj)
	if owner == nil {
		return nil
	}
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil || group.Group != rkev1.MachineGroupVersion.Group {
		return nil
	}
	return []Request{{Kind: rkev1.MachineGroupVersion.WithKind(owner.Kind),
		NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: owner.Name}}}
}

// ofOwnerless maps a state Secret that lost its owner, for example in a restore, to the machine in
// its name.
func ofOwnerless(secret metav1.Object) []Request {
	driver := secret.GetLabels()[rkev1.NodeDriverLabel]
	if driver == "" || metav1.GetControllerOf(secret) != nil || !slices.Contains(secret.GetFinalizers(), rkev1.MachineFinalizer) {
		return nil
	}
	for _, suffix := range []string{"-machine-state", "-machine-credential"} {
		if machine, ok := strings.CutSuffix(secret.GetName(), suffix); ok {
			return []Request{{Kind: rkev1.MachineGroupVersion.WithKind(crdgen.KindsOf(driver).Machine),
				NamespacedName: types.NamespacedName{Namespace: secret.GetNamespace(), Name: machine}}}
		}
	}
	return nil
}

// ofJob maps a Job to its machine in any namespace.
func (c *Controller) ofJob(_ context.Context, job *batchv1.Job) []Request {
	return append(ofMachine(job), c.watchIndex.in(watchKey{kind: "Job", name: client.ObjectKeyFromObject(job)})...)
}

// ofPod maps a pod to the machine that last read its Job's pods, and found none or a held-up one. A
// pod can be mapped to its machine only by the UID, because its Job may be gone, and may run in
// another namespace than the machine's.
func (c *Controller) ofPod(_ context.Context, pod *corev1.Pod) []Request {
	return c.watchIndex.in(watchKey{kind: "Pod", uid: types.UID(pod.Labels[rkev1.MachineUIDLabel])})
}

// ofSecret maps a state Secret to its machine, and every other Secret to the machines that wait for
// it.
func (c *Controller) ofSecret(_ context.Context, secret *metav1.PartialObjectMetadata) []Request {
	return append(append(ofMachine(secret), ofOwnerless(secret)...), c.watchIndex.in(watchKey{kind: "Secret", name: client.ObjectKeyFromObject(secret)})...)
}

// ofNodeDriver maps a NodeDriver to the machines that asked for it and have no server yet.
func (c *Controller) ofNodeDriver(_ context.Context, d *managementv3.NodeDriver) []Request {
	return c.watchIndex.in(watchKey{kind: "NodeDriver", name: types.NamespacedName{Name: d.DriverName()}})
}

// ofCAPIMachine maps a CAPI Machine to its infrastructure.
func ofCAPIMachine(_ context.Context, m *clusterv1.Machine) []Request {
	ref := m.Spec.InfrastructureRef
	if ref.APIGroup != rkev1.MachineGroupVersion.Group {
		return nil
	}
	return []Request{{Kind: rkev1.MachineGroupVersion.WithKind(ref.Kind),
		NamespacedName: types.NamespacedName{Namespace: m.Namespace, Name: ref.Name}}}
}

// ofCluster maps a Cluster to the infrastructure of all its Machines, and to machines whose CAPI
// Machine is gone.
func (c *Controller) ofCluster(ctx context.Context, cluster *clusterv1.Cluster) []Request {
	machines := &clusterv1.MachineList{}
	err := c.options.Cache.List(ctx, machines, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name})
	if err != nil {
		return nil // the cache is being stopped
	}
	requests := c.watchIndex.in(watchKey{kind: "Cluster", name: client.ObjectKeyFromObject(cluster)})
	for i := range machines.Items {
		requests = append(requests, ofCAPIMachine(ctx, &machines.Items[i])...)
	}
	return requests
}

// updates lets pass of updates those that change something; all else that happens passes.
func updates[T client.Object](changed func(was, is T) bool) predicate.TypedFuncs[T] {
	return predicate.TypedFuncs[T]{UpdateFunc: func(e event.TypedUpdateEvent[T]) bool { return changed(e.ObjectOld, e.ObjectNew) }}
}

// changed passes all changes except changes of the status, which are our own. It also passes a
// machine that becomes this manager's, or another's.
func (o Options) changed() predicate.TypedPredicate[*metav1.PartialObjectMetadata] {
	return updates(func(was, is *metav1.PartialObjectMetadata) bool {
		return was.Generation != is.Generation || was.ResourceVersion == is.ResourceVersion ||
			!was.DeletionTimestamp.Equal(is.DeletionTimestamp) ||
			!equality.Semantic.DeepEqual(was.Annotations, is.Annotations) ||
			!equality.Semantic.DeepEqual(was.OwnerReferences, is.OwnerReferences) ||
			!slices.Equal(was.Finalizers, is.Finalizers) || o.watched(was) != o.watched(is)
	})
}

// jobChanges passes the start and the end of a Job and of its deletion, not each change of its
// counts. It passes the creation of a Job's pod if the machine may have reported that it is
// missing.
func (o Options) jobChanges() predicate.TypedPredicate[*batchv1.Job] {
	return updates(func(was, is *batchv1.Job) bool {
		late := was.Status.Active == 0 && is.Status.Active > 0 && o.Clock.Since(is.CreationTimestamp.Time) >= jobrunner.PodGrace
		return late || jobrunner.JobEnded(was) != jobrunner.JobEnded(is) || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero()
	})
}

// podChanges passes a change of the reason why a pod is held up, and the end of a pod. The start of
// a pod is not passed.
func podChanges() predicate.TypedPredicate[*corev1.Pod] {
	only := updates(func(was, is *corev1.Pod) bool { return podStateOf(was) != podStateOf(is) })
	only.CreateFunc = func(e event.TypedCreateEvent[*corev1.Pod]) bool { return podStateOf(e.Object) != podState{} }
	return only
}

// podState is the part of a pod's status that concerns a machine.
type podState struct {
	reason, message string
	ended           bool
}

func podStateOf(pod *corev1.Pod) podState {
	turn := podState{ended: pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed}
	if !turn.ended {
		turn.reason, turn.message = jobrunner.HeldUp(pod)
	}
	return turn
}

// clusterChanges passes the changes of a Cluster for which machines wait.
func clusterChanges() predicate.TypedPredicate[*clusterv1.Cluster] {
	return updates(func(was, is *clusterv1.Cluster) bool {
		return !equality.Semantic.DeepEqual(was.Spec.Paused, is.Spec.Paused) ||
			!equality.Semantic.DeepEqual(was.Annotations, is.Annotations) ||
			!equality.Semantic.DeepEqual(was.Status.Initialization.InfrastructureProvisioned, is.Status.Initialization.InfrastructureProvisioned)
	})
}

// deletionChanges passes a change in the hooks or the progress of a CAPI Machine's deletion.
func deletionChanges() predicate.TypedPredicate[*clusterv1.Machine] {
	return updates(func(was, is *clusterv1.Machine) bool {
		return hooksOf(was) != hooksOf(is) || serverIsDue(was) != serverIsDue(is)
	})
}

// watchIndex remembers which machines wait for which objects, so that an event about a Secret or a
// driver wakes only these machines. Its zero value is empty. It is rebuilt after a restart, because
// every machine is then reconciled once.
//
// A machine notes its interest before it reads the object: a later change wakes it, and the read
// sees an earlier change.
type watchIndex struct {
	mu        sync.Mutex
	byKey     map[watchKey]map[Request]bool
	byRequest map[Request][]watchKey
}

// watchKey identifies an object for which a machine waits: by its kind and name, or by a UID for
// the pods of a machine's Jobs in any namespace. A CAPI Machine's Node is identified by its Cluster
// and the UID of the CAPI Machine; an empty UID stands for the connection to the cluster.
type watchKey struct {
	kind string
	name types.NamespacedName
	uid  types.UID
}

func (i *watchIndex) note(request Request, key watchKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.byKey == nil {
		i.byKey, i.byRequest = map[watchKey]map[Request]bool{}, map[Request][]watchKey{}
	}
	if i.byKey[key] == nil {
		i.byKey[key] = map[Request]bool{}
	}
	if !i.byKey[key][request] {
		i.byKey[key][request] = true
		i.byRequest[request] = append(i.byRequest[request], key)
	}
}

func (i *watchIndex) forget(request Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, key := range i.byRequest[request] {
		delete(i.byKey[key], request)
		if len(i.byKey[key]) == 0 {
			delete(i.byKey, key)
		}
	}
	delete(i.byRequest, request)
}

func (i *watchIndex) in(key watchKey) []Request {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Collect(maps.Keys(i.byKey[key]))
}

// watched reports whether a machine is this manager's to work on.
func (o Options) watched(machine metav1.Object) bool {
	return o.WatchFilter == "" || machine.GetLabels()[clusterv1.WatchLabel] == o.WatchFilter
}

// watches lets pass what happens to machines that are, or were until now, this manager's.
func (o Options) watches() predicate.TypedPredicate[*metav1.PartialObjectMetadata] {
	only := predicate.NewTypedPredicateFuncs(func(machine *metav1.PartialObjectMetadata) bool { return o.watched(machine) })
	only.UpdateFunc = func(e event.TypedUpdateEvent[*metav1.PartialObjectMetadata]) bool {
		return o.watched(e.ObjectOld) || o.watched(e.ObjectNew)
	}
	return only
}
