package nodedriver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-project/drover/advice"
	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/controllers/attempt"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// FieldOwner is the field owner of what this controller applies.
const FieldOwner = "drover-nodedriver"

// +kubebuilder:rbac:groups=management.cattle.io,resources=nodedrivers,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=management.cattle.io,resources=nodedrivers/status,verbs=patch
// Permission for owner references that block deletion; an API server with the plugin
// OwnerReferencesPermissionEnforcement requires it.
// +kubebuilder:rbac:groups=management.cattle.io,resources=nodedrivers/finalizers,verbs=update
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rke-machine.cattle.io;rke-machine-config.cattle.io,resources=*,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=list;watch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;create;patch;delete
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;create;patch;delete
// The API server lets the manager create the probe's Role only if the manager has all its
// permissions.
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;create;delete;deletecollection
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options of the controller.
type Options struct {
	// Client writes, and reads NodeDrivers, Jobs, pods and CAPI Machines from the cache.
	Client client.Client
	// Reader reads live: CRDs, Secrets, and the objects of drivers' kinds.
	Reader client.Reader
	// Recorder writes events.
	Recorder events.EventRecorder
	// Jobs are the settings of probe Jobs.
	Jobs jobrunner.Settings
	// Watch reports changes of the objects of a driver's kinds while a NodeDriver waits for them;
	// see NewUserWatch.
	Watch *UserWatch
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Reconciler is the controller.
type Reconciler struct {
	opts    Options
	applier apply.Applier
	runner  attempt.Runner
}

// New makes the controller.
func New(opts Options) *Reconciler {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	applier := apply.Applier{Client: opts.Client, Reader: opts.Reader, Owner: FieldOwner}
	return &Reconciler{opts: opts, applier: applier, runner: attempt.Runner{Applier: applier, Settings: opts.Jobs}}
}

// workers is how many NodeDrivers are reconciled at a time.
const workers = 4

// Register adds the controller to the manager.
func (r *Reconciler) Register(mgr ctrl.Manager) error {
	specOrAnnotations := predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	gone := predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: func(event.UpdateEvent) bool { return false }}
	err := ctrl.NewControllerManagedBy(mgr).Named("nodedriver").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		For(&v3.NodeDriver{}, builder.WithPredicates(specOrAnnotations)).
		Watches(&v3.NodeDriver{}, handler.EnqueueRequestsFromMapFunc(r.sameName), builder.WithPredicates(specOrAnnotations)).
		Watches(&v3.NodeDriver{}, handler.EnqueueRequestsFromMapFunc(itsDriver), builder.WithPredicates(gone)).
		Owns(&batchv1.Job{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofDriver)).
		WatchesMetadata(&apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(r.ofDriver)).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.ofCAPIMachine), builder.WithPredicates(gone)).
		WatchesRawSource(source.Channel(r.opts.Watch.events, &handler.EnqueueRequestForObject{})).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the nodedriver controller: %w", err)
	}
	// The pruner deletes objects that no NodeDriver uses.
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

// Reconcile brings one NodeDriver's kinds up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, err error) {
	nd := &v3.NodeDriver{}
	err = r.opts.Client.Get(ctx, req.NamespacedName, nd)
	if apierrors.IsNotFound(err) {
		if err := r.reappear(ctx, req.Name); err != nil {
			return ctrl.Result{}, err
		}
		// Its kinds are removed when no object uses them. The kinds of a driver with another name
		// than its NodeDriver are found by the driver's name, see itsDriver.
		return step.Result(r.reconcileDelete(ctx, r.newScope(&v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: req.Name}})))
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading the NodeDriver: %w", err)
	}
	if err := r.ensureFinalizer(ctx, nd); err != nil {
		return step.Result(err)
	}
	s := r.newScope(nd)
	outcome := r.reconcile(ctx, s)
	if !nd.DeletionTimestamp.IsZero() && outcome == nil {
		_, err := step.DropFinalizer(ctx, r.opts.Client, nd, rkev1.NodeDriverFinalizer)
		return step.Result(err)
	}
	nd.Status.ObservedGeneration = nd.Generation
	if _, err := step.PatchStatus(ctx, r.opts.Client, s.before, nd); err != nil {
		_, unhandled := step.Result(outcome) // what controller-runtime must see beside it
		return step.Result(errors.Join(err, unhandled))
	}
	r.emit(s)
	return step.Result(outcome)
}

