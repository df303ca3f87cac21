package breaker

import (
	"sync"
	"time"
)

// Group names the machines that ask the same of the same account: when one is refused, the others would be too.
type Group struct {
	// Kind of the machines, and so the driver.
	Kind string
	// Credential is the Secret it comes from, never what is in it.
	Credential string
	// Order stands for what is asked for: place, size, image and all the rest.
	Order string
}

// Refusal is an attempt that the cloud refused because it had no room, or no patience.
type Refusal struct {
	Group Group
	// Class of the failure, one of api/rke/v1.
	Class string
	// Attempt is its number, and Try counts those since the user changed something.
	Attempt, Try int32
	// End of the attempt, by the clock that Now is read from.
	End, Now time.Time
	// Fresh tells that its end was not known before: what is not is told again after a restart.
	Fresh bool
}

// Ask is the question whether a machine may start an attempt.
type Ask struct {
	Group Group
	// Hash of what is asked for. When it changes, somebody has changed something: that machine asks next, and at once.
	Hash string
	// Changed tells the same of what was before this manager.
	Changed bool
	// NotBefore is the machine's own back-off.
	NotBefore time.Time
	// Held is the class for which the machine was already held, before a restart; Called tells that it was to ask next. Both
	// count only while a Breaker is new.
	Held   string
	Called bool
	Now    time.Time
}

// Turn is the answer.
type Turn struct {
	// Go tells that the attempt may start now. The other fields are then empty.
	Go bool
	// Class for which the machines of the group are held.
	Class string
	// At is when this machine asks; zero when another asks first.
	At time.Time
	// Look is when to ask again though nobody calls; zero when a call comes.
	Look time.Time
}

// startup is how long a new Breaker learns what was known before a restart. In a group that it learns of so, nobody is called for
// the length of grace who was not before.
const (
	startup = 10 * time.Minute
	grace   = time.Minute
)

// forgotten is how long after its time a group is remembered that nobody waits in, so that a machine that is made in place
// of a refused one does not begin anew.
const forgotten = time.Hour

// Breaker knows the groups that are held, and who waits in them. Its zero value is not ready: use New.
type Breaker[K comparable] struct {
	// pace is how long to wait after the nth refusal in a row.
	pace func(class string, n int32) time.Duration

	mu      sync.Mutex
	groups  map[Group]*group[K]
	members map[K]*member
	// arrivals counts those who came to wait.
	arrivals uint64
	call     func(K)
	// born is when it was asked or told first.
	born time.Time
	// self is who asks or tells, and need not be called.
	self K
}

// New makes a Breaker of groups whose nth refusal in a row is followed by a wait of pace.
func New[K comparable](pace func(class string, n int32) time.Duration) *Breaker[K] {
	return &Breaker[K]{pace: pace, groups: map[Group]*group[K]{}, members: map[K]*member{}, call: func(K) {}}
}

// OnCall has call called with each machine whose turn it has become. It must not block, and not ask back.
func (b *Breaker[K]) OnCall(call func(K)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.call = call
}

// Ask reports whether a machine may start an attempt now. Whoever is told to go is taken to try until Refused, Ended, Made or
// Leave; asking again meanwhile gives the same answer.
func (b *Breaker[K]) Ask(k K, ask Ask) Turn {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enter(k, ask.Now)
	m := b.at(k, ask.Group, ask.Now)
	g := b.groups[ask.Group]
	if g == nil {
		if ask.Held == "" || !b.startingUp(ask.Now) {
			return Turn{Go: true}
		}
		g = b.begin(ask.Group, ask.Held)
		b.warmUp(g, ask.Now)
	}
	if m == nil {
		m = b.join(k, ask.Group)
	}
	if m.state == trying {
		return Turn{Go: true}
	}
	if ask.Changed || m.hash != "" && m.hash != ask.Hash {
		m.urgent = true
	}
	m.hash = ask.Hash
	b.promote(g, m, ask)
	return b.turn(g, m, ask)
}

