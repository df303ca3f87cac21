package capi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	addonsv1beta1 "sigs.k8s.io/cluster-api/api/addons/v1beta1" //nolint:staticcheck // Cluster API's own webhooks ask the scheme for it
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1" //nolint:staticcheck // Cluster API's own webhooks ask the scheme for it
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/core/reconcilers/cluster"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterresourceset"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterresourcesetbinding"
	"sigs.k8s.io/cluster-api/core/reconcilers/machine"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinedeployment"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinehealthcheck"
	"sigs.k8s.io/cluster-api/core/reconcilers/machineset"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/index"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/drover-project/drover/capi/guard"
	"github.com/drover-project/drover/capi/workload"
	"github.com/drover-project/drover/limit/fairqueue"
)

// ErrNotConnected means that a workload cluster is not connected yet, for example because it is
// being created.
var ErrNotConnected = clustercache.ErrClusterNotConnected

// Grace periods after which an unreachable workload cluster is reported; Cluster API's own
// defaults.
const (
	remoteConnectionGracePeriod = 50 * time.Second
	remoteConditionsGracePeriod = 5 * time.Minute
)

// Options of the embedded core.
type Options struct {
	// Concurrency is the number of objects each controller works on at a time; 10 when 0.
	Concurrency int
	// WatchFilter limits the controllers to objects with the label cluster.x-k8s.io/watch-filter of
	// this value.
	WatchFilter string
	// Embedded adds the core; without it, there is only the way into workload clusters.
	Embedded bool
}

// Setup adds Cluster API's core to the manager: indexes, reconcilers, webhooks. The manager must
// not be started yet, and its cache must be from NewCache.
func Setup(ctx context.Context, mgr manager.Manager, opts Options) (*workload.Clusters, error) {
	opts.Concurrency = cmp.Or(opts.Concurrency, 10)
	if err := setGates(); err != nil {
		return nil, err
	}
	clusters, err := workload.New(ctx, mgr, opts.WatchFilter)
	if err != nil || !opts.Embedded {
		return clusters, err
	}
	if err := mgr.Add(&handover{cache: mgr.GetCache(), live: mgr.GetAPIReader()}); err != nil {
		return nil, fmt.Errorf("adding the watch for another Cluster API: %w", err)
	}
	if err := index.AddDefaultIndexes(ctx, mgr); err != nil {
		return nil, fmt.Errorf("adding Cluster API's indexes: %w", err)
	}
	for _, one := range reconcilers(mgr, clusters, opts) {
		if err := one.setup(ctx, mgr, controller.Options{MaxConcurrentReconciles: opts.Concurrency, NewQueue: fairqueue.New(opts.Concurrency)}); err != nil {
			return nil, fmt.Errorf("adding Cluster API's controller %s: %w", one.name, err)
		}
	}
	return clusters, setupWebhooks(mgr, clusters)
}

// setGates turns off machine pools, which need a cloud's own groups, and ClusterTopology, because a
// topology replaces machines to change them. The priority queue of
// controller-runtime 0.24 sometimes blocks when it is shut down with work left. A manager that
// stops would then keep its lease for half a minute. The limit of one reconcile per second and
// object needs that queue, so it is off too.
func setGates() error {
	err := feature.MutableGates.SetFromMap(map[string]bool{
		string(feature.MachinePool):            false,
		string(feature.ClusterTopology):        false,
		string(feature.PriorityQueue):          false,
		string(feature.ReconcilerRateLimiting): false,
	})
	if err != nil {
		return fmt.Errorf("setting Cluster API's feature gates: %w", err)
	}
	return nil
}

// AddToScheme registers Cluster API's kinds. The older versions are included because the setup of
// Cluster API's webhooks needs them; Drover does not install them.
func AddToScheme(scheme *runtime.Scheme) error {
	return errors.Join(clusterv1.AddToScheme(scheme), addonsv1.AddToScheme(scheme),
		clusterv1beta1.AddToScheme(scheme), addonsv1beta1.AddToScheme(scheme))
}

type reconciler struct {
	name  string
	setup func(context.Context, manager.Manager, controller.Options) error
}

func reconcilers(mgr manager.Manager, clusters clustercache.ClusterCache, opts Options) []reconciler {
	c, reader, filter := mgr.GetClient(), mgr.GetAPIReader(), opts.WatchFilter
	resourceSets := &clusterresourceset.Reconciler{Client: guard.NewResources(c, mgr.GetEventRecorder("cluster-resource-set")), ClusterCache: clusters, WatchFilterValue: filter}
	return []reconciler{
		{"Cluster", (&cluster.Reconciler{Client: guard.Authorities{Client: c}, APIReader: reader, ClusterCache: woken{clusters, controlPlanesMade(mgr, filter)}, WatchFilterValue: filter,
			RemoteConnectionGracePeriod: remoteConnectionGracePeriod}).SetupWithManager},
		{"Machine", (&machine.Reconciler{Client: c, APIReader: reader, ClusterCache: woken{clusters, pauses(mgr, filter)}, WatchFilterValue: filter,
			RemoteConditionsGracePeriod: remoteConditionsGracePeriod}).SetupWithManager},
		{"MachineSet", (&machineset.Reconciler{Client: guard.Naming{Client: c}, APIReader: reader, ClusterCache: clusters, WatchFilterValue: filter,
			// All but the one about kubeadm, which our servers do not run.
			PreflightChecks: sets.New(clusterv1.MachineSetPreflightCheckKubernetesVersionSkew, clusterv1.MachineSetPreflightCheckControlPlaneIsStable,
				clusterv1.MachineSetPreflightCheckControlPlaneVersionSkew)}).SetupWithManager},
		{"MachineDeployment", (&machinedeployment.Reconciler{Client: guard.Naming{Client: c}, APIReader: reader, WatchFilterValue: filter}).SetupWithManager},
		{"MachineHealthCheck", (&machinehealthcheck.Reconciler{Client: c, ClusterCache: clusters, WatchFilterValue: filter}).SetupWithManager},
		{"ClusterResourceSet", func(ctx context.Context, mgr manager.Manager, options controller.Options) error {
			return resourceSets.SetupWithManager(ctx, mgr, options, mgr.GetCache())
		}},
		{"ClusterResourceSetBinding", (&clusterresourcesetbinding.Reconciler{Client: c, WatchFilterValue: filter}).SetupWithManager},
	}
}

// The rights of the embedded core. The rules are those in Cluster API's own manager role, without
// the parts that Drover does not embed; a test compares them.
//
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;clusters/status;clusters/finalizers;machinedrainrules;machinehealthchecks/status;machinehealthchecks/finalizers,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines;machines/status;machines/finalizers;machinesets;machinesets/status;machinesets/finalizers;machinedeployments;machinedeployments/status;machinedeployments/finalizers;machinehealthchecks;machinepools;machinepools/status;machinepools/finalizers,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=addons.cluster.x-k8s.io;bootstrap.cluster.x-k8s.io;controlplane.cluster.x-k8s.io;infrastructure.cluster.x-k8s.io,resources=*,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=addons.cluster.x-k8s.io,resources=clusterresourcesets/status;clusterresourcesets/finalizers,verbs=get;update;patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;update;patch;delete
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
