package rkecontrolplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-project/drover/advice"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/limit"
	"github.com/drover-project/drover/planner"
)

// planningMemory is the default of Options.Memory. It holds the largest specification (Footprint:
// about 50 MiB) once, or seven usual ones that name Secrets.
const planningMemory = 64 << 20

// fieldOwner is the field manager of this controller.
const fieldOwner = "drover-rkecontrolplane"

// Clusters is the way into workload clusters.
type Clusters interface {
	// Reaches reports whether a cluster's API answers.
	Reaches(cluster client.ObjectKey) bool
	// Through returns the address of the server through which a cluster is reached, empty if it is
	// reached as its kubeconfig says.
	Through(cluster client.ObjectKey) string
	// Proxied reports whether the manager uses a proxy for the address in the kubeconfig. It then
	// connects to no server directly.
	Proxied(cluster client.ObjectKey) bool
	// Refused returns why the API server's responses are rejected; empty if the cluster is reached,
	// or is not reached for another reason.
	Refused(cluster client.ObjectKey) string
	// OnNode has wake called, with an empty machine, when that may have changed. It must not block.
	OnNode(wake func(cluster client.ObjectKey, machine types.UID))
	// KeepNode sets these labels and taints on a Node, and removes those that it set before. It
	// does nothing while the cluster is not reached. It may fail with a conflict.
	KeepNode(ctx context.Context, cluster client.ObjectKey, node string, labels map[string]string, taints []corev1.Taint) error
	// ForgetNodes deletes the Nodes that forget picks. It returns those that it kept because a
	// kubelet still reports them. It does nothing while the cluster is not reached. It may fail
	// with a conflict.
	ForgetNodes(ctx context.Context, cluster client.ObjectKey, forget func(*corev1.Node) bool) ([]corev1.Node, error)
}

// Options of a Reconciler.
type Options struct {
	// Client reads, from its cache if it has one, and writes.
	Client client.Client
	// Reader reads Secrets and ConfigMaps past the cache.
	Reader client.Reader
	// Pace holds back writes of a status that only describes progress; none without it.
	Pace *step.Pace
	// Cache reads the metadata of Secrets. Client by default.
	Cache client.Reader
	// Plans reads plan Secrets, reduced to the content that NewPlans keeps. Default: Reader, which
	// has the whole content.
	Plans client.Reader
	// Clusters is the access to the workload clusters. Optional.
	Clusters Clusters
	// OnInfraMachine has wake called with a namespace and a Cluster's name when the specification
	// of one of its infra machines changes. It must not block. Optional.
	OnInfraMachine func(wake func(namespace, cluster string))
	// Answers reports whether an API server with the cluster's authority answers at an address such
	// as 203.0.113.7:6443. Optional.
	Answers func(ctx context.Context, address string, authority []byte) bool
	// Recorder writes events; none without it.
	Recorder events.EventRecorder
	// Releases is the ConfigMap that replaces the built-in catalogue of releases, if it exists.
	Releases types.NamespacedName
	// TrustedCredentialNamespaces are namespaces with Rancher's credentials that control planes of
	// every namespace may use.
	TrustedCredentialNamespaces []string
	// WatchFilter limits the RKEControlPlanes to those whose label cluster.x-k8s.io/watch-filter
	// has this value; empty for all.
	WatchFilter string
	// Workers is the number of clusters that are worked on at a time; 1 by default.
	Workers int
	// Memory is the budget of the workers together for specifications, the objects that they name,
	// and plans; 64 MiB by default.
	Memory *limit.Bytes
	// Clock is the real one by default.
	Clock clock.PassiveClock
}

// Reconciler reconciles RKEControlPlanes.
type Reconciler struct {
	Options

	applier   apply.Applier
	catalogue catalogue
	known     known
	started   time.Time
}

// New makes a Reconciler.
func New(o Options) *Reconciler {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Cache == nil {
		o.Cache = o.Client
	}
	if o.Memory == nil {
		o.Memory = limit.NewBytes(planningMemory)
	}
	return &Reconciler{Options: o, started: o.Clock.Now(), applier: apply.Applier{Client: o.Client, Reader: o.Reader, Owner: fieldOwner}}
}

