package limit

import (
	"container/list"
	"errors"
	"sync"
)

// ErrPreempted means that a permit was taken away.
var ErrPreempted = errors.New("preempted, because other callers waited")

// PreemptiveOptions of NewPreemptive.
type PreemptiveOptions struct {
	// Total is the cap for all keys together, and PerKey the cap for one key.
	Total, PerKey int64
	// KeepOwn rejects a further permit for a key that is at its cap, or holds more than the others.
	// Otherwise its new permit preempts its oldest one.
	KeepOwn bool
	// Rejected is called for each permit that is rejected or preempted; it may be nil.
	Rejected func()
}

// Preemptive is a semaphore per key whose callers never wait. When it is full, the key that holds
// the most loses its oldest permit: a key that needs little always gets it.
type Preemptive[K comparable] struct {
	options PreemptiveOptions

	mu    sync.Mutex
	used  int64
	count uint64
	keys  map[K]*held[K]
}

// held are the permits of one key, the oldest first.
type held[K comparable] struct {
	used    int64
	permits list.List
}

// Permit is a part of a Preemptive that its holder uses until Release.
type Permit[K comparable] struct {
	of        *Preemptive[K]
	key       K
	weight    int64
	number    uint64
	preempted func()
	// element is nil once the permit was released or preempted.
	element *list.Element
	// preferred permits are preempted last, pinned ones never; both under the semaphore's lock.
	preferred, pinned bool
}

// NewPreemptive makes a semaphore.
func NewPreemptive[K comparable](o PreemptiveOptions) *Preemptive[K] {
	if o.Rejected == nil {
		o.Rejected = func() {}
	}
	return &Preemptive[K]{options: o, keys: map[K]*held[K]{}}
}

// TryAcquire returns a permit of this weight, or nil. It may preempt permits, and calls their
// preempted function, which must not block and not call the semaphore.
func (s *Preemptive[K]) TryAcquire(key K, weight int64, preempted func()) *Permit[K] {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		own := s.keys[key]
		switch {
		case own != nil && own.used+weight > s.options.PerKey:
			if !s.options.KeepOwn && s.preempt(own) {
				continue
			}
		case s.used+weight > s.options.Total:
			if from := s.heaviest(own, weight); (from != own || !s.options.KeepOwn) && s.preempt(from) {
				continue
			}
		default:
			return s.add(key, weight, preempted)
		}
		s.options.Rejected()
		return nil
	}
}

// Keys returns how many keys hold permits.
func (s *Preemptive[K]) Keys() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys)
}

func (s *Preemptive[K]) add(key K, weight int64, preempted func()) *Permit[K] {
	own := s.keys[key]
	if own == nil {
		own = &held[K]{}
		s.keys[key] = own
	}
	s.count++
	p := &Permit[K]{of: s, key: key, weight: weight, number: s.count, preempted: preempted}
	p.element = own.permits.PushBack(p)
	own.used += weight
	s.used += weight
	return p
}

// heaviest returns the key that holds the most and can be preempted; of several, the one with the
// oldest permit. It returns own if own would hold more than that key.
func (s *Preemptive[K]) heaviest(own *held[K], weight int64) *held[K] {
	var found *held[K]
	for _, h := range s.keys {
		if p := h.victim(); p != nil && (found == nil || h.used > found.used || h.used == found.used && p.number < found.victim().number) {
			found = h
		}
	}
	if own != nil && (found == nil || own.used+weight > found.used) {
		return own
	}
	return found
}

// preempt takes a permit away, and reports whether there was one.
func (s *Preemptive[K]) preempt(from *held[K]) bool {
	if from == nil {
		return false
	}
	victim := from.victim()
	if victim == nil {
		return false
	}
	s.remove(victim)
	s.options.Rejected()
	victim.preempted()
	return true
}

// victim returns the oldest permit that is not preferred, otherwise the oldest that is not pinned.
func (h *held[K]) victim() *Permit[K] {
	var preferred *Permit[K]
	for e := h.permits.Front(); e != nil; e = e.Next() {
		p := e.Value.(*Permit[K]) //nolint:forcetypeassert // the list holds permits only
		switch {
		case p.pinned:
		case !p.preferred:
			return p
		case preferred == nil:
			preferred = p
		}
	}
	return preferred
}

func (s *Preemptive[K]) remove(p *Permit[K]) {
	own := s.keys[p.key]
	own.permits.Remove(p.element)
	p.element = nil
	own.used -= p.weight
	s.used -= p.weight
	if own.permits.Len() == 0 {
		delete(s.keys, p.key)
	}
}

// Release gives the permit back. The preempted function is not called after Release has returned.
func (p *Permit[K]) Release() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.element != nil {
		p.of.remove(p)
	}
}

// Prefer has other permits of the key preempted before this one.
func (p *Permit[K]) Prefer() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.preferred = true
}

// Pin protects the permit from preemption. It reports false if the permit was preempted before.
func (p *Permit[K]) Pin() bool {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.pinned = true
	return p.element != nil
}

// IfHeld calls do, which must not follow the preempted function, or returns ErrPreempted.
func (p *Permit[K]) IfHeld(do func() error) error {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.element == nil {
		return ErrPreempted
	}
	return do()
}