// ensureFinalizer keeps the finalizer on a NodeDriver only while machines of its kinds exist. A
// NodeDriver without machines must not block an uninstallation of Drover, which removes the manager
// first. A predefined NodeDriver is created again after its deletion, and needs no finalizer.
func (r *Reconciler) ensureFinalizer(ctx context.Context, nd *v3.NodeDriver) error {
	if !nd.DeletionTimestamp.IsZero() {
		return nil
	}
	used, err := false, error(nil)
	if !nd.Spec.Builtin {
		used, err = r.hasMachines(ctx, nd.DriverName())
	}
	if err != nil {
		return err
	}
	change := step.DropFinalizer
	if used {
		change = step.EnsureFinalizer
	}
	_, err = change(ctx, r.opts.Client, nd, rkev1.NodeDriverFinalizer)
	return err
}

func (r *Reconciler) reconcile(ctx context.Context, s *scope) error {
	if !s.nd.DeletionTimestamp.IsZero() {
		return r.reconcileDelete(ctx, s)
	}
	outcome := step.Run(ctx, s, s.conditions,
		step.Of(v3.ValidCondition, v3.ValidReason, r.validate),
		step.Of("", "", r.deactivate),
		step.Of(v3.DownloadedCondition, v3.DownloadedReason, r.download),
		step.Of(v3.InstalledCondition, v3.InstalledReason, r.install),
		step.Of(v3.SchemaCompatibleCondition, v3.CompatibleReason, r.schema),
		step.Of(v3.ActiveCondition, v3.EstablishedReason, r.establish),
		step.Of("", "", r.activate),
	)
	if !s.summed {
		s.conditions.Summarize(v3.ReadyCondition, v3.ReadyReason, v3.ValidCondition, v3.DownloadedCondition,
			v3.InstalledCondition, v3.SchemaCompatibleCondition, v3.ActiveCondition)
		warning, ready := s.conditions.Get(v3.SchemaCompatibleCondition), s.conditions.Get(v3.ReadyCondition)
		if ready.Status == metav1.ConditionTrue && warning != nil {
			ready.Message = warning.Message // annotations that match nothing, or are missing, and what to do about it
		}
	}
	return outcome
}

func (r *Reconciler) emit(s *scope) {
	of := []string{v3.ValidCondition, v3.DownloadedCondition, v3.InstalledCondition, v3.SchemaCompatibleCondition, v3.ActiveCondition}
	ready, status := s.conditions.Get(v3.ReadyCondition), &s.nd.Status
	// Ready gets no event if it only repeats the condition of a step.
	if ready == nil || !slices.ContainsFunc(status.Conditions, func(c metav1.Condition) bool {
		return c.Type != v3.ReadyCondition && c.Reason == ready.Reason && c.Message == ready.Message
	}) {
		of = append(of, v3.ReadyCondition)
	}
	step.Emit(r.opts.Recorder, s.nd, step.Transitions{
		Before: s.before.Status.Conditions, After: status.Conditions, Of: of,
		Notes: map[string]string{
			v3.DownloadedReason: "The binary of driver " + s.nd.DriverName() + " was downloaded, verified and stored",
			v3.InstalledReason:  fmt.Sprintf("Driver %s returned its %d flags", s.nd.DriverName(), len(s.flags)),
			v3.ReadyReason: fmt.Sprintf("Driver %s is ready to create servers; its kinds are %s, %s and %s",
				status.DriverName, status.MachineKind, status.MachineTemplateKind, status.ConfigKind),
		},
		Quiet: []string{v3.ValidReason, v3.BuiltinReason, v3.CompatibleReason, v3.DoubtfulAnnotationsReason, v3.InactiveReason, v3.EstablishedReason, v3.ProbingReason, v3.RemovingKindsReason},
	})
}

