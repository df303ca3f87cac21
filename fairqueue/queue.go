// Package fairqueue is a controller's queue that namespaces take turns at, and of whose workers no namespace has all: who has a thousand objects
// that take long waits for himself.
//
// It reads and writes nothing. Who asks: capi, and the controllers of kinds that tenants make.
package fairqueue

import (
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// New makes what a controller with so many workers makes its queue with. The last fifth of the workers, and one at least, is for namespaces that have
// none at work; a single worker is everybody's.
func New(workers int) func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	const reserve = 5
	free := max(1, workers-max(1, workers/reserve))
	return func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		plain := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: newTurns()})
		shared := &queue{TypedInterface: plain, free: free, working: map[string]int{}, parked: newTurns()}
		delayed := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{Name: name, Queue: shared})
		return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: name, DelayingQueue: delayed})
	}
}

// turns is what waits, each namespace's in its order. The queue around it locks.
type turns struct {
	of map[string]workqueue.Queue[reconcile.Request]
	// order are the namespaces that wait, the next first.
	order []string
	sum   int
}

func newTurns() *turns { return &turns{of: map[string]workqueue.Queue[reconcile.Request]{}} }

// Touch implements workqueue.Queue.
func (*turns) Touch(reconcile.Request) {}

// Push implements workqueue.Queue.
func (t *turns) Push(item reconcile.Request) {
	own := t.of[item.Namespace]
	if own == nil {
		own = workqueue.DefaultQueue[reconcile.Request]()
		t.of[item.Namespace] = own
		t.order = append(t.order, item.Namespace)
	}
	own.Push(item)
	t.sum++
}

// Len implements workqueue.Queue.
func (t *turns) Len() int { return t.sum }

// Pop implements workqueue.Queue.
func (t *turns) Pop() reconcile.Request { return t.take(t.order[0]) }

// take takes a namespace's first, and puts the namespace behind the others.
func (t *turns) take(namespace string) reconcile.Request {
	t.order = slices.DeleteFunc(t.order, func(one string) bool { return one == namespace })
	own := t.of[namespace]
	item := own.Pop()
	t.sum--
	if own.Len() > 0 {
		t.order = append(t.order, namespace)
	} else {
		delete(t.of, namespace)
	}
	return item
}

// queue keeps back what is of a namespace that has workers already when only those in reserve are left.
type queue struct {
	workqueue.TypedInterface[reconcile.Request]

	// free is how many workers anybody may have.
	free int

	mu      sync.Mutex
	working map[string]int
	busy    int
	// parked were taken from the queue and wait for somebody to be done.
	parked *turns
}

// Get implements workqueue.TypedInterface.
func (q *queue) Get() (reconcile.Request, bool) {
	for {
		item, shutdown := q.TypedInterface.Get()
		if shutdown || q.begin(item) {
			return item, shutdown
		}
	}
}

func (q *queue) begin(item reconcile.Request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.working[item.Namespace] > 0 && q.busy >= q.free {
		q.parked.Push(item)
		return false
	}
	q.working[item.Namespace]++
	q.busy++
	return true
}

// Done implements workqueue.TypedInterface.
func (q *queue) Done(item reconcile.Request) {
	q.TypedInterface.Done(item)
	for _, next := range q.end(item.Namespace) {
		// For the queue it was worked on, and is wanted again.
		q.Add(next)
		q.TypedInterface.Done(next)
	}
}

// end gives back a worker, and returns what that lets go on: one of a namespace that has no worker any more, and one of whose turn it is.
func (q *queue) end(namespace string) (next []reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy--
	if q.working[namespace]--; q.working[namespace] == 0 {
		delete(q.working, namespace)
		if q.parked.of[namespace] != nil {
			next = append(next, q.parked.take(namespace))
		}
	}
	if q.busy+len(next) < q.free && q.parked.Len() > 0 {
		next = append(next, q.parked.Pop())
	}
	return next
}
