package workload

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/drover-project/drover/limit"
)

// The Clusters of one namespace have these limits together, whatever their API servers do.
const (
	// maxConnects is how many Clusters of a namespace are contacted or probed at the same time.
	maxConnects = 8
	// maxCalls bounds the calls to their API servers that wait for a response at the same time.
	// Each of them keeps one worker of one of Cluster API's controllers, which have ten by default.
	maxCalls = 4
	// maxLists bounds the first lists of Nodes that are read at the same time: per namespace, and
	// in total.
	maxLists, maxAllLists = 1, 2
	// bytesPerSecond is how fast answers are read, after a burst.
	bytesPerSecond, bytesBurst = 2 << 20, 32 << 20
	// eventsPerSecond is the rate at which events of watches are read, after a burst: the manager
	// may reconcile a Machine for each. A kubelet reports an unchanged status every five minutes
	// (nodeStatusReportFrequency), so that 6,000 Nodes of a namespace stay below the rate.
	eventsPerSecond, eventsBurst = 20, 5000
	// heldByNamespace, heldByAll and heldByCluster bound the Nodes in memory, in bytes as heldSize
	// estimates them.
	heldByCluster, heldByNamespace, heldByAll = 24 << 20, 64 << 20, 128 << 20
)

// errHeld means that the Nodes of a cluster do not fit into the quota.
var errHeld = errors.New("its Nodes exceed the memory budget of the namespace's Clusters")

// limits holds the limits of all namespaces. Their keys are namespaces.
type limits struct {
	connects, calls, lists *limit.Semaphore[string]
	bytes, events          *limit.Buckets[string]
	held                   *limit.Quota[string, *holding]

	mu    sync.Mutex
	pages map[string]*pages
}

func newLimits() *limits {
	return &limits{connects: limit.NewSemaphore[string](maxConnects, 0), calls: limit.NewSemaphore[string](maxCalls, 0),
		lists: limit.NewSemaphore[string](maxLists, maxAllLists), bytes: limit.NewBuckets[string](bytesPerSecond, bytesBurst),
		events: limit.NewBuckets[string](eventsPerSecond, eventsBurst), held: limit.NewQuota[string, *holding](heldByNamespace, heldByAll),
		pages: map[string]*pages{}}
}

// tenant has the limits of the Clusters of one namespace.
type tenant struct {
	*limits

	namespace string
	// pages is a separate limiter: a paged list holds bytes while it is read, and no single call
	// could release them.
	pages *pages
}

func (l *limits) tenant(namespace string) *tenant {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pages[namespace] == nil {
		l.pages[namespace] = &pages{}
	}
	return &tenant{limits: l, namespace: namespace, pages: l.pages[namespace]}
}

// acquire takes a permit of the namespace, if one is free before the wait is over.
func (t *tenant) acquire(ctx context.Context, from *limit.Semaphore[string], wait time.Duration) (release func(), ok bool) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	release, err := from.Acquire(ctx, t.namespace)
	return release, err == nil
}

// holding counts the Nodes that one connection keeps in memory. A Node counts until the connection
// ends, also after its deletion: a server that deletes and creates objects could otherwise not be
// told from one that has many. A new connection begins at zero.
type holding struct {
	tenant *tenant

	mu    sync.Mutex
	sizes map[string]int
	sum   int
	ended bool
}

func (t *tenant) holding() *holding { return &holding{tenant: t, sizes: map[string]int{}} }

// hold counts an object that is about to be kept.
func (h *holding) hold(name string, size int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	sum := h.sum + size - h.sizes[name]
	if h.ended || sum > heldByCluster || !h.tenant.held.Set(h.tenant.namespace, h, sum) {
		return errHeld
	}
	h.sizes[name] = size
	h.sum = sum
	return nil
}

// end gives everything back.
func (h *holding) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tenant.held.Delete(h)
	h.sizes = nil
	h.ended = true
}
