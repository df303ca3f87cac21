package breaker

import (
	"slices"
	"time"
)

// group is held: its machines ask by turns.
type group[K comparable] struct {
	class string
	// cause is a machine that was refused and waits in the group, and left the last one that did.
	cause, left *K
	// recovering tells that the cloud has made a server since it last refused one.
	recovering bool
	// level counts the refusals in a row, and next is when the next may ask.
	level int32
	next  time.Time
	// window is how many may try at the same time.
	window int
	// quiet is when all have told again what they know, after a restart.
	quiet   time.Time
	members map[K]bool
	// taken is how many are called or try.
	taken int
	// line has the members in the order in which they came, and some who are gone.
	line []place[K]
}

// place is that of a member in the line.
type place[K comparable] struct {
	member  K
	arrival uint64
}

// put changes a member's state.
func (g *group[K]) put(m *member, s state) {
	if m.state == called || m.state == trying {
		g.taken--
	}
	if m.state = s; s == called || s == trying {
		g.taken++
	}
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
	// urgent: somebody has changed something. freed: another has got a server since.
	urgent, freed bool
}

// enter begins what k asks or tells.
func (b *Breaker[K]) enter(k K, now time.Time) {
	if b.born.IsZero() {
		b.born = now
	}
	b.self = k
	b.sweep(now)
}

func (b *Breaker[K]) startingUp(now time.Time) bool { return now.Sub(b.born) < startup }

// warmUp lets all machines tell what they know, after a restart, before one is called.
func (b *Breaker[K]) warmUp(g *group[K], now time.Time) {
	if b.startingUp(now) {
		g.quiet = now.Add(grace)
	}
}

func (b *Breaker[K]) begin(name Group, class string) *group[K] {
	g := &group[K]{class: class, window: 1, members: map[K]bool{}}
	b.groups[name] = g
	return g
}

// trip tells everybody to wait but one. Those who try already tell nothing of the room there is now.
func (b *Breaker[K]) trip(refused K, g *group[K], r Refusal) {
	g.level = max(g.level+1, r.Try)
	if g.recovering {
		g.level = 1
	}
	g.class, g.recovering, g.window = r.Class, false, 1
	if next := r.End.Add(b.pace(r.Class, g.level)); next.After(g.next) {
		g.next = next
	}
	for k := range g.members {
		switch m := b.members[k]; {
		case k == refused:
		case m.state == trying:
			b.remove(k, g, m)
		case m.state == called:
			g.put(m, waiting)
		}
	}
}

// widen lets one more try than before, and all that were refused have their attempts anew.
func (b *Breaker[K]) widen(g *group[K]) {
	g.window++
	if g.recovering {
		return
	}
	g.recovering, g.level, g.next, g.quiet = true, 0, time.Time{}, time.Time{}
	for k := range g.members {
		m := b.members[k]
		if m.refused == 0 || m.state == trying {
			continue
		}
		m.freed = true
	}
}

// at is the member k of a group; nil if it is in none. It leaves another that it is in.
func (b *Breaker[K]) at(k K, name Group, now time.Time) *member {
	m := b.members[k]
	if m != nil && m.group != name {
		b.leave(k, now)
		return nil
	}
	return m
}

func (b *Breaker[K]) join(k K, name Group) *member {
	b.arrivals++
	m := &member{group: name, arrival: b.arrivals}
	g := b.groups[name]
	b.members[k] = m
	g.members[k] = true
	g.line = append(g.line, place[K]{k, m.arrival})
	return m
}

func (b *Breaker[K]) remove(k K, g *group[K], m *member) {
	g.put(m, waiting) // so that it is counted no more
	delete(g.members, k)
	delete(b.members, k)
	if g.cause == nil || *g.cause != k {
		return
	}
	g.cause, g.left = nil, &k
	for other := range g.members {
		if b.members[other].refused > 0 {
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
	b.remove(k, g, m)
	b.refill(g, now)
	if g.recovering && !b.anyWaits(g) {
		b.drop(m.group)
	}
}

// drop forgets a group, and that some of it try.
func (b *Breaker[K]) drop(name Group) {
	for k := range b.groups[name].members {
		delete(b.members, k)
	}
	delete(b.groups, name)
}

func (b *Breaker[K]) anyWaits(g *group[K]) bool {
	for k := range g.members {
		if b.members[k].state != trying {
			return true
		}
	}
	return false
}

// sweep forgets groups that nobody waits in and whose time is long over.
func (b *Breaker[K]) sweep(now time.Time) {
	for name, g := range b.groups {
		if len(g.members) == 0 && now.Sub(g.next) > forgotten {
			delete(b.groups, name)
		}
	}
}

// refill calls as many as may try, the first first, and those for whom somebody has changed something before all.
func (b *Breaker[K]) refill(g *group[K], now time.Time) {
	b.tidy(g)
	b.callSome(g, func(m *member) bool { return m.urgent })
	if !now.Before(g.quiet) {
		b.callSome(g, func(*member) bool { return true })
	}
}

func (b *Breaker[K]) callSome(g *group[K], pick func(*member) bool) {
	for i := 0; i < len(g.line) && b.slots(g) > 0; i++ {
		k := g.line[i].member
		m := b.members[k]
		if m == nil || m.arrival != g.line[i].arrival || m.state != waiting || !pick(m) {
			continue
		}
		g.put(m, called)
		if k != b.self {
			b.call(k)
		}
	}
}

// tidy takes those out of the line who are gone, when they are many.
func (b *Breaker[K]) tidy(g *group[K]) {
	if len(g.line) < 2*len(g.members)+16 {
		return
	}
	g.line = slices.DeleteFunc(g.line, func(p place[K]) bool {
		m := b.members[p.member]
		return m == nil || m.arrival != p.arrival
	})
}

// slots is how many more may be called.
func (b *Breaker[K]) slots(g *group[K]) int { return g.window - g.taken }