// scope is one reconcile.
type scope struct {
	*rkev1.RKEControlPlane
	conditions *step.Conditions
	cluster    *clusterv1.Cluster
	members    []member
	// plans are the plan Secrets by the name of their RKEBootstrap, reduced to the content in
	// memory.
	plans    map[string]*corev1.Secret
	snapshot planner.Cluster
	result   planner.Result
	// warned is the subject of the condition Warnings.
	warned advice.ControlPlane
	// providerIDs are the provider IDs of all the cluster's Machines.
	providerIDs []string
	// strays are Nodes that plans created and that belong to no Machine.
	strays []string
	// refused is why a Node does not get its labels and taints; empty if all Nodes get them.
	refused string
	// state is the Secret <control plane>-rke-state.
	state *corev1.Secret
	// again is the time until something is due that wakes no controller; 0 if nothing is due.
	again time.Duration
}

// comeAgain requests a reconcile after this time at the latest.
func (s *scope) comeAgain(after time.Duration) {
	if after > 0 && (s.again == 0 || after < s.again) {
		s.again = after
	}
}

// Reconcile brings one RKEControlPlane forward. The objects that it creates end with it, by owner
// references.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	obj := &rkev1.RKEControlPlane{}
	if err := r.Client.Get(ctx, request.NamespacedName, obj); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if r.WatchFilter != "" && obj.Labels[clusterv1.WatchLabel] != r.WatchFilter {
		return reconcile.Result{}, nil
	}
	if !obj.DeletionTimestamp.IsZero() {
		return step.Result(r.release(ctx, obj))
	}
	if _, err := step.EnsureFinalizer(ctx, r.Client, obj, rkev1.ControlPlaneFinalizer); err != nil {
		return step.Result(err)
	}
	before := obj.DeepCopy()
	s := &scope{RKEControlPlane: obj, conditions: step.NewConditions(&obj.Status.Conditions, obj.Generation, r.Clock.Now())}
	s.conditions.Advise = s.advise
	errs := r.bringForward(ctx, s)
	if s.conditions.Get(rkev1.ReconciledCondition) != nil { // a conflict may have come before it was found out
		s.conditions.Summarize(rkev1.ReadyCondition, rkev1.ReadyReason, rkev1.ReconciledCondition, rkev1.AvailableCondition)
	}
	obj.Status.ObservedGeneration = obj.Generation
	if wait := r.paced(before, obj); wait > 0 {
		result, err := outcome(s.again, append(errs, r.markBootstrapped(ctx, s)))
		return step.Sooner(result, wait), err
	}
	if _, err := step.PatchStatus(ctx, r.Client, before, obj); err != nil {
		errs = append(errs, err)
	} else {
		r.emit(obj, before.Status.Conditions)
		errs = append(errs, r.markBootstrapped(ctx, s))
	}
	return outcome(s.again, errs)
}

// paced returns the time after which a status is written that differs only in numbers of machines and
// in the reasons and messages of its conditions.
func (r *Reconciler) paced(before, after *rkev1.RKEControlPlane) time.Duration {
	was, is := before.Status.DeepCopy(), after.Status.DeepCopy()
	if equality.Semantic.DeepEqual(was, is) {
		return 0
	}
	for _, status := range []*rkev1.RKEControlPlaneStatus{was, is} {
		status.Conditions, status.Versions = nil, nil
		status.Replicas, status.ReadyReplicas, status.AvailableReplicas, status.UpToDateReplicas = nil, nil, nil, nil
	}
	if !equality.Semantic.DeepEqual(was, is) {
		return 0
	}
	return r.Pace.Wait(after.UID, before.Status.Conditions, after.Status.Conditions, r.Clock.Now())
}

