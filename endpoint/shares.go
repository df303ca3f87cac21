package endpoint

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
)

// shares divides a capacity among peers: client addresses, or who else can be told apart. When it is used up, the peer that holds the most
// loses what it has held for longest: whoever asks for little gets it, and whoever asks for more than others have gives up his own.
type shares struct {
	capacity, perPeer int64
	// keeps says that a peer that has its share, or more than others, gets no more and loses nothing of it.
	keeps bool
	// evicted is called for each claim that is taken away or refused.
	evicted func()

	mu    sync.Mutex
	used  int64
	count uint64
	peers map[any]*peer
}

// peer is what one of them holds, the oldest claim first.
type peer struct {
	used   int64
	claims list.List
}

// Place is a part of the capacity that somebody has claimed: of a room, the place of a request.
type Place struct {
	pool    *shares
	holder  any
	size    int64
	number  uint64
	revoke  func()
	element *list.Element
	// proven claims are taken away last, kept ones never; both under the pool's lock.
	proven, kept bool
}

func newShares(capacity, perPeer int64, evicted func()) *shares {
	return &shares{capacity: capacity, perPeer: perPeer, evicted: evicted, peers: map[any]*peer{}}
}

// claim takes size of the capacity, if need be from others, whose revoke is called; nil when there is nothing to take.
func (s *shares) claim(holder any, size int64, revoke func()) *Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		own := s.peers[holder]
		switch {
		case own != nil && own.used+size > s.perPeer:
			if !s.keeps && s.evict(own) {
				continue
			}
		case s.used+size > s.capacity:
			if victim := s.heaviest(own, size); (victim != own || !s.keeps) && s.evict(victim) {
				continue
			}
		default:
			return s.add(holder, size, revoke)
		}
		s.evicted()
		return nil
	}
}

func (s *shares) add(holder any, size int64, revoke func()) *Place {
	own := s.peers[holder]
	if own == nil {
		own = &peer{}
		s.peers[holder] = own
	}
	s.count++
	c := &Place{pool: s, holder: holder, size: size, number: s.count, revoke: revoke}
	c.element = own.claims.PushBack(c)
	own.used += size
	s.used += size
	return c
}

// heaviest is the peer with the most that can be taken away, of several the one with the oldest claim; own when it would have more
// than that.
func (s *shares) heaviest(own *peer, size int64) *peer {
	var found *peer
	for _, p := range s.peers {
		if victim := p.victim(); victim != nil && (found == nil || p.used > found.used || p.used == found.used && victim.number < found.victim().number) {
			found = p
		}
	}
	if own != nil && (found == nil || own.used+size > found.used) {
		return own
	}
	return found
}

// evict takes the oldest claim of p away; false when there is none that can be.
func (s *shares) evict(p *peer) bool {
	if p == nil {
		return false
	}
	victim := p.victim()
	if victim == nil {
		return false
	}
	s.remove(victim)
	s.evicted()
	victim.revoke()
	return true
}

// victim is the oldest claim that nothing speaks for, else the oldest that may go.
func (p *peer) victim() *Place {
	var proven *Place
	for e := p.claims.Front(); e != nil; e = e.Next() {
		c := e.Value.(*Place) //nolint:forcetypeassert // the list holds claims only
		switch {
		case c.kept:
		case !c.proven:
			return c
		case proven == nil:
			proven = c
		}
	}
	return proven
}

func (s *shares) remove(c *Place) {
	own := s.peers[c.holder]
	own.claims.Remove(c.element)
	c.element = nil
	own.used -= c.size
	s.used -= c.size
	if own.claims.Len() == 0 {
		delete(s.peers, c.holder)
	}
}

// Leave gives the place back. When it returns, who was to be told that it is taken away is not told any more.
func (c *Place) Leave() {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	if c.element != nil {
		c.pool.remove(c)
	}
}

// keep protects the claim from being taken away; false when that has happened.
func (c *Place) keep() bool {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	c.kept = true
	return c.element != nil
}

// unlessEvicted does something that must not come after revoke.
func (c *Place) unlessEvicted(do func() error) error {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	if c.element == nil {
		return errEvicted
	}
	return do()
}

// Prove says that its holder is good for something: others go first.
func (c *Place) Prove() {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	c.proven = true
}

// AddressOf is the client's address; of IPv6 the network, for one client has all of it.
func AddressOf(hostPort string) netip.Addr {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return netip.Addr{}
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	address = address.Unmap().WithZone("")
	if address.Is4() {
		return address
	}
	const network = 64
	prefix, err := address.Prefix(network)
	if err != nil {
		return address
	}
	return prefix.Addr()
}
