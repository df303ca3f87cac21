// Package fairqueue is a controller's queue that namespaces take turns at, and of whose workers no namespace has all: who has a thousand objects
// that take long waits for himself.
//
// It reads and writes nothing. Who asks: capi and controllers/serverscan.
package fairqueue

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// New makes what a controller with so many workers makes its queue with. A fifth of the workers, and one at least, are not for the namespace that
// has all others; a single worker is everybody's.
func New(workers int) func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	const reserve = 5
	share := max(1, workers-max(1, workers/reserve))
	return func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		waiting := &turns{of: map[string]workqueue.Queue[reconcile.Request]{}}
		plain := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: waiting})
		shared := &queue{TypedInterface: plain, share: share, working: map[string]int{}, parked: map[string][]reconcile.Request{}}
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
func (t *turns) Pop() reconcile.Request {
	namespace := t.order[0]
	t.order = t.order[1:]
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

// queue keeps back what is of a namespace that has its share of the workers.
type queue struct {
	workqueue.TypedInterface[reconcile.Request]

	share int

	mu      sync.Mutex
	working map[string]int
	// parked were taken from the queue and wait for another of their namespace to be done.
	parked map[string][]reconcile.Request
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
	if q.working[item.Namespace] == q.share {
		q.parked[item.Namespace] = append(q.parked[item.Namespace], item)
		return false
	}
	q.working[item.Namespace]++
	return true
}

// Done implements workqueue.TypedInterface.
func (q *queue) Done(item reconcile.Request) {
	q.TypedInterface.Done(item)
	if next, ok := q.end(item.Namespace); ok {
		// For the queue it was worked on, and is wanted again.
		q.Add(next)
		q.TypedInterface.Done(next)
	}
}

func (q *queue) end(namespace string) (next reconcile.Request, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.working[namespace]--; q.working[namespace] == 0 {
		delete(q.working, namespace)
	}
	waiting := q.parked[namespace]
	if len(waiting) == 0 {
		return next, false
	}
	if q.parked[namespace] = waiting[1:]; len(waiting) == 1 {
		delete(q.parked, namespace)
	}
	return waiting[0], true
}
