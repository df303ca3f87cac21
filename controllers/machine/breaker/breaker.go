// Package breaker decides which machines may ask a cloud for a server while that cloud refuses some
// of them.
//
//	     refused                     made
//	free ───────▶ tripped: one asks ───────▶ recovering: one more with each server that is made ───▶ free
//	                 ▲   at a time               │ refused
//	                 └───────────────────────────┘
//
// Package breaker does no I/O: package machine reports the outcome of each attempt, and asks before
// each attempt. All state is in memory. After a restart the machines report their outcomes again.
// Until all have reported, only a machine that was called before the restart is called.
package breaker

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// Group identifies the machines that request the same from the same account: if one is refused, the
// others would be too.
type Group struct {
	// Namespace of the machines. The users of a namespace can write its states, so these must not
	// hold machines of other namespaces.
	Namespace string
	// Kind of the machines, and so the driver.
	Kind string
	// Credential names the Secret, never its content.
	Credential string
	// Order is a hash of the requested server: place, size, image and all other options.
	Order string
}

// Refusal is an attempt that the cloud refused because of capacity, a quota or a rate limit.
type Refusal struct {
	Group Group
	// Class of the failure, one of api/rke/v1.
	Class string
	// Attempt is its number, and Try counts those since the user changed something.
	Attempt, Try int32
	// End of the attempt, by the clock that Now is read from.
	End, Now time.Time
	// Fresh is true if the end of the attempt is new. After a restart, machines report old refusals
	// again, with Fresh false.
	Fresh bool
}

// Ask is the question whether a machine may start an attempt.
type Ask struct {
	Group Group
	// Hash of the request. If it differs from the last one, a user has changed something: the
	// machine starts its attempt next, without a wait.
	Hash string
	// Changed reports such a change from before the start of this manager.
	Changed bool
	// NotBefore is the machine's own back-off.
	NotBefore time.Time
	// Held is the class for which the machine was held before a restart; Called is true if it was
	// the next to ask. Both count only while a Breaker is new.
	Held   string
	Called bool
	Now    time.Time
}

// Turn is the answer.
type Turn struct {
	// Go is true if the attempt may start now. The other fields are then empty.
	Go bool
	// Class for which the machines of the group are held.
	Class string
	// At is when this machine asks; zero if another asks first.
	At time.Time
	// CheckAt is when to ask again even without a call; zero if a call follows.
	CheckAt time.Time
}

// startup is how long a new Breaker learns the state from before a restart. In a group that it
// learns in this way, only machines that were called before the restart are called during grace.
const (
	startup = 10 * time.Minute
	grace   = time.Minute
)

// forgotten is how long an empty group is kept after its next attempt was due, so that the
// replacement of a refused machine continues the group's back-off.
const forgotten = time.Hour

// Breaker records the held groups and the machines that wait in them. Its zero value is not ready:
// use New.
type Breaker[K comparable] struct {
	// backOff is how long to wait after the nth refusal in a row. It is not a token bucket: the
	// wait follows from the class of the failure and the number of refusals, and after a restart
	// from the machines' states.
	backOff func(class string, n int32) time.Duration

	mu     sync.Mutex
	groups map[Group]*group[K]
	// members of all groups; each is in one.
	members map[K]*member
	// arrivals counts the machines that have joined.
	arrivals uint64
	call     func(K)
	// born is the time of the first call.
	born time.Time
	// self is the machine that asks or reports, and needs no call.
	self K
}

// New makes a Breaker of groups whose nth refusal in a row is followed by a wait of backOff.
func New[K comparable](backOff func(class string, n int32) time.Duration) *Breaker[K] {
	return &Breaker[K]{backOff: backOff, groups: map[Group]*group[K]{}, members: map[K]*member{}, call: func(K) {}}
}

// OnCall sets the function that is called with each machine whose turn has come. It must not block,
// and must not call the Breaker.
func (b *Breaker[K]) OnCall(call func(K)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.call = call
}

// group is a held group: its machines take turns.
type group[K comparable] struct {
	class string
	// cause is a refused machine that waits in the group; left is the last such machine that has
	// left it.
	cause, left *K
	// recovering is true if the cloud has made a server since its last refusal.
	recovering bool
	// level counts the refusals in a row, and next is when the next may ask.
	level int32
	next  time.Time
	// window is how many may try at the same time. It is not one of limit's semaphores: it grows
	// with each server, a refusal resets it, and an urgent machine takes the turn of another.
	window int
	// quiet is the time after a restart when all machines have reported their state again. No
	// machine is called before it.
	quiet   time.Time
	members map[K]*member
}

// state of a member.
type state int

const (
	// waiting for its turn.
	waiting state = iota
	// called: it is its turn when the time has come.
	called
	// trying: its attempt is under way.
	trying
)

