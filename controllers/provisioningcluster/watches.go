package provisioningcluster

import (
	"context"
	"fmt"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v3 "github.com/drover-project/drover/api/management/v3"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/limit/fairqueue"
)

// configIndex indexes Clusters by the Configs that their pools name: kind/name and kind.
const configIndex = "drover.configs"

// Register adds the controller to a manager, whose scheme must know the kinds of CAPI, rke.cattle.io
// and provisioning.cattle.io.
func (r *Reconciler) Register(ctx context.Context, mgr manager.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &provv1.Cluster{}, configIndex, configsOf); err != nil {
		return fmt.Errorf("indexing provisioning Clusters: %w", err)
	}
	workers := max(r.Workers, 1)
	wake := handler.EnqueueRequestsFromMapFunc
	edited := predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}, deletion)
	made, err := builder.ControllerManagedBy(mgr).Named("provisioningcluster").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: fairqueue.New(workers)}).
		For(&provv1.Cluster{}, builder.WithPredicates(predicate.Or[client.Object](edited, named))).
		Watches(&clusterv1.Cluster{}, wake(ofNamesake), builder.WithPredicates(edited)).
		Watches(&rkev1.RKEControlPlane{}, wake(ofRendered)).
		Watches(&rkev1.RKECluster{}, wake(ofRendered), builder.WithPredicates(edited)).
		Watches(&rkev1.RKEBootstrapTemplate{}, wake(ofRendered), builder.WithPredicates(edited)).
		Watches(&clusterv1.MachineDeployment{}, wake(ofRendered)).
		Watches(&v3.NodeDriver{}, wake(r.ofDriver), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.MachineSet{}, wake(ofRendered), builder.WithPredicates(resized)).
		Watches(&clusterv1.Machine{}, wake(ofRendered), builder.WithPredicates(deletionStep)).
		Watches(&clusterv1.MachineHealthCheck{}, wake(ofRendered), builder.WithPredicates(edited)).
		WatchesMetadata(&apiextensionsv1.CustomResourceDefinition{}, wake(r.ofKind)).
		Build(r)
	if err != nil {
		return fmt.Errorf("adding the controller of provisioning Clusters: %w", err)
	}
	watched := &kinds{known: map[schema.GroupVersionKind]bool{}}
	r.watchKind = func(gvk schema.GroupVersionKind) error {
		return watched.once(gvk, func() error {
			kind := &unstructured.Unstructured{}
			kind.SetGroupVersionKind(gvk)
			to := ofRendered
			if gvk.Group == rkev1.MachineConfigGroupVersion.Group {
				to = r.ofConfig
			}
			return made.Watch(source.Kind(mgr.GetCache(), client.Object(kind), wake(to), edited))
		})
	}
	return nil
}

// deletion passes the start of a deletion.
var deletion = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
}}

// resized passes changes of the number of machines of a MachineSet.
var resized = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	was, wasSet := e.ObjectOld.(*clusterv1.MachineSet)
	is, isSet := e.ObjectNew.(*clusterv1.MachineSet)
	return wasSet && isSet && (!ptr.Equal(was.Spec.Replicas, is.Spec.Replicas) || !ptr.Equal(was.Status.Replicas, is.Status.Replicas))
}}

// deletionStep passes the steps of a Machine's deletion.
var deletionStep = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool { return deletionStepOf(e.ObjectOld) != deletionStepOf(e.ObjectNew) },
}

func deletionStepOf(obj client.Object) string {
	machine, ok := obj.(*clusterv1.Machine)
	if !ok {
		return ""
	}
	return ptr.Deref(meta.FindStatusCondition(machine.Status.Conditions, clusterv1.MachineDeletingCondition), metav1.Condition{}).Reason
}

// named passes a change of the management Cluster's name, which is rendered.
var named = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	was, wasCluster := e.ObjectOld.(*provv1.Cluster)
	is, isCluster := e.ObjectNew.(*provv1.Cluster)
	return wasCluster && isCluster && was.Status.ClusterName != is.Status.ClusterName
}}

// kinds are the drivers' kinds that are watched.
type kinds struct {
	mu    sync.Mutex
	known map[schema.GroupVersionKind]bool
}

func (k *kinds) once(gvk schema.GroupVersionKind, start func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known[gvk] {
		return nil
	}
	if err := start(); err != nil {
		return fmt.Errorf("watching %s: %w", gvk.Kind, err)
	}
	k.known[gvk] = true
	return nil
}

func configsOf(obj client.Object) []string {
	cluster, ok := obj.(*provv1.Cluster)
	if !ok || cluster.Spec.RKEConfig == nil {
		return nil
	}
	var keys []string
	for _, pool := range cluster.Spec.RKEConfig.MachinePools {
		ref := pool.MachineConfigRef
		keys = append(keys, strings.ToLower(ref.Kind), ref.Kind+"/"+ref.Name)
	}
	return keys
}

// ofNamesake wakes the Cluster of the name: it may wait for the CAPI Cluster, or for the end of
// another's.
func ofNamesake(_ context.Context, obj client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(obj)}}
}

// ofRendered maps a rendered object to its Cluster.
func ofRendered(_ context.Context, obj client.Object) []reconcile.Request {
	name := obj.GetLabels()[rkev1.ClusterNameLabel]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
}

// ofConfig maps a Config to the Clusters that name it.
func (r *Reconciler) ofConfig(ctx context.Context, obj client.Object) []reconcile.Request {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	return r.naming(ctx, kind+"/"+obj.GetName(), client.InNamespace(obj.GetNamespace()))
}

// ofKind maps the CRD of a kind of Configs, or of its machine templates, to the Clusters that name a
// Config of it.
func (r *Reconciler) ofKind(ctx context.Context, crd client.Object) []reconcile.Request {
	plural, group, _ := strings.Cut(crd.GetName(), ".")
	if driver, isTemplate := strings.CutSuffix(plural, "machinetemplates"); isTemplate && group == rkev1.MachineGroupVersion.Group {
		return r.naming(ctx, driver+"config")
	}
	if group != rkev1.MachineConfigGroupVersion.Group {
		return nil
	}
	return r.naming(ctx, strings.TrimSuffix(plural, "s"))
}

// ofDriver maps a NodeDriver to the Clusters that name a Config of it.
func (r *Reconciler) ofDriver(ctx context.Context, obj client.Object) []reconcile.Request {
	driver, ok := obj.(*v3.NodeDriver)
	if !ok {
		return nil
	}
	return r.naming(ctx, strings.ToLower(crdgen.KindsOf(driver.DriverName()).Config))
}

func (r *Reconciler) naming(ctx context.Context, key string, opts ...client.ListOption) []reconcile.Request {
	clusters := &provv1.ClusterList{}
	if err := r.Client.List(ctx, clusters, append(opts, client.MatchingFields{configIndex: key})...); err != nil {
		return nil // the cache is being stopped
	}
	requests := make([]reconcile.Request, len(clusters.Items))
	for i := range clusters.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&clusters.Items[i])
	}
	return requests
}
