package machine

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	managementv3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/capi/workload"
	"github.com/drover-project/drover/controllers/attempt"
	"github.com/drover-project/drover/controllers/machine/breaker"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/credential"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/limit"
	"github.com/drover-project/drover/limit/fairqueue"
)

// +kubebuilder:rbac:groups=rke-machine.cattle.io,resources=*,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines;clusters,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=delete
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machinesets;machinedeployments,verbs=get
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=*,verbs=get
// +kubebuilder:rbac:groups=rke.cattle.io,resources=rkecontrolplanes,verbs=get
// +kubebuilder:rbac:groups=management.cattle.io,resources=nodedrivers,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// FieldOwner of everything this controller applies.
const FieldOwner = "drover-machine"

// NodeFinder searches a workload cluster. It returns an empty string and no error if the cluster
// cannot be reached yet or has no such Node.
type NodeFinder interface {
	// ProviderID returns the provider ID of the Node that a server became. The Node gets the label
	// rke.cattle.io/machine and, if it has no provider ID, the server's.
	ProviderID(ctx context.Context, cluster client.ObjectKey, server workload.Server) (string, error)
	// OnNode has wake called when another search for a machine's Node may find more than the last
	// one; an empty machine stands for all machines of the cluster. wake does not block.
	OnNode(wake func(cluster client.ObjectKey, machine types.UID))
}

// Options of a Controller.
type Options struct {
	// Client writes.
	Client client.Client
	// Cache reads CAPI Machines and Clusters, NodeDrivers, Jobs and the metadata of Secrets.
	Cache client.Reader
	// Live reads all the rest past the cache: machines, the content of Secrets, pods.
	Live client.Reader
	// Edited is called when there is news of a machine beside its status; it must not block.
	// Optional.
	Edited func(namespace, cluster string)
	// Recorder writes events.
	Recorder events.EventRecorder
	// Settings of the Jobs.
	Settings jobrunner.Settings
	// Nodes finds provider IDs that no driver's record contains; without it, machines wait for such
	// an ID.
	Nodes NodeFinder
	// WatchFilter limits the machines to those whose label cluster.x-k8s.io/watch-filter has this
	// value; empty for all.
	WatchFilter string
	// TrustedCredentialNamespaces are namespaces with Rancher's credentials that machines of every
	// namespace may use.
	TrustedCredentialNamespaces []string
	// Management is the UID of the namespace kube-system, a value of the servers' tags; empty if
	// unknown.
	Management string
	// Clock is the real one by default.
	Clock clock.PassiveClock
	// MaxConcurrentJobs is how many machines may have a Job at the same time; 0 means no limit.
	MaxConcurrentJobs int
	// Workers is how many machines are reconciled at the same time; 16 by default.
	Workers int
}

// Kind is one <X>Machine kind and the driver it belongs to.
type Kind struct {
	GVK    schema.GroupVersionKind
	Driver string
	Fields []crdgen.Field
}

// How long to wait for changes that no watch reports; see step.Wait.
const (
	// adoptionGrace is how long Cluster API may take to adopt a new machine before a condition
	// reports it.
	adoptionGrace = 10 * time.Second
	// safetyNet is the interval between checks of objects that are also watched: pods, Jobs that
	// are being cancelled, Nodes.
	safetyNet = 5 * time.Minute
	// fallbackCheck is how often the controller retries to create an object in another namespace
	// when the machine's namespace is being deleted. foreignCheck is how often it checks a Job of
	// another owner. Neither is watched.
	fallbackCheck = 5 * time.Second
	foreignCheck  = time.Minute
	// heldCheck is how often a machine checks while another machine has the turn. The breaker also
	// calls it when its own turn comes.
	heldCheck = 30 * time.Minute
)

const defaultWorkers = 16

// Reconciler reconciles the machines of one kind.
type Reconciler struct {
	Options
	*shared

	kind        Kind
	credentials credential.Source
	runner      attempt.Runner
	// settings is a hash of the settings of the Jobs: their proxy, certificates, image and limits.
	settings string
}

// shared is the state that the Reconcilers of all kinds share.
type shared struct {
	watchIndex watchIndex
	metrics    *metrics
	breaker    *breaker.Breaker[Request]
	jobs       *jobs
	// restored are the restored machines whose owners do not exist, by their Clusters. A manager
	// that starts finds them again.
	restored watchIndex
	// labelled holds the Secrets that this manager has labelled: its cache may be behind, and many
	// machines share a Secret.
	labelled sync.Map
}

// New makes a Controller; Register starts it with a manager.
func New(o Options) *Controller {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Workers <= 0 {
		o.Workers = defaultWorkers
	}
	o.Settings = o.Settings.WithDefaults()
	return &Controller{options: o, kinds: map[schema.GroupVersionKind]*Reconciler{}, names: map[string]schema.GroupVersionKind{},
		shared: &shared{metrics: newMetrics(), breaker: breaker.New[Request](jobrunner.Wait), jobs: &jobs{Queue: limit.NewQueue[Request](o.MaxConcurrentJobs)}}}
}