type member struct {
	group   Group
	state   state
	arrival uint64
	hash    string
	// refused is the number of the attempt that was refused last; 0 when none was.
	refused int32
	// urgent is true if a user has changed something. freed is true if another machine got a server
	// after the refusal.
	urgent, freed bool
}

// Ask reports whether a machine may start an attempt now. If so, the Breaker counts the machine as
// trying until Refused, Ended, Made or Leave; until then, further calls return the same answer.
func (b *Breaker[K]) Ask(k K, ask Ask) Turn {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.enter(k, ask.Group, ask.Now)
	g := b.groups[ask.Group]
	if g == nil {
		if ask.Held == "" || ask.Now.Sub(b.born) >= startup {
			return Turn{Go: true}
		}
		g = b.begin(ask.Group, ask.Held)
		g.quiet = ask.Now.Add(grace)
	}
	if m == nil {
		m = b.join(k, ask.Group)
	}
	if m.state == trying {
		return Turn{Go: true}
	}
	if ask.Changed || cmp.Or(m.hash, ask.Hash) != ask.Hash {
		m.urgent = true
	}
	m.hash = ask.Hash
	b.promote(g, m, ask)
	return b.turn(g, m, ask)
}

// promote gives a member its turn if one is free.
func (b *Breaker[K]) promote(g *group[K], m *member, ask Ask) {
	if m.state == called {
		return
	}
	if m.urgent {
		// A machine that was called and has not started its attempt waits for this one.
		for _, other := range g.members {
			if other.state == called && !other.urgent {
				other.state = waiting
			}
		}
	}
	if ask.Called && ask.Now.Before(g.quiet) && g.slots() > 0 {
		m.state = called
		return
	}
	b.refill(g, ask.Now)
}

func (b *Breaker[K]) turn(g *group[K], m *member, ask Ask) Turn {
	if m.state != called {
		t := Turn{Class: g.class}
		if ask.Now.Before(g.quiet) {
			t.CheckAt = g.quiet
		}
		return t
	}
	at := g.next
	if ask.NotBefore.After(at) && !m.freed {
		at = ask.NotBefore
	}
	switch {
	case m.urgent:
		g.level = 0 // the earlier refusals were for another request
	case !g.recovering && ask.Now.Before(at):
		return Turn{Class: g.class, At: at}
	}
	m.state, m.urgent = trying, false
	return Turn{Go: true}
}

// Refused records that the cloud refused a machine. It is idempotent.
func (b *Breaker[K]) Refused(k K, r Refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.enter(k, r.Group, r.Now)
	g := b.groups[r.Group]
	probing := m != nil && m.state == trying && m.refused != r.Attempt
	switch {
	case g == nil:
		g = b.begin(r.Group, r.Class)
		g.level = max(r.Try, 1)
		g.next = r.End.Add(b.backOff(r.Class, g.level))
		if !r.Fresh && r.Now.Sub(b.born) < startup {
			g.quiet = r.Now.Add(grace)
		}
	case probing, g.recovering && r.Fresh && (m == nil || m.refused != r.Attempt):
		b.trip(k, g, r)
	default:
		// An attempt that was under way at the first refusal, or a repeated report. Neither is new:
		// it can only delay the next attempt.
		g.level = max(g.level, r.Try)
		if next := r.End.Add(b.backOff(r.Class, g.level)); r.Now.Before(g.quiet) && next.After(g.next) {
			g.class, g.next = r.Class, next
		}
	}
	if m == nil {
		m = b.join(k, r.Group)
		m.freed = g.recovering // the cloud has made a server since
	}
	if probing {
		m.state, m.freed = waiting, false // not before: between its turn and its attempt a machine may be refused by the API, not by the cloud
	}
	m.refused = r.Attempt
	if g.cause == nil {
		g.cause = &k
	}
	b.refill(g, r.Now)
}

// Ended records an attempt that ended neither with a server nor with a refusal, so that it shows
// nothing about the cloud's capacity. The next machine may ask when this machine would have tried
// again.
func (b *Breaker[K]) Ended(k K, again, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.members[k]
	if m == nil || m.state != trying {
		return
	}
	b.self = k
	g := b.groups[m.group]
	if !g.recovering && again.After(g.next) {
		g.next = again
	}
	b.leave(k, now)
}

// Made records that a machine has got its server. If it was trying, the other machines follow.
func (b *Breaker[K]) Made(k K, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.members[k]
	if m == nil {
		return
	}
	b.self = k
	if g := b.groups[m.group]; m.state == trying {
		// One more machine may try than before, and the attempts of all refused machines are
		// counted from 1 again.
		g.window++
		if !g.recovering {
			g.recovering, g.level, g.next, g.quiet = true, 0, time.Time{}, time.Time{}
			for _, other := range g.members {
				other.freed = other.freed || other.refused != 0 && other.state != trying
			}
		}
	}
	b.leave(k, now)
}

