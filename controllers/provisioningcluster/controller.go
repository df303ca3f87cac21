package provisioningcluster

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/provisioning"
)

// fieldOwner is the field manager of the rendered objects.
const fieldOwner = provv1.FieldOwner

// Options of a Reconciler.
type Options struct {
	// Client reads, from its cache if it has one, and writes.
	Client client.Client
	// Reader reads past the cache.
	Reader client.Reader
	// Recorder writes events; none without it.
	Recorder events.EventRecorder
	// WatchFilter limits the Clusters to those whose label cluster.x-k8s.io/watch-filter has this
	// value; empty for all.
	WatchFilter string
	// Workers is the number of Clusters that are worked on at a time; 1 by default.
	Workers int
	// Pace holds back writes of a status that only describes progress; none without it.
	Pace *step.Pace
	// Clock is the real one by default.
	Clock clock.PassiveClock
}

// Reconciler reconciles provisioning Clusters.
type Reconciler struct {
	Options

	applier apply.Applier
	// watchKind starts to watch a driver's kind; nil in tests that call Reconcile directly.
	watchKind func(gvk schema.GroupVersionKind) error
}

// New makes a Reconciler.
func New(o Options) *Reconciler {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Reconciler{Options: o, applier: apply.Applier{Client: o.Client, Reader: o.Reader, Owner: fieldOwner}}
}

// scope is one reconcile.
type scope struct {
	*provv1.Cluster
	// before is the Cluster as it is stored.
	before     *provv1.Cluster
	conditions *step.Conditions
	// capi is the CAPI Cluster; nil while it does not exist.
	capi *clusterv1.Cluster
	// deployments are the Cluster's MachineDeployments by their name.
	deployments map[string]*clusterv1.MachineDeployment
	rendered    provisioning.Result
	// effects are the effects of the rendering on machines, by pool.
	effects map[string]provisioning.Effect
	// replaced are the pools whose machine template this reconcile changed.
	replaced []string
	// older counts the machines of earlier machine templates, by MachineDeployment.
	older map[string]int32
	// next are the next steps of the user, by the reason of a condition.
	next map[string][]string
	// deleting is the step that the deletion waits for, a reason of Cluster API.
	deleting string
	// generations are the generations of the objects that this reconcile wrote, by kind and name.
	generations map[string]int64
}

// Reconcile brings one Cluster forward.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	obj := &provv1.Cluster{}
	if err := r.Client.Get(ctx, request.NamespacedName, obj); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if r.WatchFilter != "" && obj.Labels[clusterv1.WatchLabel] != r.WatchFilter {
		return reconcile.Result{}, nil
	}
	if obj.DeletionTimestamp.IsZero() && obj.Spec.RKEConfig != nil {
		if _, err := step.EnsureFinalizer(ctx, r.Client, obj, provv1.ClusterFinalizer); err != nil {
			return step.Result(err)
		}
	}
	before := obj.DeepCopy()
	s := &scope{Cluster: obj, before: before, generations: map[string]int64{}, next: map[string][]string{},
		conditions: step.NewConditions(&obj.Status.Conditions, obj.Generation, r.Clock.Now())}
	s.conditions.Advise = func(c metav1.Condition) []string { return s.next[c.Reason] }
	err := r.bringForward(ctx, s)
	if !obj.DeletionTimestamp.IsZero() && err == nil {
		return reconcile.Result{}, nil // it is gone
	}
	obj.Status.ObservedGeneration = obj.Generation
	isProgress := len(s.replaced) == 0 && equality.Semantic.DeepEqual(before.Status.PendingReplacement, obj.Status.PendingReplacement)
	if isProgress && !equality.Semantic.DeepEqual(before.Status, obj.Status) {
		if wait := r.Pace.Wait(obj.UID, before.Status.Conditions, obj.Status.Conditions, r.Clock.Now()); wait > 0 {
			result, err := step.Result(err)
			return step.Sooner(result, wait), err
		}
	}
	if _, patchErr := step.PatchStatus(ctx, r.Client, before, obj); patchErr != nil {
		_, unhandled := step.Result(err)
		return step.Result(errors.Join(patchErr, unhandled))
	}
	r.emit(s)
	return step.Result(err)
}

// bringForward brings the objects of Cluster API towards the Cluster, and reports on them.
func (r *Reconciler) bringForward(ctx context.Context, s *scope) error {
	if !s.DeletionTimestamp.IsZero() {
		return r.delete(ctx, s)
	}
	if isHeld(s) {
		return nil
	}
	err := step.Run(ctx, s, s.conditions,
		step.Of(provv1.RKEClusterCondition, "", r.findCluster),
		step.Of(provv1.RKEClusterCondition, "", r.render),
		step.Of(provv1.RKEClusterCondition, "", r.apply),
		step.Of(provv1.RKEClusterCondition, provv1.RenderedReason, r.prune))
	if err != nil {
		// A conflict is tried again and sets no condition.
		if found := s.conditions.Get(provv1.RKEClusterCondition); found != nil && found.Status != metav1.ConditionTrue {
			s.conditions.Repeat(provv1.ReadyCondition, *found)
		}
		return err
	}
	return r.report(ctx, s)
}

// safetyNet is the time after which a Cluster that waits is reconciled without an event.
const safetyNet = 10 * time.Minute
