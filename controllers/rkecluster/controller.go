// Package rkecluster reconciles RKECluster, the infrastructure cluster of every driver. Drover
// creates nothing for a whole cluster, so it is provisioned as soon as a Cluster owns it. The user
// sets the control plane endpoint; under an RKEControlPlane a missing endpoint becomes
// localhost:6443.
//
// It reads: RKEClusters and their CAPI Clusters. It writes: RKECluster status, and the missing
// endpoint. It needs no finalizer, because it has nothing to clean up. Cluster API then lets the
// machines of the cluster start.
package rkecluster

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/limit/fairqueue"
)

// Options of a Reconciler.
type Options struct {
	// Client reads, from its cache if it has one, and writes.
	Client client.Client
	// WatchFilter limits the RKEClusters to those whose label cluster.x-k8s.io/watch-filter has
	// this value; empty for all.
	WatchFilter string
	// Workers is the number of objects that are worked on at a time; 1 by default.
	Workers int
	// Clock is the real one by default.
	Clock clock.PassiveClock
}

// Reconciler reconciles RKEClusters.
type Reconciler struct {
	Options
}

// New makes a Reconciler.
func New(o Options) *Reconciler {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Reconciler{Options: o}
}

// Register adds the controller to a manager, whose scheme must know the kinds of CAPI and of
// rke.cattle.io.
func (r *Reconciler) Register(mgr manager.Manager) error {
	workers := max(r.Workers, 1)
	return builder.ControllerManagedBy(mgr).Named("rkecluster").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: fairqueue.New(workers)}).
		For(&rkev1.RKECluster{}).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(r)
}

// scope is one reconcile.
type scope struct {
	*rkev1.RKECluster
	cluster    *clusterv1.Cluster // that owns it; may be nil
	conditions *step.Conditions
}

// Reconcile brings one RKECluster forward.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	obj := &rkev1.RKECluster{}
	if err := r.Client.Get(ctx, request.NamespacedName, obj); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !obj.DeletionTimestamp.IsZero() || annotations.IsExternallyManaged(obj) || r.WatchFilter != "" && obj.Labels[clusterv1.WatchLabel] != r.WatchFilter {
		return reconcile.Result{}, nil
	}
	cluster, err := r.owner(ctx, obj)
	if err == nil {
		err = r.ensureEndpoint(ctx, obj, cluster)
	}
	if err != nil {
		return step.Result(client.IgnoreNotFound(err))
	}
	before := obj.DeepCopy()
	s := &scope{RKECluster: obj, cluster: cluster, conditions: step.NewConditions(&obj.Status.Conditions, obj.Generation, r.Clock.Now())}
	err = step.Run(ctx, s, s.conditions, step.Of(rkev1.ReadyCondition, rkev1.ReadyReason, provision))
	obj.Status.ObservedGeneration = obj.Generation
	if _, patchErr := step.PatchStatus(ctx, r.Client, before, obj); patchErr != nil {
		_, unhandled := step.Result(err) // what controller-runtime must see beside it
		return step.Result(errors.Join(patchErr, unhandled))
	}
	return step.Result(err)
}

// noEndpoint is the placeholder for a missing endpoint, as in Rancher: each server of an
// RKEControlPlane reaches its API there. Cluster API treats a Cluster without an endpoint as not
// provisioned, and copies the endpoint only once.
var noEndpoint = clusterv1.APIEndpoint{Host: "localhost", Port: 6443}

// ensureEndpoint sets noEndpoint if the user gives no endpoint and the control plane is an
// RKEControlPlane; any other control plane needs an endpoint.
func (r *Reconciler) ensureEndpoint(ctx context.Context, obj *rkev1.RKECluster, cluster *clusterv1.Cluster) error {
	if cluster == nil || annotations.IsPaused(cluster, obj) {
		return nil
	}
	ref := cluster.Spec.ControlPlaneRef
	if obj.Spec.ControlPlaneEndpoint.IsValid() || cluster.Spec.ControlPlaneEndpoint.IsValid() ||
		ref.GroupKind() != rkev1.GroupVersion.WithKind("RKEControlPlane").GroupKind() {
		return nil
	}
	before := obj.DeepCopy()
	obj.Spec.ControlPlaneEndpoint = noEndpoint
	if err := r.Client.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing spec.controlPlaneEndpoint: %w", err)
	}
	return nil
}

// provision is the only step. A provisioned object stays provisioned, even if its owner changes.
func provision(_ context.Context, s *scope) error {
	if s.conditions.Paused(s.cluster, s) {
		if s.Status.Ready {
			return nil
		}
		return step.Wait(clusterv1.PausedReason, "the Cluster or this object is paused", 0)
	}
	if s.cluster == nil && !s.Status.Ready {
		return step.Wait(rkev1.WaitingForOwnerReason, "no Cluster owns this object yet. Name it in spec.infrastructureRef of a Cluster", 0)
	}
	s.Status.Ready, s.Status.Initialization.Provisioned = true, new(true)
	s.Status.FailureDomains = s.Spec.FailureDomains
	return nil
}

// owner returns the Cluster that owns the object, nil without one.
func (r *Reconciler) owner(ctx context.Context, obj *rkev1.RKECluster) (*clusterv1.Cluster, error) {
	for _, ref := range obj.OwnerReferences {
		group, err := schema.ParseGroupVersion(ref.APIVersion)
		if err != nil || group.Group != clusterv1.GroupVersion.Group || ref.Kind != "Cluster" {
			continue
		}
		cluster := &clusterv1.Cluster{}
		err = r.Client.Get(ctx, types.NamespacedName{Namespace: obj.Namespace, Name: ref.Name}, cluster)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading the Cluster %s: %w", ref.Name, err)
		}
		if err == nil && cluster.UID == ref.UID {
			return cluster, nil
		}
	}
	return nil, nil
}

func ofCluster(_ context.Context, obj client.Object) []reconcile.Request {
	cluster, ok := obj.(*clusterv1.Cluster)
	if !ok || cluster.Spec.InfrastructureRef.GroupKind() != rkev1.GroupVersion.WithKind("RKECluster").GroupKind() {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Spec.InfrastructureRef.Name}}}
}

// Cluster API's core creates RKEClusters from templates, owns them and deletes them. The API server
// lets the manager create the aggregated role with these permissions only if the manager has them.
//
// +kubebuilder:rbac:groups=rke.cattle.io,resources=rkeclusters;rkeclustertemplates,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=rke.cattle.io,resources=rkeclusters/status;rkeclusters/finalizers;rkeclustertemplates/finalizers,verbs=get;update;patch