// Freed reports whether another machine of the group has got a server since this one was refused:
// its attempts are then counted from 1 again.
func (b *Breaker[K]) Freed(k K) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.members[k]
	return m != nil && m.freed
}

// Cause returns a machine that the cloud refused in a group; here reports whether that machine
// still waits in the group. It returns before as long as before may still wait there, so that the
// order of the reports after a restart does not matter.
func (b *Breaker[K]) Cause(name Group, before *K, now time.Time) (cause *K, here bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := cmp.Or(b.groups[name], &group[K]{})
	if before != nil {
		if m := g.members[*before]; m != nil && m.refused > 0 {
			return before, true
		}
		if now.Sub(b.born) < startup && (g.left == nil || *g.left != *before) {
			return before, true
		}
	}
	if g.cause != nil {
		return g.cause, true
	}
	return g.left, false
}

// Leave records that a machine does not wait for its turn, whatever the reason.
func (b *Breaker[K]) Leave(k K, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.self = k
	b.leave(k, now)
}

// LeaveAll does the same for all machines that gone picks.
func (b *Breaker[K]) LeaveAll(gone func(K) bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k := range b.members {
		if gone(k) {
			b.leave(k, now)
		}
	}
}

// enter starts a call for k in a group and returns its member there, nil if k is not a member. It
// removes k from any other group.
func (b *Breaker[K]) enter(k K, name Group, now time.Time) *member {
	if b.born.IsZero() {
		b.born = now
	}
	b.self = k
	// Empty groups whose next attempt was due long ago.
	maps.DeleteFunc(b.groups, func(_ Group, g *group[K]) bool { return len(g.members) == 0 && now.Sub(g.next) > forgotten })
	m := b.members[k]
	if m != nil && m.group != name {
		b.leave(k, now)
		return nil
	}
	return m
}

func (b *Breaker[K]) begin(name Group, class string) *group[K] {
	g := &group[K]{class: class, window: 1, members: map[K]*member{}}
	b.groups[name] = g
	return g
}

// trip makes all machines but one wait. The attempts that are already under way show nothing about
// the capacity that is left now.
func (b *Breaker[K]) trip(refused K, g *group[K], r Refusal) {
	g.level = max(g.level+1, r.Try)
	if g.recovering {
		g.level = 1
	}
	g.class, g.recovering, g.window = r.Class, false, 1
	if next := r.End.Add(b.backOff(r.Class, g.level)); next.After(g.next) {
		g.next = next
	}
	for k, m := range g.members {
		switch {
		case k == refused:
		case m.state == trying:
			b.remove(k, g)
		default:
			m.state = waiting
		}
	}
}

func (b *Breaker[K]) join(k K, name Group) *member {
	b.arrivals++
	m := &member{group: name, arrival: b.arrivals}
	b.members[k], b.groups[name].members[k] = m, m
	return m
}

func (b *Breaker[K]) remove(k K, g *group[K]) {
	delete(g.members, k)
	delete(b.members, k)
	if g.cause == nil || *g.cause != k {
		return
	}
	g.cause, g.left = nil, &k
	for other, m := range g.members {
		if m.refused > 0 {
			g.cause = &other
			return
		}
	}
}

func (b *Breaker[K]) leave(k K, now time.Time) {
	m := b.members[k]
	if m == nil {
		return
	}
	g := b.groups[m.group]
	b.remove(k, g)
	b.refill(g, now)
	if !g.recovering {
		return
	}
	for _, other := range g.members {
		if other.state != trying {
			return
		}
	}
	// All remaining machines are trying, so they need no turns.
	for other := range g.members {
		delete(b.members, other)
	}
	delete(b.groups, m.group)
}

// slots is how many more may be called.
func (g *group[K]) slots() int {
	slots := g.window
	for _, m := range g.members {
		if m.state != waiting {
			slots--
		}
	}
	return slots
}

// refill calls as many as may try.
func (b *Breaker[K]) refill(g *group[K], now time.Time) {
	slots := g.slots()
	if slots <= 0 {
		return
	}
	var next []K
	for k, m := range g.members {
		if m.state == waiting && (m.urgent || !now.Before(g.quiet)) {
			next = append(next, k)
		}
	}
	// Machines that a user has changed come first, then the order of arrival.
	slices.SortFunc(next, func(a, b K) int {
		one, other := g.members[a], g.members[b]
		switch {
		case one.urgent == other.urgent:
			return cmp.Compare(one.arrival, other.arrival)
		case one.urgent:
			return -1
		}
		return 1
	})
	for _, k := range next[:min(slots, len(next))] {
		g.members[k].state = called
		if k != b.self {
			b.call(k)
		}
	}
}