// promote gives a member its turn, if it has one.
func (b *Breaker[K]) promote(g *group[K], m *member, ask Ask) {
	if m.state == called {
		return
	}
	if m.urgent {
		// Whoever was called and has not begun waits for this one.
		for k := range g.members {
			if other := b.members[k]; other.state == called && !other.urgent {
				g.put(other, waiting)
			}
		}
	}
	if ask.Called && ask.Now.Before(g.quiet) && b.slots(g) > 0 {
		g.put(m, called)
		return
	}
	b.refill(g, ask.Now)
}

func (b *Breaker[K]) turn(g *group[K], m *member, ask Ask) Turn {
	if m.state != called {
		t := Turn{Class: g.class}
		if ask.Now.Before(g.quiet) {
			t.Look = g.quiet
		}
		return t
	}
	at := g.next
	if ask.NotBefore.After(at) && !m.freed {
		at = ask.NotBefore
	}
	if m.urgent {
		g.level = 0 // what was refused before was something else
	}
	if m.urgent || g.recovering || !ask.Now.Before(at) {
		g.put(m, trying)
		m.urgent = false
		return Turn{Go: true}
	}
	return Turn{Class: g.class, At: at}
}

// Refused tells that the cloud refused a machine. Telling it again changes nothing.
func (b *Breaker[K]) Refused(k K, r Refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enter(k, r.Now)
	m := b.at(k, r.Group, r.Now)
	g := b.groups[r.Group]
	probing := m != nil && m.state == trying && m.refused != r.Attempt
	switch {
	case g == nil:
		g = b.begin(r.Group, r.Class)
		g.level = max(r.Try, 1)
		g.next = r.End.Add(b.pace(r.Class, g.level))
		if !r.Fresh {
			b.warmUp(g, r.Now)
		}
	case probing:
		b.trip(k, g, r)
	case g.recovering && r.Fresh && (m == nil || m.refused != r.Attempt):
		b.trip(k, g, r)
	default:
		b.staleRecord(g, r)
	}
	if m == nil {
		m = b.join(k, r.Group)
		m.freed = g.recovering // the cloud has made a server since
	}
	if probing {
		g.put(m, waiting)
	}
	if probing {
		m.freed = false // not before: between its turn and its attempt a machine may be refused by the API, not by the cloud
	}
	m.refused = r.Attempt
	if g.cause == nil {
		g.cause = &k
	}
	b.refill(g, r.Now)
}

// staleRecord takes in the refusal of an attempt that was under way when the first was refused, or one that is told again: neither is
// news, and at most the time of the next attempt follows from it.
func (b *Breaker[K]) staleRecord(g *group[K], r Refusal) {
	g.level = max(g.level, r.Try)
	if next := r.End.Add(b.pace(r.Class, g.level)); r.Now.Before(g.quiet) && next.After(g.next) {
		g.class, g.next = r.Class, next
	}
}

// Ended tells that an attempt ended in another way than with a server or for want of room: nothing is known of the room.
// The next may ask when the machine would have tried again.
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

// Made tells that a machine has got its server. If it had been called to try, then the others follow.
func (b *Breaker[K]) Made(k K, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.members[k]
	if m == nil {
		return
	}
	b.self = k
	if m.state == trying {
		b.widen(b.groups[m.group])
	}
	b.leave(k, now)
}

// Freed reports whether another machine of the group has got a server since this one was refused: its attempts count anew.
func (b *Breaker[K]) Freed(k K) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.members[k]
	return m != nil && m.freed
}

// Cause is a machine that the cloud refused in a group; here reports whether it waits there still. It is the one that was named
// before as long as that may be so, whoever is heard of first after a restart.
func (b *Breaker[K]) Cause(name Group, before *K, now time.Time) (cause *K, here bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.groups[name]
	if before != nil {
		if m := b.members[*before]; m != nil && m.group == name && m.refused > 0 {
			return before, true
		}
		if b.startingUp(now) && (g == nil || g.left == nil || *g.left != *before) {
			return before, true
		}
	}
	switch {
	case g == nil:
		return nil, false
	case g.cause != nil:
		return g.cause, true
	}
	return g.left, false
}

// Leave tells that a machine does not wait for its turn, whatever the reason.
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
