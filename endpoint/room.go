package endpoint

// Room bounds how many requests of a kind are under way at once, in all and of one who asks. One whose time for an answer is long could else be held
// by thousands, each of them memory.
type Room struct{ shares *shares }

// RoomOptions of NewRoom.
type RoomOptions struct {
	// Port and What name the room in metrics.
	Port, What string
	// All is how many requests there may be, and Each how many of one who asks.
	All, Each int
	// Keeps says that who has his part gets no more. Else the newest request takes the place of his oldest, so that he who lets requests stand
	// keeps nobody waiting who shares an address with him.
	Keeps bool
}

// NewRoom makes an empty room.
func NewRoom(o RoomOptions) *Room {
	s := newShares(int64(o.All), int64(o.Each), refusals.WithLabelValues(o.Port, o.What).Inc)
	s.keeps = o.Keeps
	return &Room{shares: s}
}

// Enter gives a request of somebody a place, and ends others' if need be, whose end is called; nil when there is none. He must leave.
func (r *Room) Enter(who any, end func()) *Place { return r.shares.claim(who, 1, end) }

// CountRefusal counts a request that a port refused for another reason than want of room.
func CountRefusal(port, what string) { refusals.WithLabelValues(port, what).Inc() }
