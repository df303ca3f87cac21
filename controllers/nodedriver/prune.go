package nodedriver

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/state"
)

const (
	// pruneGrace is how old must be what is pruned: a probe that runs, or a backup that is being put back, is not done yet.
	pruneGrace = time.Hour
	// pruneNet is when to look again while something is kept that no NodeDriver uses; machines that go are not watched here.
	pruneNet = time.Hour
)

// everything is the only request of the pruner.
var everything = reconcile.Request{}

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

// unsettled reports whether a NodeDriver is still finding out which binary it has.
func unsettled(nd *v3.NodeDriver) bool {
	return nd.Spec.Active && !driver.IsBuiltin(nd) && !meta.IsStatusConditionTrue(nd.Status.Conditions, v3.ReadyCondition)
}

// cached is one binary in the cache, as its ConfigMaps' metadata tell.
type cached struct {
	driver string
	fresh  bool
}

// pruneBinaries removes the cached binaries that no NodeDriver has and no machine's server was made with; it reports whether
// one is left that may be removed later.
func (r *Reconciler) pruneBinaries(ctx context.Context, drivers []v3.NodeDriver) (left bool, err error) {
	// By the label that their digest is. What was made a moment ago is fresh.
	since := r.opts.Now().Add(-pruneGrace)
	binaries := map[string]cached{}
	err = r.each(ctx, corev1.SchemeGroupVersion.WithKind("ConfigMap"), func(part *metav1.PartialObjectMetadata) {
		digest := part.Labels[driver.CacheDigestLabel]
		binaries[digest] = cached{driver: part.Labels[rkev1.NodeDriverLabel], fresh: binaries[digest].fresh || part.CreationTimestamp.After(since)}
	}, client.InNamespace(driver.CacheNamespace), client.HasLabels{driver.CacheDigestLabel})
	if err != nil {
		return false, fmt.Errorf("reading the cache of drivers: %w", err)
	}
	probing := map[string]bool{}
	for i := range drivers {
		delete(binaries, driver.CacheLabel(drivers[i].Status.Digest))
		probing[drivers[i].DriverName()] = probing[drivers[i].DriverName()] || unsettled(&drivers[i])
	}
	if len(binaries) == 0 {
		return false, nil
	}
	// Those that machines' servers were made with, as their state says: they are to be removed with the same.
	needed := map[string]bool{}
	err = r.each(ctx, corev1.SchemeGroupVersion.WithKind("Secret"), func(secret *metav1.PartialObjectMetadata) {
		if ref, ok := state.ReadDriver(secret.Annotations); ok {
			needed[driver.CacheLabel(ref.Digest)] = true
		}
	}, client.HasLabels{rkev1.NodeDriverLabel, rkev1.MachineUIDLabel})
	if err != nil {
		return false, fmt.Errorf("finding the drivers of servers: %w", err)
	}
	for digest, binary := range binaries {
		if needed[digest] || binary.fresh || probing[binary.driver] {
			left = true
			continue
		}
		log.FromContext(ctx).Info("Removing an unused cached driver", "driver", binary.driver, "digest", digest)
		// The first part goes first, so that a binary that is half gone does not look whole.
		first := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: driver.CacheNamespace, Name: driver.CachePartName(digest, 0)}}
		err := client.IgnoreNotFound(r.opts.Client.Delete(ctx, first))
		if err == nil {
			err = r.opts.Client.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(driver.CacheNamespace), client.MatchingLabels{driver.CacheDigestLabel: digest})
		}
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("removing the cached driver %s: %w", digest, err)
		}
	}
	return left, nil
}

// pruneKinds removes the kinds of drivers that no NodeDriver has: one that was renamed, or removed past its finalizer. Kinds
// of which there is an object stay, for the server behind it, or what somebody wrote, would go with them. It reports whether
// some are left that may be removed later.
func (r *Reconciler) pruneKinds(ctx context.Context, drivers []v3.NodeDriver) (left bool, err error) {
	// The drivers that have CRDs of ours, and whether one of those is fresh.
	since, orphans := r.opts.Now().Add(-pruneGrace), map[string]bool{}
	err = r.each(ctx, apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), func(crd *metav1.PartialObjectMetadata) {
		if _, ours := crd.Annotations[crdgen.FieldsAnnotation]; ours && crd.DeletionTimestamp.IsZero() {
			name := crd.Labels[rkev1.NodeDriverLabel]
			orphans[name] = orphans[name] || crd.CreationTimestamp.After(since)
		}
	}, client.HasLabels{rkev1.NodeDriverLabel})
	if err != nil {
		return false, fmt.Errorf("finding the kinds of drivers: %w", err)
	}
	for i := range drivers {
		delete(orphans, drivers[i].DriverName())
		delete(orphans, drivers[i].Status.DriverName)
	}
	for name, fresh := range orphans {
		found, err := r.users(ctx, name)
		if err != nil {
			return false, err
		}
		if fresh || found.count > 0 {
			left = true
			continue
		}
		log.FromContext(ctx).Info("Removing the kinds of a driver that has no NodeDriver", "driver", name)
		if _, err := r.removeKinds(ctx, name); err != nil {
			return false, err
		}
	}
	return left, nil
}
