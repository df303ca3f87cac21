package endpoint

import (
	"net/netip"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// maxPaced bounds the addresses that are remembered; who came longest ago is forgotten.
const maxPaced = 4096

// pace bounds how fast something comes from each address.
type pace struct {
	perSecond rate.Limit
	atOnce    int
	// limiters are by address.
	limiters *lru.Cache
}

// newPace makes one that bounds nothing when perSecond is 0.
func newPace(perSecond, atOnce int) *pace {
	p := &pace{perSecond: rate.Limit(perSecond), atOnce: atOnce, limiters: lru.New(maxPaced)}
	if perSecond == 0 {
		p.perSecond = rate.Inf
	}
	return p
}

// allows reports whether an address is not too fast, and counts what it allows.
func (p *pace) allows(address netip.Addr, now time.Time) bool {
	if p.perSecond == rate.Inf {
		return true
	}
	found, ok := p.limiters.Get(address)
	if !ok {
		found = rate.NewLimiter(p.perSecond, p.atOnce)
		p.limiters.Add(address, found)
	}
	return found.(*rate.Limiter).AllowN(now, 1) //nolint:forcetypeassert // it holds limiters only
}
