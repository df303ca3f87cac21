package machine

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/capi/workload"
	"github.com/drover-project/drover/controllers/machine/breaker"
	"github.com/drover-project/drover/controllers/machine/joblimit"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/credential"
	"github.com/drover-project/drover/jobrunner"
)

// FieldOwner of everything this controller applies.
const FieldOwner = "drover-machine"

// NodeFinder looks into a workload cluster. It returns an empty string and no error while the cluster cannot be reached yet
// or has no such Node.
type NodeFinder interface {
	// ProviderID of the Node that a server became, which gets the label rke.cattle.io/machine and, if it has no provider ID, the server's.
	ProviderID(ctx context.Context, cluster client.ObjectKey, server workload.Server) (string, error)
	// OnNode has wake called when a further look for a machine's Node may find more than the last one; an empty machine means
	// every machine of the cluster. wake does not block.
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
	// Recorder writes events.
	Recorder events.EventRecorder
	// Settings of the Jobs.
	Settings jobrunner.Settings
	// Nodes finds provider IDs that no driver's record tells; without it they are waited for.
	Nodes NodeFinder
	// WatchFilter limits the machines to those whose label cluster.x-k8s.io/watch-filter has this value; empty for all.
	WatchFilter string
	// TrustedCredentialNamespaces are namespaces with credentials of Rancher's that machines of every namespace may use.
	TrustedCredentialNamespaces []string
	// Management is the UID of the namespace kube-system, which the servers' tags tell; empty when it is not known.
	Management string
	// Clock is the real one by default.
	Clock clock.PassiveClock
	// MaxConcurrentJobs is how many machines may have a Job at the same time; any number when 0.
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

// How long to wait for what watches do not tell; see step.Wait.
const (
	// adoptionGrace is how long Cluster API may take to adopt a machine that it just made, before anything is said of it.
	adoptionGrace = 10 * time.Second
	// safetyNet is when to look again at what watches tell: pods, Jobs that are being cancelled, Nodes.
	safetyNet = 5 * time.Minute
	// fallbackCheck is how often it is tried to make in another namespace what cannot be made in one that is going, and
	// foreignCheck how often a Job that is not ours is looked at: neither is watched.
	fallbackCheck = 5 * time.Second
	foreignCheck  = time.Minute
	// heldCheck is how often a machine looks whose turn it is not, and who is called when it is.
	heldCheck = 30 * time.Minute
)

const defaultWorkers = 16

// Reconciler reconciles the machines of one kind.
type Reconciler struct {
	Options
	kind        Kind
	watchIndex  *watchIndex
	metrics     *metrics
	breaker     *breaker.Breaker[Request]
	jobs        *jobs
	labelled    *labelled
	credentials credential.Source
	applier     apply.Applier
	// settings stands for those of the Jobs: their proxy and certificates, their image and limits.
	settings string
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
	return &Controller{options: o, watchIndex: newWatchIndex(), metrics: newMetrics(), breaker: breaker.New[Request](jobrunner.Wait), jobs: &jobs{Limiter: joblimit.New[Request](o.MaxConcurrentJobs)}, labelled: &labelled{},
		kinds: map[schema.GroupVersionKind]*Reconciler{}, names: map[string]schema.GroupVersionKind{}}
}

// For makes the Reconciler of one kind.
func (c *Controller) For(kind Kind) *Reconciler {
	return &Reconciler{Options: c.options, kind: kind, settings: hashOf(c.options.Settings), watchIndex: c.watchIndex, metrics: c.metrics, breaker: c.breaker, jobs: c.jobs, labelled: c.labelled,
		credentials: credential.Source{Reader: c.options.Live, Trusted: c.options.TrustedCredentialNamespaces},
		applier:     apply.Applier{Client: c.options.Client, Reader: c.options.Live, Owner: FieldOwner}}
}
