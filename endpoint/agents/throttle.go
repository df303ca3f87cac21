package agents

import (
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	// refusalsPerSecond and refusalBurst are what one address may be refused before it is not heard: each costs a request to the API server.
	// An agent that is known is never refused, so that those behind one address wait only while somebody there guesses.
	refusalsPerSecond, refusalBurst = rate.Limit(0.5), 20
	// maxAddresses bounds what is remembered; whoever was refused longest ago is forgotten.
	maxAddresses = 4096
)

// throttle remembers which addresses were refused of late.
type throttle struct {
	now       func() time.Time
	mu        sync.Mutex
	addresses *lru.Cache
}

func newThrottle(now func() time.Time) *throttle {
	return &throttle{now: now, addresses: lru.New(maxAddresses)}
}

// allows reports whether an address is heard.
func (t *throttle) allows(address string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	found, ok := t.addresses.Get(address)
	return !ok || found.(*rate.Limiter).TokensAt(t.now()) >= 1 //nolint:forcetypeassert // it holds limiters only
}

// charge counts a refusal.
func (t *throttle) charge(address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found, ok := t.addresses.Get(address)
	if !ok {
		found = rate.NewLimiter(refusalsPerSecond, refusalBurst)
		t.addresses.Add(address, found)
	}
	found.(*rate.Limiter).AllowN(t.now(), 1) //nolint:forcetypeassert // it holds limiters only
}

// addressOf is a request's client address without its port.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// registrations counts the answers to agents.
var registrations = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "drover_agent_registrations_total", Help: "Answers to agents that registered or renewed their access, by HTTP status",
}, []string{"code"})

// RegisterMetrics adds what this package counts to controller-runtime's registry; once.
func RegisterMetrics() error { return metrics.Registry.Register(registrations) }
