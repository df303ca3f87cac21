package agents

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	// refusalsPerSecond and refusalBurst are what somebody may be refused before he is not heard: each costs a request to the API server.
	// An agent that is known has a budget of its own, so that it is heard whatever others behind its address do.
	refusalsPerSecond, refusalBurst = rate.Limit(0.5), 20
	// allPerSecond and allBurst are what all strangers together may be refused, for addresses are cheap.
	allPerSecond, allBurst = rate.Limit(50), 500
	// maxRemembered bounds what is remembered; whoever was refused longest ago is forgotten.
	maxRemembered = 4096
)

// throttle remembers who was refused of late.
type throttle struct {
	now     func() time.Time
	mu      sync.Mutex
	refused *lru.Cache
	all     *rate.Limiter
}

// allows reports whether somebody is heard.
func (t *throttle) allows(v *visitor) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !v.known && t.all.TokensAt(t.now()) < 1 {
		return false
	}
	found, ok := t.refused.Get(v.who())
	return !ok || found.(*rate.Limiter).TokensAt(t.now()) >= 1 //nolint:forcetypeassert // it holds limiters only
}

// charge counts a refusal.
func (t *throttle) charge(v *visitor) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found, ok := t.refused.Get(v.who())
	if !ok {
		found = rate.NewLimiter(refusalsPerSecond, refusalBurst)
		t.refused.Add(v.who(), found)
	}
	found.(*rate.Limiter).AllowN(t.now(), 1) //nolint:forcetypeassert // it holds limiters only
	if !v.known {
		t.all.AllowN(t.now(), 1)
	}
}

// registrations counts the answers to agents.
var registrations = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "drover_agent_registrations_total", Help: "Answers to agents that registered or renewed their access, by HTTP status",
}, []string{"code"})

// RegisterMetrics adds what this package counts to controller-runtime's registry; once.
func RegisterMetrics() error { return metrics.Registry.Register(registrations) }
