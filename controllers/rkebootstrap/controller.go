package rkebootstrap

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-project/drover/advice"
	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/bootstrap"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/limit/fairqueue"
)

// Options of a Reconciler.
type Options struct {
	// Client reads, from its cache if it has one, and writes.
	Client client.Client
	// Reader reads Secrets past the cache: a stale read could lead to a second token.
	Reader client.Reader
	// Endpoint returns the address at which servers reach the manager. Only Server, CAChecksum and
	// Sums are read; an empty Server means that the address is unknown.
	Endpoint func() bootstrap.Install
	// EndpointChanges sends an event when the result of Endpoint changes; nil if it never changes.
	EndpointChanges <-chan event.GenericEvent
	// WatchFilter limits the RKEBootstraps to those whose label cluster.x-k8s.io/watch-filter has
	// this value; empty for all.
	WatchFilter string
	// Workers is the number of objects that are worked on at a time; 1 by default.
	Workers int
	// Clock is the real one by default.
	Clock clock.PassiveClock
}

// Reconciler reconciles RKEBootstraps.
type Reconciler struct {
	Options

	applier apply.Applier
}

// New makes a Reconciler.
func New(o Options) *Reconciler {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Reconciler{Options: o, applier: apply.Applier{Client: o.Client, Reader: o.Reader, Owner: "drover-rkebootstrap"}}
}

// Register adds the controller to a manager, whose scheme must know the kinds of CAPI and of
// rke.cattle.io.
func (r *Reconciler) Register(mgr manager.Manager) error {
	workers := max(r.Workers, 1)
	otherOwner := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { // the Machine takes the place of its MachineSet
		return !apiequality.Semantic.DeepEqual(e.ObjectOld.GetOwnerReferences(), e.ObjectNew.GetOwnerReferences())
	}}
	// Our own changes of the status are ignored.
	own := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}, otherOwner)
	// Edits and deletions of an agent's account wake the bootstrap. Only this controller creates
	// these objects, so their creation does not.
	access := builder.WithPredicates(predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }})
	// Changes of our Secrets wake the bootstrap until the token is burned. Afterwards only another
	// create attempt does, and an agent's reports do not. Only this controller creates these
	// Secrets, and after a start every bootstrap is reconciled anyway, so their creation is
	// ignored.
	burned := func(obj client.Object) bool { return obj.GetAnnotations()[rkev1.TokenBurnedAnnotation] != "" }
	secrets := predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: func(e event.UpdateEvent) bool {
		return !burned(e.ObjectOld) || !burned(e.ObjectNew) ||
			e.ObjectOld.GetAnnotations()[rkev1.CreateAttemptAnnotation] != e.ObjectNew.GetAnnotations()[rkev1.CreateAttemptAnnotation]
	}}
	machines := turns(func(m *clusterv1.Machine) [4]any {
		return [4]any{m.Generation, m.Labels[rkev1.OSLabel], m.Status.NodeRef.IsDefined()}
	})
	clusters := turns(func(c *clusterv1.Cluster) [4]any { return [4]any{c.Generation, isProvisioned(c)} })
	controlPlanes := turns(func(c *rkev1.RKEControlPlane) [4]any {
		return [4]any{c.Generation, c.Labels[clusterv1.ClusterNameLabel], holding(c), fmt.Sprint(c.OwnerReferences)}
	})
	b := builder.ControllerManagedBy(mgr).Named("rkebootstrap").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: fairqueue.New(workers)}).
		For(&rkev1.RKEBootstrap{}, builder.WithPredicates(own)).
		Owns(&corev1.Secret{}, builder.OnlyMetadata, builder.WithPredicates(secrets)).
		Owns(&corev1.ServiceAccount{}, builder.OnlyMetadata, access).
		Owns(&rbacv1.Role{}, builder.OnlyMetadata, access).
		Owns(&rbacv1.RoleBinding{}, builder.OnlyMetadata, access).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(ofRestored)).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(ofMachine), builder.WithPredicates(machines)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.inCluster), builder.WithPredicates(clusters)).
		Watches(&rkev1.RKEControlPlane{}, handler.EnqueueRequestsFromMapFunc(r.inCluster), builder.WithPredicates(controlPlanes))
	if r.EndpointChanges != nil {
		b = b.WatchesRawSource(source.Channel(r.EndpointChanges, handler.EnqueueRequestsFromMapFunc(r.armed)))
	}
	return b.Complete(r)
}

// scope is one reconcile.
type scope struct {
	*rkev1.RKEBootstrap
	conditions   *step.Conditions
	machine      *clusterv1.Machine
	controlPlane *rkev1.RKEControlPlane
	// script and plan are the Secrets, nil if they do not exist.
	script, plan *corev1.Secret
}

