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
	// pruneGrace is the minimum age of a pruned object: a running probe, or the restore of a
	// backup, may not be finished yet.
	pruneGrace = time.Hour
	// pruneNet is the interval between checks while something is kept that no NodeDriver uses;
	// deletions of machines are not watched here.
	pruneNet = time.Hour
)

// everything is the only request of the pruner.
var everything = reconcile.Request{}

// pruneTurns passes changes that may make a binary or a kind unused.
func pruneTurns() predicate.TypedPredicate[*v3.NodeDriver] {
	return predicate.TypedFuncs[*v3.NodeDriver]{
		UpdateFunc: func(e event.TypedUpdateEvent[*v3.NodeDriver]) bool {
			was, is := e.ObjectOld, e.ObjectNew
			return was.Status.Digest != is.Status.Digest || was.Status.DriverName != is.Status.DriverName ||
				was.DriverName() != is.DriverName() || unsettled(was) != unsettled(is)
		},
	}
}

// Prune removes the cached binaries and the kinds that no NodeDriver has and no object needs.
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

// unsettled reports whether a NodeDriver has not determined its binary yet.
func unsettled(nd *v3.NodeDriver) bool {
	return nd.Spec.Active && !driver.IsBuiltin(nd) && !meta.IsStatusConditionTrue(nd.Status.Conditions, v3.ReadyCondition)
}

// cached is one binary in the cache, according to its ConfigMaps' metadata.
type cached struct {
	driver string
	fresh  bool
}

// pruneBinaries removes the cached binaries that no NodeDriver has and with which no machine's
// server was made. It reports whether one is left that may be removed later.
func (r *Reconciler) pruneBinaries(ctx context.Context, drivers []v3.NodeDriver) (left bool, err error) {
	// Grouped by the digest label. An object younger than pruneGrace makes its group fresh.
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
	// The binaries with which servers were made, according to the machines' states: the same binary
	// must remove the server.
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
		// Delete the first part first, so that a partly deleted binary does not look complete.
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

// pruneKinds removes the kinds of drivers without a NodeDriver: it was renamed, or its finalizer
// was removed by force. A kind with an object stays, because its removal would delete the record of
// a server, or a user's work. It reports whether some kinds are left that may be removed later.
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
