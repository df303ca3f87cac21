package capi

import (
	"context"

	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/core/reconcilers/cluster"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterclass"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterresourceset"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterresourcesetbinding"
	"sigs.k8s.io/cluster-api/core/reconcilers/machine"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinedeployment"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinehealthcheck"
	"sigs.k8s.io/cluster-api/core/reconcilers/machineset"
	topologycluster "sigs.k8s.io/cluster-api/core/reconcilers/topology/cluster"
	topologymachinedeployment "sigs.k8s.io/cluster-api/core/reconcilers/topology/machinedeployment"
	topologymachineset "sigs.k8s.io/cluster-api/core/reconcilers/topology/machineset"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/drover-project/drover/capi/guard"
)

type reconciler struct {
	name  string
	setup func(context.Context, manager.Manager, controller.Options) error
}

func reconcilers(mgr manager.Manager, clusters clustercache.ClusterCache, opts Options, patterns *guard.Patterns) []reconciler {
	return append(coreReconcilers(mgr, clusters, opts), topologyReconcilers(mgr, clusters, opts, patterns)...)
}

func coreReconcilers(mgr manager.Manager, clusters clustercache.ClusterCache, opts Options) []reconciler {
	c, reader, filter := mgr.GetClient(), mgr.GetAPIReader(), opts.WatchFilter
	resourceSets := &clusterresourceset.Reconciler{Client: guard.NewResources(c, mgr.GetEventRecorder("cluster-resource-set")), ClusterCache: clusters, WatchFilterValue: filter}
	return []reconciler{
		{"Cluster", (&cluster.Reconciler{Client: guard.Authorities{Client: c}, APIReader: reader, ClusterCache: clusters, WatchFilterValue: filter,
			RemoteConnectionGracePeriod: remoteConnectionGracePeriod}).SetupWithManager},
		{"Machine", (&machine.Reconciler{Client: c, APIReader: reader, ClusterCache: pauses{clusters, mgr, filter}, WatchFilterValue: filter,
			RemoteConditionsGracePeriod: remoteConditionsGracePeriod}).SetupWithManager},
		{"MachineSet", (&machineset.Reconciler{Client: guard.Naming{Client: c}, APIReader: reader, ClusterCache: clusters, WatchFilterValue: filter,
			PreflightChecks: preflightChecks()}).SetupWithManager},
		{"MachineDeployment", (&machinedeployment.Reconciler{Client: guard.Naming{Client: c}, APIReader: reader, WatchFilterValue: filter}).SetupWithManager},
		{"MachineHealthCheck", (&machinehealthcheck.Reconciler{Client: c, ClusterCache: clusters, WatchFilterValue: filter}).SetupWithManager},
		{"ClusterResourceSet", func(ctx context.Context, mgr manager.Manager, options controller.Options) error {
			return resourceSets.SetupWithManager(ctx, mgr, options, mgr.GetCache())
		}},
		{"ClusterResourceSetBinding", (&clusterresourcesetbinding.Reconciler{Client: c, WatchFilterValue: filter}).SetupWithManager},
	}
}

func topologyReconcilers(mgr manager.Manager, clusters clustercache.ClusterCache, opts Options, patterns *guard.Patterns) []reconciler {
	c, reader, filter := mgr.GetClient(), mgr.GetAPIReader(), opts.WatchFilter
	return []reconciler{
		{"ClusterClass", (&clusterclass.Reconciler{Client: guard.Classes{Client: c, Patterns: patterns}, WatchFilterValue: filter}).SetupWithManager},
		{"ClusterTopology", (&topologycluster.Reconciler{Client: guard.NewTopology(c, mgr.GetEventRecorder("cluster-class"), patterns), APIReader: reader, ClusterCache: clusters, WatchFilterValue: filter}).SetupWithManager},
		{"MachineDeploymentTopology", (&topologymachinedeployment.Reconciler{Client: c, APIReader: reader, WatchFilterValue: filter}).SetupWithManager},
		{"MachineSetTopology", (&topologymachineset.Reconciler{Client: c, APIReader: reader, WatchFilterValue: filter}).SetupWithManager},
	}
}

// preflightChecks are all but the one about kubeadm, which our servers do not run.
func preflightChecks() sets.Set[clusterv1.MachineSetPreflightCheck] {
	return sets.New(
		clusterv1.MachineSetPreflightCheckKubernetesVersionSkew,
		clusterv1.MachineSetPreflightCheckControlPlaneIsStable,
		clusterv1.MachineSetPreflightCheckControlPlaneVersionSkew,
	)
}
