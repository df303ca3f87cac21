package limit

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// Queue is a semaphore whose callers are reconciled, so that they must not block: a caller gets a
// permit or its place in the queue, and wake is called when it is served. A free permit goes to the
// namespace that holds the fewest, there to a caller with priority, otherwise to the caller that
// came first.
//
// All is in memory. After a restart, the callers that already work call Hold first. The zero value
// sets no limit.
type Queue[K comparable] struct {
	// Limit is how many callers may hold a permit at the same time; 0 sets no limit.
	Limit int

	mu sync.Mutex
	// holders are the callers with a permit, and their namespaces.
	holders  map[K]string
	waiting  map[K]*waiter
	arrivals uint64
	wake     func(K)
}

type waiter struct {
	namespace string
	priority  bool
	arrival   uint64
	// ahead is the number that Acquire returned last, or for which the caller was woken.
	ahead int
}

// NewQueue creates a Queue; a limit of 0 means unlimited.
func NewQueue[K comparable](limit int) *Queue[K] {
	return &Queue[K]{Limit: limit, holders: map[K]string{}, waiting: map[K]*waiter{}, wake: func(K) {}}
}

// OnWake sets the function that is called with each caller that gets a permit, and with each that
// has far fewer callers ahead than Acquire returned. The function must not block, and not call the
// Queue.
func (q *Queue[K]) OnWake(wake func(K)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wake = wake
}

// Acquire reports whether a caller has a permit, and otherwise how many others are ahead of it.
func (q *Queue[K]) Acquire(k K, namespace string, priority bool) (ok bool, ahead int) {
	if q.Limit <= 0 {
		return true, 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.holders[k]; ok {
		return true, 0
	}
	w := q.waiting[k]
	if w == nil {
		q.arrivals++
		w = &waiter{namespace: namespace, arrival: q.arrivals}
		q.waiting[k] = w
	}
	w.priority = priority
	q.admit(k)
	if _, ok := q.holders[k]; ok {
		return true, 0
	}
	w.ahead = slices.Index(q.order(), k)
	return false, w.ahead
}

// Hold gives a caller a permit, also above the limit: it already works.
func (q *Queue[K]) Hold(k K, namespace string) {
	if q.Limit <= 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.waiting, k)
	q.holders[k] = namespace
}

// Knows reports whether a caller holds a permit, or waits for one.
func (q *Queue[K]) Knows(k K) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, holds := q.holders[k]
	return holds || q.waiting[k] != nil
}

// Release takes the permit of a caller back, or its place in the queue.
func (q *Queue[K]) Release(k K) { q.ReleaseAll(func(other K) bool { return other == k }) }

// ReleaseAll does the same for each caller for which gone is true.
func (q *Queue[K]) ReleaseAll(gone func(K) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := len(q.holders) + len(q.waiting)
	maps.DeleteFunc(q.holders, func(k K, _ string) bool { return gone(k) })
	maps.DeleteFunc(q.waiting, func(k K, _ *waiter) bool { return gone(k) })
	if len(q.holders)+len(q.waiting) == before {
		return
	}
	var none K
	q.admit(none)
	for ahead, k := range q.order() {
		// The caller writes the number into a status: it is woken when the number has halved, not
		// each time.
		if w := q.waiting[k]; ahead <= w.ahead/2 && ahead < w.ahead {
			w.ahead = ahead
			q.wake(k)
		}
	}
}

// admit gives the free permits away. It does not wake the caller that asks.
func (q *Queue[K]) admit(asks K) {
	free := q.Limit - len(q.holders)
	if free <= 0 || len(q.waiting) == 0 {
		return
	}
	for _, k := range q.order()[:min(free, len(q.waiting))] {
		q.holders[k] = q.waiting[k].namespace
		delete(q.waiting, k)
		if k != asks {
			q.wake(k)
		}
	}
}

// order returns the callers that wait, the next first: a namespace's next caller follows when every
// other waiting namespace has as many permits.
func (q *Queue[K]) order() []K {
	all := slices.SortedFunc(maps.Keys(q.waiting), func(a, b K) int {
		one, other := q.waiting[a], q.waiting[b]
		if one.priority != other.priority {
			if one.priority {
				return -1
			}
			return 1
		}
		return cmp.Compare(one.arrival, other.arrival)
	})
	has, level := map[string]int{}, map[K]int{}
	for _, namespace := range q.holders {
		has[namespace]++
	}
	for _, k := range all {
		namespace := q.waiting[k].namespace
		level[k] = has[namespace]
		has[namespace]++
	}
	slices.SortFunc(all, func(a, b K) int {
		return cmp.Or(cmp.Compare(level[a], level[b]), cmp.Compare(q.waiting[a].arrival, q.waiting[b].arrival))
	})
	return all
}
