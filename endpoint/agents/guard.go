package agents

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-project/drover/api/connect"
	"github.com/drover-project/drover/endpoint"
)

// How many requests may be under way. Agents that are known have places of their own, whatever strangers do, and none of them more than it needs. The
// places of strangers are all the memory that they can have: some 50 KB each.
const (
	maxStrangers, maxOfAddress          = 1024, 256
	maxDownloads, maxDownloadsOfAddress = 256, 64
	maxRequests, maxRequestsOfAgent     = 4096, 8
	maxWatches, maxWatchesOfAgent       = 6000, 4
	// What is asked of the API server, in a second and at once: an agent writes a few times a second while it is at a plan, and seldom otherwise. Those of an
	// address are agents that have no ticket yet.
	agentPerSecond, agentAtOnce          = 20, 200
	addressPerSecond, addressAtOnce      = 100, 1000
	port                                 = "agents"
	retryBusy, retryThrottled, retryDown = "5", "30", "5"
)

// guard decides whose requests are heard. Somebody is an agent that is known by its ticket, or else a stranger, who is one with all at his address.
type guard struct {
	now                                     func() time.Time
	ticketSecret                            func() []byte
	strangers, downloads, requests, watches *endpoint.Room
	throttle                                *throttle
	ofAgents, ofAddresses                   *endpoint.Pace
}

// visitor is who sent a request.
type visitor struct {
	address netip.Addr
	// ticket is what a known agent showed.
	ticket connect.Ticket
	known  bool
	place  *endpoint.Place
}

// who is what a visitor's requests are counted by.
func (v *visitor) who() any {
	if v.known {
		return v.ticket
	}
	return v.address
}

type visitorKey struct{}

// visitorOf is who sent a request that the guard let in.
func visitorOf(ctx context.Context) *visitor {
	v, _ := ctx.Value(visitorKey{}).(*visitor)
	return v
}

// admit gives each request its place while it is answered.
func (g *guard) admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visitor{address: endpoint.AddressOf(r.RemoteAddr)}
		namespace, name, isOfSecret := secretOf(r.URL)
		if isOfSecret {
			_, ticket := connect.CutTicket(strings.TrimPrefix(r.Header.Get("Authorization"), bearer))
			v.ticket, v.known = connect.OpenTicket(g.ticketSecret(), namespace, name, ticket, g.now())
		}
		room, pace := g.requests, g.ofAgents
		switch {
		case !v.known:
			room, pace = g.strangers, g.ofAddresses
			// How fast a stranger can write requests is bounded by how fast his connections may begin.
			w.Header().Set("Connection", "close")
		case r.URL.Query().Has("watch"):
			room = g.watches
		}
		if isOfSecret && !pace.Allows(v.who(), g.now()) {
			busy(w)
			return
		}
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		control := http.NewResponseController(w)
		v.place = room.Enter(v.who(), func() {
			cancel(errBusy)
			_ = control.SetReadDeadline(time.Now())
			_ = control.SetWriteDeadline(time.Now())
		})
		if v.place == nil {
			busy(w)
			return
		}
		defer v.place.Leave()
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, visitorKey{}, v)))
	})
}

// errBusy ends a request that another one has taken the place of.
var errBusy = &refusal{http.StatusTooManyRequests, "too many requests are under way: try again"}

// busy answers who has as many requests under way as he may.
func busy(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	w.Header().Set("Retry-After", retryBusy)
	http.Error(w, errBusy.text, errBusy.code)
}

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