// Reconcile brings one RKEBootstrap forward. The objects that it creates end with it, by owner
// references.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	obj := &rkev1.RKEBootstrap{}
	if err := r.Client.Get(ctx, request.NamespacedName, obj); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !obj.DeletionTimestamp.IsZero() || r.WatchFilter != "" && obj.Labels[clusterv1.WatchLabel] != r.WatchFilter {
		return reconcile.Result{}, nil
	}
	before := obj.DeepCopy()
	if obj.Labels[rkev1.MachineIDLabel] == "" { // the machine's identity in plans, which a move keeps
		metav1.SetMetaDataLabel(&obj.ObjectMeta, rkev1.MachineIDLabel, strings.ToLower(rand.Text()))
		if err := r.Client.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return step.Result(client.IgnoreNotFound(err))
		}
		before = obj.DeepCopy()
	}
	s := &scope{RKEBootstrap: obj, conditions: step.NewConditions(&obj.Status.Conditions, obj.Generation, r.Clock.Now())}
	err := step.Run(ctx, s, s.conditions, step.Of(rkev1.DataSecretAvailableCondition, rkev1.DataSecretAvailableReason, r.prepare),
		step.Of(rkev1.DataSecretAvailableCondition, rkev1.DataSecretAvailableReason, r.ensureSecrets))
	s.conditions.Summarize(rkev1.ReadyCondition, rkev1.ReadyReason, rkev1.DataSecretAvailableCondition)
	obj.Status.ObservedGeneration = obj.Generation
	if _, patchErr := step.PatchStatus(ctx, r.Client, before, obj); patchErr != nil {
		return step.Result(errors.Join(patchErr, err))
	}
	if err == nil && obj.Annotations[rkev1.ReadmitAgentAnnotation] != "" {
		answered := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:null}}}`, obj.UID, rkev1.ReadmitAgentAnnotation))
		err = client.IgnoreNotFound(r.Client.Patch(ctx, obj, answered))
	}
	return step.Result(err)
}

// prepare reads the inputs of the script, and waits for missing ones.
func (r *Reconciler) prepare(ctx context.Context, s *scope) error {
	machine, err := util.GetOwnerMachine(ctx, r.Client, s.ObjectMeta)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Machine: %w", err)
	}
	if machine == nil {
		return step.Wait(rkev1.WaitingForOwnerReason, "no Machine owns this object yet. Name it in spec.bootstrap.configRef of a Machine", 0)
	}
	s.machine = machine
	cluster := &clusterv1.Cluster{}
	if err := r.Client.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: machine.Spec.ClusterName}, cluster); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Cluster %s: %w", machine.Spec.ClusterName, err)
	} else if err != nil {
		return step.Wait(rkev1.WaitingForClusterReason, fmt.Sprintf("the Cluster %s does not exist", machine.Spec.ClusterName), 0)
	}
	if s.conditions.Paused(cluster, s) {
		return step.Wait(clusterv1.PausedReason, "the Cluster or this object is paused", 0)
	}
	if machine.Labels[rkev1.OSLabel] == "windows" {
		return step.Stall(rkev1.OperatingSystemUnsupportedReason, errors.New("Drover has no agent for Windows: remove the label "+rkev1.OSLabel+" or use another bootstrap provider"))
	}
	if !isProvisioned(cluster) {
		return step.Wait(rkev1.WaitingForClusterReason, fmt.Sprintf("the infrastructure of Cluster %s is not provisioned yet", cluster.Name), 0)
	}
	ref := cluster.Spec.ControlPlaneRef
	if ref.Kind != "RKEControlPlane" || ref.APIGroup != rkev1.GroupVersion.Group {
		return step.Stall(rkev1.ControlPlaneForeignReason, fmt.Errorf("the control plane of Cluster %s is %q, not an RKEControlPlane: an RKEBootstrap can join only an RKEControlPlane", cluster.Name, ref.Kind))
	}
	s.controlPlane = &rkev1.RKEControlPlane{}
	if err := r.Client.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: ref.Name}, s.controlPlane); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the RKEControlPlane %s: %w", ref.Name, err)
	} else if err != nil {
		return step.Wait(rkev1.WaitingForClusterReason, fmt.Sprintf("the RKEControlPlane %s of Cluster %s does not exist", ref.Name, cluster.Name), 0)
	}
	if s.Status.DataSecretName != nil || machine.Spec.Bootstrap.DataSecretName != nil { // its server may be there; a move drops the status
		return nil
	}
	return r.awaitControlPlane(ctx, s, cluster)
}

// awaitControlPlane waits until a server would be of use: the control plane belongs to this Cluster
// and not to another one, and can be installed.
func (r *Reconciler) awaitControlPlane(ctx context.Context, s *scope, cluster *clusterv1.Cluster) error {
	name := s.controlPlane.Name
	owner, err := util.GetOwnerCluster(ctx, r.Client, s.controlPlane.ObjectMeta)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading the Cluster that owns the RKEControlPlane %s: %w", name, err)
	case owner == nil:
		return step.Wait(rkev1.WaitingForClusterReason, fmt.Sprintf("the RKEControlPlane %s has no owner yet", name), 0)
	case owner.Name != cluster.Name:
		return step.Stall(rkev1.ControlPlaneTakenReason, fmt.Errorf("the RKEControlPlane %s belongs to Cluster %s. Drover creates no server for Cluster %s until it names its own control plane", name, owner.Name, cluster.Name))
	}
	switch reason := holding(s.controlPlane); reason {
	case "":
		return nil
	case rkev1.WaitingForClusterReason:
		return step.Wait(reason, fmt.Sprintf("the RKEControlPlane %s is not reconciled yet", name), 0)
	default:
		what, _ := advice.Split(meta.FindStatusCondition(s.controlPlane.Status.Conditions, rkev1.ReconciledCondition).Message)
		return step.Wait(reason, fmt.Sprintf("Drover creates no server while the RKEControlPlane %s reports: %s", name, what), 0)
	}
}

// deadEnds are the reasons of a control plane that prevent the first plan of every machine of its
// cluster until a user changes something. The other reasons are temporary, or concern one machine,
// such as ConfigInvalid, and the other machines can join.
var deadEnds = []string{
	rkev1.KubernetesVersionMissingReason, rkev1.KubernetesVersionUnknownReason, rkev1.KubernetesVersionSkewReason, rkev1.ReleasesInvalidReason,
	rkev1.ClusterSecretMissingReason, rkev1.AuthorityInvalidReason, rkev1.EtcdLostReason, rkev1.OwnerUnknownReason, rkev1.NoEtcdMachineReason, rkev1.NoControlPlaneMachineReason,
	rkev1.ReferencesExceededReason, rkev1.PlansExceededReason, rkev1.ClusterHasAnotherReason, rkev1.DeletingReason, rkev1.MachinesExistReason,
}

// holding returns why a server for the control plane would be of no use: it is at a dead end, or
// was not reconciled yet; empty if nothing holds it.
func holding(c *rkev1.RKEControlPlane) string {
	switch said := meta.FindStatusCondition(c.Status.Conditions, rkev1.ReconciledCondition); {
	case said == nil || said.Reason == rkev1.WaitingForOwnerReason:
		return rkev1.WaitingForClusterReason
	case slices.Contains(deadEnds, said.Reason):
		return said.Reason
	}
	return ""
}

// turns passes the updates that change the result of read. The status of Machines, Clusters and
// control planes changes often, and each change of a control plane would wake all machines of its
// cluster.
func turns[T client.Object](read func(T) [4]any) predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, known := e.ObjectOld.(T)
		after, knows := e.ObjectNew.(T)
		return !known || !knows || read(before) != read(after)
	}}
}

func isProvisioned(c *clusterv1.Cluster) bool {
	return ptr.Deref(c.Status.Initialization.InfrastructureProvisioned, false)
}

// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=list;watch
// +kubebuilder:rbac:groups=rke.cattle.io,resources=rkecontrolplanes,verbs=list;watch
// The API server lets the manager grant the permissions of an agent's Role only if the manager has
// them.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=update
// The same is true for the aggregated role: Cluster API's manager creates these objects from
// templates, labels, owns and deletes them.
// +kubebuilder:rbac:groups=rke.cattle.io,resources=rkebootstraps;rkebootstraptemplates,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=rke.cattle.io,resources=rkebootstraps/status;rkebootstraps/finalizers;rkebootstraptemplates/finalizers,verbs=get;update;patch

func ofMachine(_ context.Context, obj client.Object) []reconcile.Request {
	machine, ok := obj.(*clusterv1.Machine)
	if !ok || machine.Spec.Bootstrap.ConfigRef.Kind != "RKEBootstrap" || machine.Spec.Bootstrap.ConfigRef.APIGroup != rkev1.GroupVersion.Group {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: machine.Namespace, Name: machine.Spec.Bootstrap.ConfigRef.Name}}}
}

// ofRestored wakes the bootstrap of a Secret that a backup restored.
func ofRestored(_ context.Context, obj client.Object) []reconcile.Request {
	if !isRestored(obj) {
		return nil
	}
	for _, secret := range []func(string) string{DataSecretName, plan.SecretName} {
		if name, is := strings.CutSuffix(obj.GetName(), secret("")); is {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
		}
	}
	return nil
}

// armed wakes the bootstraps whose token is not burned: their servers have not reached the endpoint
// yet. The others do not need its address.
func (r *Reconciler) armed(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := r.Client.List(ctx, list, client.HasLabels{rkev1.MachineIDLabel}); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		secret := &list.Items[i]
		if owner := bootstrapOf(secret); owner.Name != "" && secret.Annotations[rkev1.TokenBurnedAnnotation] == "" {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: secret.Namespace, Name: owner.Name}})
		}
	}
	return requests
}

// inCluster wakes the bootstraps of a Cluster, or of the Cluster in an object's label. Bootstraps
// with nothing to do write nothing.
func (r *Reconciler) inCluster(ctx context.Context, obj client.Object) []reconcile.Request {
	cluster := obj.GetLabels()[clusterv1.ClusterNameLabel]
	if _, is := obj.(*clusterv1.Cluster); is {
		cluster = obj.GetName()
	}
	list := &rkev1.RKEBootstrapList{}
	if err := r.Client.List(ctx, list, client.InNamespace(obj.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster}); err != nil {
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}
