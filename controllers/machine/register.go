package machine

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	managementv3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// Register adds the controller to a manager, whose scheme must know CAPI's, Drover's and apiextensions' kinds.
func (c *Controller) Register(mgr manager.Manager) error {
	machines, err := controller.NewTyped("drover-machine", mgr, controller.TypedOptions[Request]{
		Reconciler: c, MaxConcurrentReconciles: c.options.Workers})
	if err != nil {
		return fmt.Errorf("making the machine controller: %w", err)
	}
	c.watch = func(gvk schema.GroupVersionKind) error {
		return machines.Watch(kindSource(mgr.GetCache(), metadataOf(gvk), ofKind(gvk), c.options.watches(), predicate.Or(changed(), c.options.handedOver())))
	}
	c.stop = stopWith(mgr.GetCache())
	for _, s := range append(c.sources(mgr.GetCache()), c.nodes(), c.called()) {
		if err := machines.Watch(s); err != nil {
			return fmt.Errorf("watching for machines: %w", err)
		}
	}
	if err := c.registerKinds(mgr); err != nil {
		return err
	}
	if err := c.metrics.register(ctrlmetrics.Registry); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	return nil
}

// registerKinds adds the controller that follows the CRDs.
func (c *Controller) registerKinds(mgr manager.Manager) error {
	kinds, err := controller.New("machine-kinds", mgr, controller.Options{Reconciler: reconcile.Func(c.reconcileCRD)})
	if err != nil {
		return fmt.Errorf("making the controller of kinds: %w", err)
	}
	// Their metadata tell when to look; whole CRDs, of which a cluster has many, would fill the cache.
	crds := source.Kind(mgr.GetCache(), metadataOf(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")),
		&handler.TypedEnqueueRequestForObject[*metav1.PartialObjectMetadata]{}, ofDrivers())
	if err := kinds.Watch(crds); err != nil {
		return fmt.Errorf("watching CRDs: %w", err)
	}
	return nil
}

// sources are the watches that all kinds share; each maps what it sees to the machines that it concerns.
func (c *Controller) sources(informers cache.Cache) []source.TypedSource[Request] {
	secrets := metadataOf(corev1.SchemeGroupVersion.WithKind("Secret"))
	return []source.TypedSource[Request]{
		kindSource(informers, &batchv1.Job{}, c.ofJob, jobChanges()),
		kindSource(informers, &corev1.Pod{}, c.ofPod, podChanges()),
		kindSource(informers, secrets, c.ofSecret),
		kindSource(informers, &clusterv1.Machine{}, ofCAPIMachine, machineChanges()),
		kindSource(informers, &clusterv1.Cluster{}, c.ofCluster, clusterChanges()),
		kindSource(informers, &managementv3.NodeDriver{}, c.ofNodeDriver),
	}
}

// nodes is the watch of the workload clusters' Nodes.
func (c *Controller) nodes() source.TypedSource[Request] {
	return source.TypedFunc[Request](func(_ context.Context, queue workqueue.TypedRateLimitingInterface[Request]) error {
		if c.options.Nodes == nil {
			return nil
		}
		c.options.Nodes.OnNode(func(cluster client.ObjectKey, machine types.UID) {
			for _, request := range c.watchIndex.in(nodeKey(cluster, machine)) {
				queue.Add(request)
			}
		})
		return nil
	})
}

// called is the watch of whose turn it is.
func (c *Controller) called() source.TypedSource[Request] {
	return source.TypedFunc[Request](func(_ context.Context, queue workqueue.TypedRateLimitingInterface[Request]) error {
		c.breaker.OnCall(func(request Request) { queue.Add(request) })
		c.jobs.OnWake(func(request Request) { queue.Add(request) })
		return nil
	})
}

func kindSource[T client.Object](informers cache.Cache, obj T, toRequests handler.TypedMapFunc[T, Request], filters ...predicate.TypedPredicate[T]) source.TypedSource[Request] {
	return source.TypedKind(informers, obj, handler.TypedEnqueueRequestsFromMapFunc(toRequests), filters...)
}

// ofDrivers lets pass the CRDs of drivers.
func ofDrivers() predicate.TypedPredicate[*metav1.PartialObjectMetadata] {
	return predicate.NewTypedPredicateFuncs(func(crd *metav1.PartialObjectMetadata) bool {
		return crd.Labels[rkev1.NodeDriverLabel] != ""
	})
}
