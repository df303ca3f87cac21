package turns

import (
	"cmp"
	"slices"
	"time"
)

// group is held: its machines ask by turns.
type group[K comparable] struct {
	class string
	// open tells that the cloud has made a server since it last refused one.
	open bool
	// level counts the refusals in a row, and next is when the next may ask.
	level int32
	next  time.Time
	// window is how many may try at the same time.
	window int
	// quiet is when all have told again what they know, after a restart.
	quiet   time.Time
	members map[K]bool
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
	// out of attempts; it is called again when another gets a server.
	out
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
func (b *Book[K]) enter(k K, now time.Time) {
	if b.born.IsZero() {
		b.born = now
	}
	b.self = k
	b.sweep(now)
}

func (b *Book[K]) young(now time.Time) bool { return now.Sub(b.born) < youth }

// hush lets all tell what they know before anybody is called.
func (b *Book[K]) hush(g *group[K], now time.Time) {
	if b.young(now) {
		g.quiet = now.Add(grace)
	}
}

func (b *Book[K]) begin(name Group, class string) *group[K] {
	g := &group[K]{class: class, window: 1, members: map[K]bool{}}
	b.groups[name] = g
	return g
}

// close tells everybody to wait but one. Those who try already tell nothing of the room there is now.
func (b *Book[K]) close(refused K, g *group[K], r Refusal) {
	g.level = max(g.level+1, r.Try)
	if g.open {
		g.level = 1
	}
	g.class, g.open, g.window = r.Class, false, 1
	if next := r.End.Add(b.pace(r.Class, g.level)); next.After(g.next) {
		g.next = next
	}
	for k := range g.members {
		switch m := b.members[k]; {
		case k == refused:
		case m.state == trying:
			delete(g.members, k)
			delete(b.members, k)
		case m.state == called:
			m.state = waiting
		}
	}
}

// free lets one more try than before, and all that were refused have their attempts anew.
func (b *Book[K]) free(g *group[K]) {
	g.open, g.level, g.next, g.quiet = true, 0, time.Time{}, time.Time{}
	g.window++
	for k := range g.members {
		m := b.members[k]
		if m.refused == 0 || m.state == trying {
			continue
		}
		m.freed = true
		if m.state == out {
			m.state = waiting
		}
	}
}

// at is the member k of a group; nil if it is in none. It leaves another that it is in.
func (b *Book[K]) at(k K, name Group, now time.Time) *member {
	m := b.members[k]
	if m != nil && m.group != name {
		b.leave(k, now)
		return nil
	}
	return m
}

func (b *Book[K]) join(k K, name Group) *member {
	b.arrivals++
	m := &member{group: name, arrival: b.arrivals}
	b.members[k] = m
	b.groups[name].members[k] = true
	return m
}

func (b *Book[K]) leave(k K, now time.Time) {
	m := b.members[k]
	if m == nil {
		return
	}
	g := b.groups[m.group]
	delete(g.members, k)
	delete(b.members, k)
	b.refill(g, now)
	if g.open && !b.anyWaits(g) {
		b.drop(m.group)
	}
}

// drop forgets a group, and that some of it try.
func (b *Book[K]) drop(name Group) {
	for k := range b.groups[name].members {
		delete(b.members, k)
	}
	delete(b.groups, name)
}

func (b *Book[K]) anyWaits(g *group[K]) bool {
	for k := range g.members {
		if b.members[k].state != trying {
			return true
		}
	}
	return false
}

// sweep forgets groups that nobody waits in and whose time is long over.
func (b *Book[K]) sweep(now time.Time) {
	for name, g := range b.groups {
		if len(g.members) == 0 && now.Sub(g.next) > forgotten {
			delete(b.groups, name)
		}
	}
}

// refill calls as many as may try, the first first, and those for whom somebody has changed something before all.
func (b *Book[K]) refill(g *group[K], now time.Time) {
	var line []K
	for k := range g.members {
		if m := b.members[k]; m.state == waiting && (m.urgent || !now.Before(g.quiet)) {
			line = append(line, k)
		}
	}
	slices.SortFunc(line, func(x, y K) int {
		a, b := b.members[x], b.members[y]
		if a.urgent != b.urgent {
			return map[bool]int{true: -1, false: 1}[a.urgent]
		}
		return cmp.Compare(a.arrival, b.arrival)
	})
	for _, k := range line[:min(len(line), max(b.slots(g), 0))] {
		b.members[k].state = called
		if k != b.self {
			b.call(k)
		}
	}
}

// slots is how many more may be called.
func (b *Book[K]) slots(g *group[K]) int {
	taken := 0
	for k := range g.members {
		if m := b.members[k]; m.state == called || m.state == trying {
			taken++
		}
	}
	return g.window - taken
}
