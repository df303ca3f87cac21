package endpoint

import (
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// maxPaced bounds those who are remembered; who came longest ago is forgotten.
const maxPaced = 8192

// PaceOptions say how fast something may come.
type PaceOptions struct {
	// Port and What are for the metric of refusals.
	Port, What string
	// PerSecond and AtOnce are for each who comes; a PerSecond of 0 bounds nothing.
	PerSecond, AtOnce int
}

// Pace bounds how fast something comes from each of many.
type Pace struct {
	perSecond rate.Limit
	atOnce    int
	// limiters are by who comes.
	limiters *lru.Cache
	refused  func()
}

// NewPace makes a Pace.
func NewPace(o PaceOptions) *Pace {
	p := &Pace{perSecond: rate.Limit(o.PerSecond), atOnce: o.AtOnce, limiters: lru.New(maxPaced), refused: refusals.WithLabelValues(o.Port, o.What).Inc}
	if o.PerSecond == 0 {
		p.perSecond = rate.Inf
	}
	return p
}

// Allows reports whether somebody, which is anything that can be a key, is not too fast. It counts what it allows, and the metric what it does not.
func (p *Pace) Allows(who any, now time.Time) bool {
	if p.perSecond == rate.Inf {
		return true
	}
	found, ok := p.limiters.Get(who)
	if !ok {
		found = rate.NewLimiter(p.perSecond, p.atOnce)
		p.limiters.Add(who, found)
	}
	allowed := found.(*rate.Limiter).AllowN(now, 1) //nolint:forcetypeassert // it holds limiters only
	if !allowed {
		p.refused()
	}
	return allowed
}
