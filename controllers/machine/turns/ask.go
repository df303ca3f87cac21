package turns

// Ask tells whether a machine may start an attempt now. Whoever is told to go is taken to try until Refused, Ended, Made or
// Leave; asking again meanwhile gives the same answer.
func (b *Book[K]) Ask(k K, ask Ask) Turn {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enter(k, ask.Now)
	m := b.at(k, ask.Group, ask.Now)
	g := b.groups[ask.Group]
	if g == nil {
		if ask.Held == "" || !b.young(ask.Now) {
			return Turn{Go: true}
		}
		g = b.begin(ask.Group, ask.Held)
		b.hush(g, ask.Now)
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
	b.seat(g, m, ask)
	return b.turn(g, m, ask)
}

// seat gives a member its turn, if it has one.
func (b *Book[K]) seat(g *group[K], m *member, ask Ask) {
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

func (b *Book[K]) turn(g *group[K], m *member, ask Ask) Turn {
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
	if m.urgent || g.open || !ask.Now.Before(at) {
		g.put(m, trying)
		m.urgent = false
		return Turn{Go: true}
	}
	return Turn{Class: g.class, At: at}
}