// bringForward brings the cluster towards its specification. It also reports on the known Machines,
// and counts them, if an input of every plan is missing.
func (r *Reconciler) bringForward(ctx context.Context, s *scope) []error {
	err := step.Run(ctx, s, s.conditions, step.Of(rkev1.ReconciledCondition, "", r.findCluster), step.Of(rkev1.ReconciledCondition, "", r.cleanHosts),
		step.Of(rkev1.ReconciledCondition, "", r.machines))
	if _, stalled := errors.AsType[*step.Stalled](err); stalled {
		return []error{err, r.reportMachines(ctx, s)}
	}
	if err != nil {
		return []error{err}
	}
	defer r.count(s)
	if !s.cluster.DeletionTimestamp.IsZero() {
		r.leave(s)
		return nil
	}
	err = step.Run(ctx, s, s.conditions, step.Of(rkev1.ReconciledCondition, "", r.ensureSecrets), step.Of(rkev1.ReconciledCondition, "", r.ensureAuthorities),
		step.Of(rkev1.ReconciledCondition, "", r.observe))
	if _, stalled := errors.AsType[*step.Stalled](err); stalled {
		return []error{err, r.protect(ctx, s), r.reportMachines(ctx, s)}
	}
	if err != nil {
		return []error{err}
	}
	forgotten := r.forgetNodes(ctx, s) // before a plan has a server join
	// A plan that waits must not block access to the cluster, and the reverse.
	return []error{forgotten,
		step.Run(ctx, s, s.conditions, step.Of(rkev1.ReconciledCondition, rkev1.ReconciledReason, r.plan)),
		step.Run(ctx, s, s.conditions, step.Of(rkev1.AvailableCondition, rkev1.APIAnswersReason, r.access)),
		step.Run(ctx, s, s.conditions, step.Of("", "", r.labelNodes)),
		r.warn(ctx, s)}
}

// outcome returns the soonest requeue time, and all errors that are neither waits nor conflicts.
func outcome(again time.Duration, errs []error) (reconcile.Result, error) {
	soonest := reconcile.Result{RequeueAfter: again}
	var failed []error
	for _, err := range errs {
		result, err := step.Result(err)
		failed = append(failed, err)
		if after := result.RequeueAfter; after > 0 && (soonest.RequeueAfter <= 0 || after < soonest.RequeueAfter) {
			soonest = result
		}
	}
	return soonest, errors.Join(failed...)
}

// findCluster finds the Cluster, and stops if the Cluster names another control plane or is paused.
func (r *Reconciler) findCluster(ctx context.Context, s *scope) error {
	owner, err := util.GetOwnerCluster(ctx, r.Client, s.ObjectMeta)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Cluster: %w", err)
	}
	if s.cluster = owner; owner == nil {
		return r.withoutOwner(ctx, s)
	}
	if !s.IsOf(owner) {
		return step.Stall(rkev1.ClusterHasAnotherReason, fmt.Errorf("the Cluster %s names the control plane %s %q, not this one", owner.Name, owner.Spec.ControlPlaneRef.Kind, owner.Spec.ControlPlaneRef.Name))
	}
	if s.conditions.Paused(owner, s) {
		return step.Wait(clusterv1.PausedReason, "the Cluster or this object is paused", 0)
	}
	return nil
}

// withoutOwner distinguishes a control plane that its Cluster does not name from one whose Cluster
// does not exist yet.
func (r *Reconciler) withoutOwner(ctx context.Context, s *scope) error {
	waits := step.Wait(rkev1.WaitingForOwnerReason, "no Cluster owns this object yet. Name it in spec.controlPlaneRef of a Cluster", 0)
	if s.Spec.ClusterName == "" {
		return waits
	}
	named := &clusterv1.Cluster{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: s.Spec.ClusterName}, named)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Cluster %s: %w", s.Spec.ClusterName, err)
	}
	if err == nil && s.IsOf(named) {
		return step.Wait(rkev1.WaitingForOwnerReason, "the Cluster "+named.Name+" names this object in spec.controlPlaneRef, but Cluster API has not set it as the owner yet", 0)
	}
	if ref := named.Spec.ControlPlaneRef; err == nil && ref.IsDefined() {
		return step.Stall(rkev1.ClusterHasAnotherReason, fmt.Errorf("the Cluster %s names the control plane %s %q, not this one", named.Name, ref.Kind, ref.Name))
	}
	return waits
}
