// Package joblimit decides which machines may start a Job while only so many may run at once.
//
// It reads nothing and writes nothing: package machine asks before each Job, tells of those that run, and is told who goes next. All is in
// memory; after a restart the Jobs that run are told first.
package joblimit

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// Limiter lets at most so many machines have a Job at once. A place that becomes free goes to the namespace with the fewest, there to a
// removal before a creation, and else to whoever came first. Its zero value sets no limit.
type Limiter[K comparable] struct {
	// Limit is how many Jobs may run at once; 0 for any number.
	Limit int

	mu sync.Mutex
	// running are the machines that have a Job, or may start one, with their namespaces.
	running  map[K]string
	waiting  map[K]*waiter
	arrivals uint64
	wake     func(K)
}

type waiter struct {
	namespace string
	removal   bool
	arrival   uint64
	// told is how many it was told are ahead.
	told int
}

// New makes a Limiter; a limit of 0 is none.
func New[K comparable](limit int) *Limiter[K] {
	return &Limiter[K]{Limit: limit, running: map[K]string{}, waiting: map[K]*waiter{}, wake: func(K) {}}
}

// OnWake has wake called with each machine that may start its Job now, and with those that have far fewer ahead than they were told. It
// must not block, and not ask back.
func (l *Limiter[K]) OnWake(wake func(K)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wake = wake
}

// Acquire reports whether a machine may start its Job, and else how many others are ahead of it.
func (l *Limiter[K]) Acquire(k K, namespace string, removal bool) (ok bool, ahead int) {
	if l.Limit <= 0 {
		return true, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.running[k]; ok {
		return true, 0
	}
	w := l.waiting[k]
	if w == nil {
		l.arrivals++
		w = &waiter{namespace: namespace, arrival: l.arrivals}
		l.waiting[k] = w
	}
	w.removal = removal
	l.admit(k)
	if _, ok := l.running[k]; ok {
		return true, 0
	}
	w.told = slices.Index(l.order(), k)
	return false, w.told
}

// Hold tells that a machine has a Job, whether there was room for it or not.
func (l *Limiter[K]) Hold(k K, namespace string) {
	if l.Limit <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, k)
	l.running[k] = namespace
}

// Knows reports whether a machine has a place, or waits for one.
func (l *Limiter[K]) Knows(k K) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, runs := l.running[k]
	return runs || l.waiting[k] != nil
}

// Release tells that a machine has no Job and wants none.
func (l *Limiter[K]) Release(k K) { l.ReleaseAll(func(other K) bool { return other == k }) }

// ReleaseAll does the same for all machines that gone picks.
func (l *Limiter[K]) ReleaseAll(gone func(K) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.running) + len(l.waiting)
	maps.DeleteFunc(l.running, func(k K, _ string) bool { return gone(k) })
	maps.DeleteFunc(l.waiting, func(k K, _ *waiter) bool { return gone(k) })
	if len(l.running)+len(l.waiting) == before {
		return
	}
	var nobody K
	l.admit(nobody)
	for ahead, k := range l.order() {
		// Each change of the number would be a write: it is told again when it has halved.
		if w := l.waiting[k]; ahead <= w.told/2 && ahead < w.told {
			w.told = ahead
			l.wake(k)
		}
	}
}

// admit gives the free places away; whoever asks need not be called.
func (l *Limiter[K]) admit(asks K) {
	free := l.Limit - len(l.running)
	if free <= 0 || len(l.waiting) == 0 {
		return
	}
	for _, k := range l.order()[:min(free, len(l.waiting))] {
		l.running[k] = l.waiting[k].namespace
		delete(l.waiting, k)
		if k != asks {
			l.wake(k)
		}
	}
}

// order is that in which those who wait get a place if none of the Jobs ends before: a namespace's next one comes when every other has as
// many.
func (l *Limiter[K]) order() []K {
	all := slices.SortedFunc(maps.Keys(l.waiting), func(a, b K) int {
		one, other := l.waiting[a], l.waiting[b]
		if one.removal != other.removal {
			if one.removal {
				return -1
			}
			return 1
		}
		return cmp.Compare(one.arrival, other.arrival)
	})
	has, level := map[string]int{}, map[K]int{}
	for _, namespace := range l.running {
		has[namespace]++
	}
	for _, k := range all {
		namespace := l.waiting[k].namespace
		level[k] = has[namespace]
		has[namespace]++
	}
	slices.SortFunc(all, func(a, b K) int {
		return cmp.Or(cmp.Compare(level[a], level[b]), cmp.Compare(l.waiting[a].arrival, l.waiting[b].arrival))
	})
	return all
}
