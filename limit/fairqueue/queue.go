// Package fairqueue is a work queue for controllers. Namespaces take turns, and no namespace gets
// all workers: the objects of a namespace with many slow objects wait for each other.
//
// It is not a semaphore: a reconcile that waited for a permit would hold a worker. It reads and
// writes nothing. Users: capi, and the controllers of kinds that tenants create.
package fairqueue

import (
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// New returns the constructor of the queue for a controller with that many workers. The last fifth
// of the workers, and at least one, is reserved for namespaces that have no worker; a single worker
// is not reserved.
func New(workers int) Maker[reconcile.Request] {
	return NewOf(workers, func(item reconcile.Request) string { return item.Namespace })
}

// Maker is the type of controller-runtime's Options.NewQueue.
type Maker[T comparable] = func(name string, limiter workqueue.TypedRateLimiter[T]) workqueue.TypedRateLimitingInterface[T]

// NewOf is New for a controller with another type of requests, whose namespaces the function
// returns.
func NewOf[T comparable](workers int, namespace func(T) string) Maker[T] {
	const reserve = 5
	free := max(1, workers-max(1, workers/reserve))
	return func(name string, limiter workqueue.TypedRateLimiter[T]) workqueue.TypedRateLimitingInterface[T] {
		plain := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Name: name, Queue: newTurns(namespace)})
		shared := &queue[T]{TypedInterface: plain, free: free, working: map[string]int{}, parked: newTurns(namespace), called: map[T]bool{}}
		delayed := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{Name: name, Queue: shared})
		return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[T]{Name: name, DelayingQueue: delayed})
	}
}

// turns holds the waiting requests, in order per namespace. The queue around it locks.
type turns[T comparable] struct {
	namespace func(T) string
	of        map[string]workqueue.Queue[T]
	// order are the namespaces that wait, the next first.
	order []string
	sum   int
}

func newTurns[T comparable](namespace func(T) string) *turns[T] {
	return &turns[T]{namespace: namespace, of: map[string]workqueue.Queue[T]{}}
}

// Touch implements workqueue.Queue.
func (*turns[T]) Touch(T) {}

// Push implements workqueue.Queue.
func (t *turns[T]) Push(item T) {
	namespace := t.namespace(item)
	own := t.of[namespace]
	if own == nil {
		own = workqueue.DefaultQueue[T]()
		t.of[namespace] = own
		t.order = append(t.order, namespace)
	}
	own.Push(item)
	t.sum++
}

// Len implements workqueue.Queue.
func (t *turns[T]) Len() int { return t.sum }

// Pop implements workqueue.Queue.
func (t *turns[T]) Pop() T { return t.take(t.order[0]) }

// take takes a namespace's first, and puts the namespace behind the others.
func (t *turns[T]) take(namespace string) T {
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

// queue holds back the requests of a namespace that already has workers while only reserved workers
// are free.
type queue[T comparable] struct {
	workqueue.TypedInterface[T]

	// free is the number of workers that any namespace may use.
	free int

	mu      sync.Mutex
	working map[string]int
	busy    int
	// parked requests were taken from the queue and wait for a worker.
	parked *turns[T]
	// called requests were parked and have a worker each that will take them. A request that
	// returns as soon as it is done waits behind them: if it went first, its changes would be
	// reconciled one by one.
	called map[T]bool
}

// Get implements workqueue.TypedInterface.
func (q *queue[T]) Get() (T, bool) {
	for {
		item, shutdown := q.TypedInterface.Get()
		if shutdown || q.begin(item) {
			return item, shutdown
		}
	}
}

func (q *queue[T]) begin(item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.called[item] {
		delete(q.called, item)
		return true
	}
	if namespace := q.parked.namespace(item); q.working[namespace] > 0 && q.busy >= q.free {
		q.parked.Push(item)
		return false
	}
	q.give(item)
	return true
}

func (q *queue[T]) give(item T) {
	q.working[q.parked.namespace(item)]++
	q.busy++
}

// Done implements workqueue.TypedInterface.
func (q *queue[T]) Done(item T) {
	q.TypedInterface.Done(item)
	for _, next := range q.end(q.parked.namespace(item)) {
		// For the queue it was worked on, and is wanted again.
		q.Add(next)
		q.TypedInterface.Done(next)
	}
}

// end returns a worker, and the requests that can now continue: one of a namespace without a
// worker, and the next in turn.
func (q *queue[T]) end(namespace string) (next []T) {
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
	for _, item := range next {
		q.give(item)
		q.called[item] = true
	}
	return next
}