// sameName wakes the NodeDrivers of the same driver name, because one of them may get the name now.
func (r *Reconciler) sameName(ctx context.Context, obj client.Object) []ctrl.Request {
	nd, ok := obj.(*v3.NodeDriver)
	if !ok {
		return nil
	}
	return r.requests(ctx, func(other *v3.NodeDriver) bool {
		return other.Name != nd.Name && other.DriverName() == nd.DriverName()
	})
}

// itsDriver requests a reconcile of the objects that a deleted NodeDriver has left, if its driver
// has another name.
func itsDriver(_ context.Context, obj client.Object) []ctrl.Request {
	nd, ok := obj.(*v3.NodeDriver)
	if !ok || nd.DriverName() == nd.Name {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Name: nd.DriverName()}}}
}

// ofDriver wakes the NodeDriver whose probe a pod runs, or whose kind a CRD defines.
func (r *Reconciler) ofDriver(ctx context.Context, obj client.Object) []ctrl.Request {
	name := obj.GetLabels()[rkev1.NodeDriverLabel]
	if _, isPod := obj.(*corev1.Pod); name == "" || isPod && obj.GetLabels()[rkev1.OperationLabel] != string(state.Probe) {
		return nil
	}
	return r.requests(ctx, func(nd *v3.NodeDriver) bool { return nd.DriverName() == name })
}

// ofCAPIMachine wakes the NodeDriver that may have been kept for a deleted CAPI Machine. A CAPI
// Machine is deleted after the machine that it names, so the watch of the driver's own kinds does
// not report it. An active predefined NodeDriver is never kept for machines.
func (r *Reconciler) ofCAPIMachine(ctx context.Context, obj client.Object) []ctrl.Request {
	machine, ok := obj.(*clusterv1.Machine)
	if !ok {
		return nil
	}
	return r.requests(ctx, func(nd *v3.NodeDriver) bool {
		return machine.Spec.InfrastructureRef.GroupKind() == kindsOf(nd.DriverName())[0].GroupKind() && (!nd.Spec.Builtin || !nd.Spec.Active)
	})
}

func (r *Reconciler) requests(ctx context.Context, match func(*v3.NodeDriver) bool) []ctrl.Request {
	var all v3.NodeDriverList
	if err := r.opts.Client.List(ctx, &all); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing NodeDrivers")
		return nil
	}
	var out []ctrl.Request
	for i := range all.Items {
		if match(&all.Items[i]) {
			out = append(out, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
		}
	}
	return out
}

// scope holds the values that the steps of one reconcile pass on to each other.
type scope struct {
	nd, before *v3.NodeDriver
	conditions *step.Conditions
	// rules are the content of the annotations; set by validate.
	rules crdgen.Rules
	// verdict is the end of the probe, zero for built-in drivers; set by download.
	verdict jobrunner.Verdict
	// job names the Job of the last probe.
	job string
	// next is the wait for the next probe after the verdict; set by download.
	next error
	// flags are the driver's; set by install.
	flags []crdgen.Flag
	// fields and crds are derived from the flags; set by schema.
	fields []crdgen.Field
	crds   []*apiextensionsv1.CustomResourceDefinition
	// summed is true if a step has set Ready.
	summed bool
}

func (r *Reconciler) newScope(nd *v3.NodeDriver) *scope {
	s := &scope{nd: nd, before: nd.DeepCopy(), conditions: step.NewConditions(&nd.Status.Conditions, nd.Generation, r.opts.Now())}
	about := advice.Driver{Name: nd.Name}
	if parsed, err := url.Parse(nd.Spec.URL); err == nil {
		about.URL = parsed.Redacted()
	}
	s.conditions.Advise = func(c metav1.Condition) []string {
		about.Job = s.job
		return about.On(c.Reason)
	}
	return s
}

// notReady sets the summary to another value than the sum of the conditions, and waits.
func (s *scope) notReady(reason, message string, after time.Duration) error {
	s.summed = true
	s.conditions.False(v3.ReadyCondition, reason, message)
	return step.Wait(reason, message, after)
}
