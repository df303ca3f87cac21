package nodedriver

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/driver"
)

const (
	// pruneGrace is how old must be what is pruned: a probe that runs, or a backup that is being put back, is not done yet.
	pruneGrace = time.Hour
	// pruneNet is when to look again while something is kept that no NodeDriver uses; machines that go are not watched here.
	pruneNet = time.Hour
)

// everything is the only request of the pruner.
var everything = reconcile.Request{}

// registerPruner adds the controller that takes away what no NodeDriver uses any more.
func (r *Reconciler) registerPruner(mgr ctrl.Manager) error {
	pruner, err := controller.New("driver-pruner", mgr, controller.Options{Reconciler: reconcile.Func(r.Prune)})
	if err != nil {
		return fmt.Errorf("adding the pruner of drivers: %w", err)
	}
	once := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(everything) // what became useless while no manager ran, NodeDrivers or not
		return nil
	})
	changes := source.Kind(mgr.GetCache(), &v3.NodeDriver{}, handler.TypedEnqueueRequestsFromMapFunc(
		func(context.Context, *v3.NodeDriver) []reconcile.Request { return []reconcile.Request{everything} }), pruneTurns())
	for _, s := range []source.Source{once, changes} {
		if err := pruner.Watch(s); err != nil {
			return fmt.Errorf("watching for the pruner of drivers: %w", err)
		}
	}
	return nil
}

// pruneTurns lets pass what may make a binary or a kind useless.
func pruneTurns() predicate.TypedPredicate[*v3.NodeDriver] {
	return predicate.TypedFuncs[*v3.NodeDriver]{
		UpdateFunc: func(e event.TypedUpdateEvent[*v3.NodeDriver]) bool {
			was, is := e.ObjectOld, e.ObjectNew
			return was.Status.Digest != is.Status.Digest || was.Status.DriverName != is.Status.DriverName ||
				was.DriverName() != is.DriverName() || unsettled(was) != unsettled(is)
		},
	}
}

// Prune takes away the cached binaries and the kinds that no NodeDriver has and no object needs.
func (r *Reconciler) Prune(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	var all v3.NodeDriverList
	if err := r.opts.Reader.List(ctx, &all); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing NodeDrivers: %w", err)
	}
	binariesLeft, err := r.pruneBinaries(ctx, all.Items)
	if err != nil {
		return ctrl.Result{}, err
	}
	kindsLeft, err := r.pruneKinds(ctx, all.Items)
	if err != nil {
		return ctrl.Result{}, err
	}
	if binariesLeft || kindsLeft {
		return ctrl.Result{RequeueAfter: pruneNet}, nil
	}
	return ctrl.Result{}, nil
}

// unsettled tells whether a NodeDriver is still finding out which binary it has.
func unsettled(nd *v3.NodeDriver) bool {
	return nd.Spec.Active && !driver.IsBuiltin(nd) && !meta.IsStatusConditionTrue(nd.Status.Conditions, v3.ReadyCondition)
}

// young tells whether something was made a moment ago.
func (r *Reconciler) young(obj client.Object) bool {
	return r.opts.Now().Sub(obj.GetCreationTimestamp().Time) < pruneGrace
}

// configMaps is a list of their metadata; the binaries are not wanted.
var configMaps = corev1.SchemeGroupVersion.WithKind("ConfigMapList")