// For makes the Reconciler of one kind.
func (c *Controller) For(kind Kind) *Reconciler {
	return &Reconciler{Options: c.options, shared: c.shared, kind: kind, settings: hashOf(c.options.Settings),
		credentials: credential.Source{Reader: c.options.Live, Trusted: c.options.TrustedCredentialNamespaces},
		runner:      attempt.Runner{Applier: apply.Applier{Client: c.options.Client, Reader: c.options.Live, Owner: FieldOwner}, Cache: c.options.Cache, Settings: c.options.Settings}}
}

// Request names a machine of any kind.
type Request struct {
	Kind schema.GroupVersionKind
	types.NamespacedName
}

// Controller reconciles the machines of all existing kinds: one queue, one Reconciler per kind. A
// kind's watch starts when its CRD is established and stops when the CRD is gone.
type Controller struct {
	*shared

	options Options

	mu    sync.RWMutex
	kinds map[schema.GroupVersionKind]*Reconciler
	// names of the CRDs whose kinds are watched.
	names map[string]schema.GroupVersionKind
	// watch starts the watch of a kind; stop ends it.
	watch func(schema.GroupVersionKind) error
	stop  func(context.Context, schema.GroupVersionKind) error
}

// Reconcile hands a machine to the Reconciler of its kind.
func (c *Controller) Reconcile(ctx context.Context, request Request) (reconcile.Result, error) {
	c.mu.RLock()
	r := c.kinds[request.Kind]
	c.mu.RUnlock()
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("kind", request.Kind.Kind, "machine", request.NamespacedName))
	if r == nil {
		return step.Result(c.options.releaseUnwatched(ctx, request))
	}
	return r.Reconcile(ctx, reconcile.Request{NamespacedName: request.NamespacedName})
}

// reconcileCRD starts and stops the kinds.
func (c *Controller) reconcileCRD(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := c.options.Live.Get(ctx, request.NamespacedName, crd)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("reading CRD %s: %w", request.Name, err)
	}
	if err != nil {
		// Only after the CRD is gone: while it is being deleted, its machines are too, and their
		// servers must be removed.
		return reconcile.Result{}, c.removeKind(ctx, request.Name)
	}
	if !isMachineCRD(crd) || !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
		return reconcile.Result{}, nil
	}
	fields, err := crdgen.FieldsFromCRD(crd)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	return reconcile.Result{}, c.addKind(ctx, crd.Name, Kind{
		GVK: rkev1.MachineGroupVersion.WithKind(crd.Spec.Names.Kind), Driver: crd.Labels[rkev1.NodeDriverLabel], Fields: fields})
}

func (c *Controller) addKind(ctx context.Context, name string, kind Kind) error {
	c.mu.Lock()
	_, known := c.kinds[kind.GVK]
	c.kinds[kind.GVK] = c.For(kind)
	c.names[name] = kind.GVK
	c.mu.Unlock()
	if known {
		return nil
	}
	log.FromContext(ctx).Info("Starting the watch of a machine kind", "kind", kind.GVK.Kind, "driver", kind.Driver)
	if err := c.watch(kind.GVK); err != nil {
		c.mu.Lock()
		delete(c.kinds, kind.GVK)
		c.mu.Unlock()
		return fmt.Errorf("watching %s: %w", kind.GVK.Kind, err)
	}
	return nil
}

func (c *Controller) removeKind(ctx context.Context, name string) error {
	c.mu.Lock()
	gvk, known := c.names[name]
	delete(c.names, name)
	delete(c.kinds, gvk)
	c.mu.Unlock()
	if !known {
		return nil
	}
	ofKind := func(r Request) bool { return r.Kind == gvk }
	c.breaker.LeaveAll(ofKind, c.options.Clock.Now())
	c.jobs.ReleaseAll(ofKind)
	log.FromContext(ctx).Info("Stopping the watch of a machine kind", "kind", gvk.Kind)
	if err := c.stop(ctx, gvk); err != nil {
		return fmt.Errorf("stopping the watch of %s: %w", gvk.Kind, err)
	}
	return nil
}

func isMachineCRD(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return crd.Spec.Group == rkev1.MachineGroupVersion.Group && strings.HasSuffix(crd.Spec.Names.Kind, "Machine") &&
		crd.Labels[rkev1.NodeDriverLabel] != ""
}

// metadataOf returns the object with which a kind is watched. The watch holds metadata only; the
// steps read the full objects when they need them.
func metadataOf(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(gvk)
	return obj
}

