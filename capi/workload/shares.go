package workload

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

// What the Clusters of one namespace may take of the manager at a time, whatever their API servers do.
const (
	// connectPlaces is how many Clusters of a namespace are contacted or probed at the same time.
	connectPlaces = 8
	// callPlaces is how many calls to their API servers wait for an answer at the same time. Each of them keeps one worker of one of Cluster
	// API's controllers, of which there are ten by default.
	callPlaces = 4
	// listPlaces is how many first lists of Nodes are read at the same time: of a namespace, and of all.
	listPlaces, allListPlaces = 1, 2
	// bytesPerSecond is how fast answers are read, after a burst.
	bytesPerSecond, bytesBurst = 2 << 20, 32 << 20
	// eventsPerSecond is how fast events of watches are read, after a burst: each may have a Machine looked at. A kubelet reports what has not changed
	// every five minutes (nodeStatusReportFrequency), so that 6,000 Nodes of a namespace stay below it.
	eventsPerSecond, eventsBurst = 20, 5000
	// heldByNamespace, heldByAll and heldByCluster bound the Nodes in memory, in bytes as heldSize estimates them.
	heldByCluster, heldByNamespace, heldByAll = 24 << 20, 64 << 20, 128 << 20
)

// errHeld means that the Nodes of a cluster do not fit into the share.
var errHeld = errors.New("its Nodes take more memory than the Clusters of one namespace may have")

// places are things of which a limited number is taken at a time.
type places struct{ *semaphore.Weighted }

func newPlaces(number int64) places { return places{semaphore.NewWeighted(number)} }

// take takes a place, when there is one before the wait is over.
func (p places) take(ctx context.Context, wait time.Duration) (release func(), ok bool) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if !p.TryAcquire(1) && p.Acquire(ctx, 1) != nil {
		return nil, false
	}
	return sync.OnceFunc(func() { p.Release(1) }), true
}

// share is what the Clusters of one namespace have together.
type share struct {
	connects, calls, lists places
	bytes, events          *rate.Limiter
	pages                  pages
	held                   int
}

// shares are those of all namespaces.
type shares struct {
	mu       sync.Mutex
	of       map[string]*share
	allLists places
	held     int
}

func newShares() *shares { return &shares{of: map[string]*share{}, allLists: newPlaces(allListPlaces)} }

func (s *shares) namespace(name string) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.of[name]
	if !ok {
		one = &share{connects: newPlaces(connectPlaces), calls: newPlaces(callPlaces), lists: newPlaces(listPlaces),
			bytes: rate.NewLimiter(bytesPerSecond, bytesBurst), events: rate.NewLimiter(eventsPerSecond, eventsBurst)}
		s.of[name] = one
	}
	return one
}

// holding counts what one connection keeps in memory. What was kept once counts until the connection ends, for whoever deletes and
// makes objects could otherwise not be told from who has many; a connection that is made anew begins with nothing.
type holding struct {
	all   *shares
	share *share
	sizes map[string]int
	sum   int
	ended bool
}

// hold counts an object that is about to be kept.
func (h *holding) hold(name string, size int) error {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	more := size - h.sizes[name]
	if h.ended || h.sum+more > heldByCluster || h.share.held+more > heldByNamespace || h.all.held+more > heldByAll {
		return errHeld
	}
	h.sizes[name] = size
	h.sum += more
	h.share.held += more
	h.all.held += more
	return nil
}

// end gives everything back.
func (h *holding) end() {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	h.share.held -= h.sum
	h.all.held -= h.sum
	h.sum, h.sizes, h.ended = 0, nil, true
}
