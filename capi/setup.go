package capi

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/index"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/drover-project/drover/capi/guard"
	"github.com/drover-project/drover/capi/workload"
	"github.com/drover-project/drover/fairqueue"
)

// Grace periods after which a workload cluster that does not answer is reported so; Cluster API's own defaults.
const (
	remoteConnectionGracePeriod = 50 * time.Second
	remoteConditionsGracePeriod = 5 * time.Minute
)

// Options of the embedded core.
type Options struct {
	// Concurrency is the number of objects each controller works on at a time; 10 when 0.
	Concurrency int
	// WatchFilter limits the controllers to objects with the label cluster.x-k8s.io/watch-filter of this value.
	WatchFilter string
	// Embedded adds the core; without it, there is only the way into workload clusters.
	Embedded bool
}

// Setup adds Cluster API's core to the manager: indexes, reconcilers, webhooks. The manager must not be started yet, and
// its cache must be from NewCache.
func Setup(ctx context.Context, mgr manager.Manager, opts Options) (*workload.Clusters, error) {
	if opts.Concurrency == 0 {
		opts.Concurrency = 10
	}
	if err := setGates(); err != nil {
		return nil, err
	}
	clusters, err := workload.New(ctx, mgr, opts.WatchFilter)
	if err != nil || !opts.Embedded {
		return clusters, err
	}
	if err := mgr.Add(&handover{cache: mgr.GetCache(), live: mgr.GetAPIReader()}); err != nil {
		return nil, fmt.Errorf("adding the look for another Cluster API: %w", err)
	}
	if err := index.AddDefaultIndexes(ctx, mgr); err != nil {
		return nil, fmt.Errorf("adding Cluster API's indexes: %w", err)
	}
	patterns := &guard.Patterns{}
	for _, one := range reconcilers(mgr, clusters.Cache(), opts, patterns) {
		if err := one.setup(ctx, mgr, controller.Options{MaxConcurrentReconciles: opts.Concurrency, NewQueue: fairqueue.New(opts.Concurrency)}); err != nil {
			return nil, fmt.Errorf("adding Cluster API's controller %s: %w", one.name, err)
		}
	}
	return clusters, setupWebhooks(mgr, clusters.Cache(), patterns)
}

// setGates turns off what a driver cannot give (machine pools need a cloud's own groups) and on what our templates are made
// for. The priority queue of controller-runtime 0.24 now and then blocks when it is shut down with work left, so that a
// manager that stops keeps its lease for half a minute; the limit to one reconcile per second and object goes with it.
func setGates() error {
	err := feature.MutableGates.SetFromMap(map[string]bool{
		string(feature.MachinePool):            false,
		string(feature.ClusterTopology):        true,
		string(feature.PriorityQueue):          false,
		string(feature.ReconcilerRateLimiting): false,
	})
	if err != nil {
		return fmt.Errorf("setting Cluster API's feature gates: %w", err)
	}
	return nil
}
