package managementcluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v3 "github.com/drover-project/drover/api/management/v3"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/capi/workload"
	"github.com/drover-project/drover/controllers/step"
)

// Totals counts the Nodes of workload clusters.
type Totals interface {
	// Totals returns sums over the Nodes of a cluster, or nil while the cluster cannot be reached.
	Totals(ctx context.Context, cluster client.ObjectKey) (*workload.Totals, error)
	// OnTotals has wake called when the totals may have changed. A hostile cluster can cause any
	// number of calls.
	OnTotals(wake func(cluster client.ObjectKey))
}

// Options of a Reconciler.
type Options struct {
	// Client reads, from its cache if it has one, and writes.
	Client client.Client
	// Reader reads past the cache.
	Reader client.Reader
	// Totals counts Nodes. Optional: without it, nothing is counted.
	Totals Totals
	// Recorder writes events; none without it.
	Recorder events.EventRecorder
	// Namespace is the only namespace whose provisioning Clusters are reconciled; empty for all.
	Namespace string
	// WatchFilter limits the Clusters to those whose label cluster.x-k8s.io/watch-filter has this
	// value; empty for all.
	WatchFilter string
	// Workers is the number of Clusters that are worked on at a time; 1 by default.
	Workers int
	// Clock is the real one by default.
	Clock clock.PassiveClock
}

// Reconciler reconciles management Clusters. Its requests name provisioning Clusters.
type Reconciler struct {
	Options

	mu sync.Mutex
	// written is when the status of a management Cluster was last written.
	written map[types.UID]time.Time
}

// New makes a Reconciler.
func New(o Options) *Reconciler {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Reconciler{Options: o, written: map[types.UID]time.Time{}}
}

// scope is one reconcile.
type scope struct {
	*provv1.Cluster
	// management is the management Cluster; nil while it does not exist.
	management *v3.Cluster
}

// Reconcile brings the management Cluster of one provisioning Cluster forward.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if r.Namespace != "" && request.Namespace != r.Namespace {
		return reconcile.Result{}, nil
	}
	obj := &provv1.Cluster{}
	err := r.Client.Get(ctx, request.NamespacedName, obj)
	switch {
	case apierrors.IsNotFound(err):
		return step.Result(r.deleteOrphans(ctx, request.NamespacedName))
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading the Cluster: %w", err)
	case r.WatchFilter != "" && obj.Labels[clusterv1.WatchLabel] != r.WatchFilter || obj.Spec.RKEConfig == nil:
		return reconcile.Result{}, nil
	case !obj.DeletionTimestamp.IsZero():
		return step.Result(r.deleteWith(ctx, obj))
	}
	s := &scope{Cluster: obj}
	if err := r.find(ctx, s); err != nil {
		return step.Result(err)
	}
	if s.management != nil && !s.management.DeletionTimestamp.IsZero() {
		return step.Result(r.follow(ctx, s))
	}
	paused, err := r.isPaused(ctx, obj)
	if err != nil || paused {
		return reconcile.Result{}, err
	}
	err = r.claim(ctx, s)
	if noteErr := r.note(ctx, s, err); noteErr != nil {
		_, unhandled := step.Result(err)
		return step.Result(errors.Join(noteErr, unhandled))
	}
	if err != nil {
		return step.Result(err)
	}
	return step.Result(r.report(ctx, s))
}

// isPaused reports whether nothing may be written for a Cluster.
func (r *Reconciler) isPaused(ctx context.Context, obj *provv1.Cluster) (bool, error) {
	if annotations.HasPaused(obj) {
		return true, nil
	}
	found := &clusterv1.Cluster{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(obj), found); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("reading the CAPI Cluster %s: %w", obj.Name, err)
	}
	return ptr.Deref(found.Spec.Paused, false), nil
}

// note writes status.clusterName and the condition of the provisioning Cluster.
func (r *Reconciler) note(ctx context.Context, s *scope, err error) error {
	before := s.DeepCopy()
	// No observedGeneration: the condition does not depend on the specification.
	conditions := step.NewConditions(&s.Status.Conditions, 0, r.Clock.Now())
	waiting, isWaiting := errors.AsType[*step.Waiting](err)
	switch {
	case err == nil:
		s.Status.ClusterName = s.management.Name
		conditions.True(provv1.ManagementClusterCondition, provv1.NamedReason, "")
	case isWaiting && waiting.Reason != "":
		s.Status.ClusterName = ""
		conditions.False(provv1.ManagementClusterCondition, waiting.Reason, waiting.Message)
	default:
		return nil // it is tried again
	}
	if _, err := step.PatchStatus(ctx, r.Client, before, s.Cluster); err != nil {
		return err
	}
	step.Emit(r.Recorder, s.Cluster, step.Transitions{Before: before.Status.Conditions, After: s.Status.Conditions,
		Of: []string{provv1.ManagementClusterCondition}, Quiet: []string{provv1.NamedReason}})
	return nil
}
