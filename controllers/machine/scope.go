package machine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// scope is what is known of one machine during one reconcile.
type scope struct {
	rkev1.DriverMachine
	request Request
	// management is the management cluster, see Options.
	management string
	// before is the object as the server has it, to tell what changed.
	before *unstructured.Unstructured
	// was are the conditions at the beginning, for events.
	was        []metav1.Condition
	status     rkev1.RKEMachineStatus
	conditions *step.Conditions
	now        time.Time

	// Found by the steps, each for those after it.
	machine *clusterv1.Machine
	// home is where what is made for the machine lives, and what its names begin with: the machine's own namespace and
	// name, but for a fallback.
	home      types.NamespacedName
	cluster   *clusterv1.Cluster
	state     stateSecret
	driver    driverFacts
	bootstrap *corev1.Secret
	// credential is what the driver is given; recalled tells that it is the one that was used last, and why: its Secret is gone or unusable.
	credential state.Credential
	recalled   string
	// evidence and verdict of the attempt that was claimed, once they were looked for.
	evidence *jobrunner.Evidence
	verdict  *jobrunner.Verdict

	// fresh tells that this reconcile is the first to see the end of the last attempt, and asked that it came to where
	// machines wait for their turn.
	fresh, asked bool
	// jobWanted tells that a Job was started, or waits until one may be.
	jobWanted bool

	// released tells that nothing keeps the machine any more.
	released bool
}

// Conditions implements step.Scope.
func (s *scope) Conditions() *step.Conditions { return s.conditions }

func (s *scope) deleting() bool { return !s.GetDeletionTimestamp().IsZero() }

// load reads the machine; nil when it is gone, or not this manager's.
func (r *Reconciler) load(ctx context.Context, key types.NamespacedName) (*scope, error) {
	obj := rkev1.DriverMachine{Unstructured: &unstructured.Unstructured{}}
	obj.SetGroupVersionKind(r.kind.GVK)
	request := Request{Kind: r.kind.GVK, NamespacedName: key}
	r.watchIndex.forget(request)
	err := r.Live.Get(ctx, key, obj.Unstructured)
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		return nil, fmt.Errorf("reading the machine: %w", err)
	}
	if gone || !r.watched(obj) {
		r.metrics.forget(request)
		r.breaker.Leave(request, r.Clock.Now())
		r.jobs.Release(request)
	}
	if gone {
		return nil, r.releaseOrphan(ctx, request)
	}
	if !r.watched(obj) {
		return nil, nil
	}
	status, err := obj.Status()
	if err != nil {
		return nil, err
	}
	s := &scope{DriverMachine: obj, request: request, management: r.Management, before: obj.DeepCopy(), status: status, now: r.Clock.Now()}
	for i := range status.Conditions {
		s.was = append(s.was, *status.Conditions[i].DeepCopy())
	}
	s.conditions = step.NewConditions(&s.status.Conditions, obj.GetGeneration(), s.now)
	return s, nil
}

// patch writes metadata and spec at once, and keeps the status that was not written yet out of it.
func (r *Reconciler) patch(ctx context.Context, s *scope) error {
	patch := client.MergeFromWithOptions(s.before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, s.Unstructured, patch); err != nil {
		return err
	}
	s.before = s.DeepCopy()
	s.conditions.Observe(s.GetGeneration())
	return nil
}

// ref says in the request document whom the server is for.
func (s *scope) ref() jobrunner.MachineRef {
	ref := jobrunner.MachineRef{Namespace: s.GetNamespace(), Name: s.GetName(), UID: string(s.GetUID()),
		Kind: s.GetKind(), ClusterName: s.GetLabels()[clusterv1.ClusterNameLabel], Management: s.management}
	if s.cluster != nil {
		ref.ClusterName, ref.ClusterUID = s.cluster.Name, string(s.cluster.UID)
	}
	return ref
}