// Register adds the controller to a manager, whose scheme must know CAPI's, Drover's and
// apiextensions' kinds.
func (c *Controller) Register(mgr manager.Manager) error {
	queue := fairqueue.NewOf(c.options.Workers, func(item Request) string { return item.Namespace })
	machines, err := controller.NewTyped("drover-machine", mgr, controller.TypedOptions[Request]{
		Reconciler: c, MaxConcurrentReconciles: c.options.Workers, NewQueue: queue})
	if err != nil {
		return fmt.Errorf("creating the machine controller: %w", err)
	}
	c.watch = func(gvk schema.GroupVersionKind) error {
		itself := func(_ context.Context, obj *metav1.PartialObjectMetadata) []Request {
			if c.options.Edited != nil {
				c.options.Edited(obj.Namespace, obj.Labels[clusterv1.ClusterNameLabel])
			}
			return []Request{{Kind: gvk, NamespacedName: client.ObjectKeyFromObject(obj)}}
		}
		return machines.Watch(kindSource(mgr.GetCache(), metadataOf(gvk), itself, c.options.watches(), c.options.changed()))
	}
	// Removing the kind's informer removes our handler. No other code watches these kinds by their
	// metadata: Cluster API has its own informers.
	c.stop = func(ctx context.Context, gvk schema.GroupVersionKind) error {
		return mgr.GetCache().RemoveInformer(ctx, metadataOf(gvk))
	}
	// The watches that all kinds share; each maps an object to the machines that it concerns.
	informers := mgr.GetCache()
	secrets := metadataOf(corev1.SchemeGroupVersion.WithKind("Secret"))
	watched := []source.TypedSource[Request]{
		kindSource(informers, &batchv1.Job{}, c.ofJob, c.options.jobChanges()),
		kindSource(informers, &corev1.Pod{}, c.ofPod, podChanges()),
		kindSource(informers, secrets, c.ofSecret),
		kindSource(informers, &clusterv1.Machine{}, ofCAPIMachine, predicate.TypedGenerationChangedPredicate[*clusterv1.Machine]{}),
		// Those that wait for a CAPI Machine's deletion.
		kindSource(informers, &clusterv1.Machine{}, func(_ context.Context, m *clusterv1.Machine) []Request {
			return c.watchIndex.in(watchKey{kind: "Machine", name: client.ObjectKeyFromObject(m)})
		}, deletionChanges()),
		kindSource(informers, &clusterv1.Cluster{}, c.ofCluster, clusterChanges()),
		kindSource(informers, &managementv3.NodeDriver{}, c.ofNodeDriver),
		c.calls(),
	}
	for _, s := range watched {
		if err := machines.Watch(s); err != nil {
			return fmt.Errorf("watching for machines: %w", err)
		}
	}
	// The controller that follows the CRDs.
	kinds, err := controller.New("machine-kinds", mgr, controller.Options{Reconciler: reconcile.Func(c.reconcileCRD)})
	if err != nil {
		return fmt.Errorf("creating the controller of kinds: %w", err)
	}
	// The metadata are enough to detect a change; whole CRDs would fill the cache, because a
	// cluster has many.
	crds := source.Kind(mgr.GetCache(), metadataOf(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")),
		&handler.TypedEnqueueRequestForObject[*metav1.PartialObjectMetadata]{}, ofDrivers())
	if err := kinds.Watch(crds); err != nil {
		return fmt.Errorf("watching CRDs: %w", err)
	}
	if err := c.metrics.register(ctrlmetrics.Registry); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	return nil
}

// calls is the watch of the breaker's turns, and of the workload clusters' Nodes.
func (c *Controller) calls() source.TypedSource[Request] {
	return source.TypedFunc[Request](func(_ context.Context, queue workqueue.TypedRateLimitingInterface[Request]) error {
		c.breaker.OnCall(func(request Request) { queue.Add(request) })
		c.jobs.OnWake(func(request Request) { queue.Add(request) })
		if c.options.Nodes == nil {
			return nil
		}
		c.options.Nodes.OnNode(func(cluster client.ObjectKey, machine types.UID) {
			for _, request := range c.watchIndex.in(watchKey{kind: "Node", name: cluster, uid: machine}) {
				queue.Add(request)
			}
		})
		return nil
	})
}

func kindSource[T client.Object](informers cache.Cache, obj T, toRequests handler.TypedMapFunc[T, Request], filters ...predicate.TypedPredicate[T]) source.TypedSource[Request] {
	return source.TypedKind(informers, obj, handler.TypedEnqueueRequestsFromMapFunc(toRequests), filters...)
}

// ofDrivers lets pass the CRDs of drivers.
func ofDrivers() predicate.TypedPredicate[*metav1.PartialObjectMetadata] {
	return predicate.NewTypedPredicateFuncs(func(crd *metav1.PartialObjectMetadata) bool {
		return crd.Labels[rkev1.NodeDriverLabel] != ""
	})
}
