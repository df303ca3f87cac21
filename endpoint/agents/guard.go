package agents

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-project/drover/api/connect"
	"github.com/drover-project/drover/endpoint"
	"github.com/drover-project/drover/limit"
)

// Limits on concurrent requests. Known agents have their own places, independent of strangers, and
// each has only as many as it needs. The places of strangers bound their total memory: some 50 KB
// each.
const (
	maxStrangers, maxOfAddress          = 1024, 256
	maxDownloads, maxDownloadsOfAddress = 256, 64
	maxRequests, maxRequestsOfAgent     = 4096, 8
	maxWatches, maxWatchesOfAgent       = 6000, 4
	// The token buckets of requests for the API server. An agent writes a few times a second while
	// it applies a plan. An address has a bucket for all its agents that have no ticket yet.
	agentPerSecond, agentBurst           = 20, 200
	addressPerSecond, addressBurst       = 100, 1000
	port                                 = "agents"
	retryBusy, retryThrottled, retryDown = "5", "30", "5"
)

// guard decides which requests are accepted. A visitor is either an agent, known by its ticket, or
// a stranger; all strangers at one address count as one.
type guard struct {
	now                                     func() time.Time
	ticketSecret                            func() []byte
	strangers, downloads, requests, watches *limit.Preemptive[any]
	throttle                                *throttle
	ofAgents, ofAddresses                   rateLimit
}

// rateLimit is a token bucket per visitor, and the metric of its rejections.
type rateLimit struct {
	*limit.Buckets[any]

	rejected func()
}

// visitor is the sender of a request.
type visitor struct {
	address netip.Addr
	// ticket is the ticket of a known agent.
	ticket connect.Ticket
	known  bool
	permit *limit.Permit[any]
}

// who returns the key by which a visitor's requests are counted.
func (v *visitor) who() any {
	if v.known {
		return v.ticket
	}
	return v.address
}

type visitorKey struct{}

// visitorOf returns the sender of a request that the guard accepted.
func visitorOf(ctx context.Context) *visitor {
	v, _ := ctx.Value(visitorKey{}).(*visitor)
	return v
}

// admit gives each request a permit until it is answered.
func (g *guard) admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visitor{address: endpoint.AddressOf(r.RemoteAddr)}
		namespace, name, isOfSecret := secretOf(r.URL)
		if isOfSecret {
			_, ticket := connect.CutTicket(strings.TrimPrefix(r.Header.Get("Authorization"), bearer))
			v.ticket, v.known = connect.OpenTicket(g.ticketSecret(), namespace, name, ticket, g.now())
		}
		permits, bucket := g.requests, g.ofAgents
		switch {
		case !v.known:
			permits, bucket = g.strangers, g.ofAddresses
			// The limit on new connections then also bounds a stranger's requests.
			w.Header().Set("Connection", "close")
		case r.URL.Query().Has("watch"):
			permits = g.watches
		}
		if isOfSecret && !bucket.Allow(v.who(), g.now()) {
			bucket.rejected()
			busy(w)
			return
		}
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		control := http.NewResponseController(w)
		v.permit = permits.TryAcquire(v.who(), 1, func() {
			cancel(errBusy)
			_ = control.SetReadDeadline(time.Now())
			_ = control.SetWriteDeadline(time.Now())
		})
		if v.permit == nil {
			busy(w)
			return
		}
		defer v.permit.Release()
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, visitorKey{}, v)))
	})
}

// errBusy ends a request whose permit was preempted.
var errBusy = &refusal{http.StatusTooManyRequests, "too many requests are in progress: try again"}

// busy responds to a visitor that has reached its limit of concurrent requests.
func busy(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	w.Header().Set("Retry-After", retryBusy)
	http.Error(w, errBusy.text, errBusy.code)
}

const (
	// failuresPerSecond and failuresBurst are the failures of one visitor before it is throttled:
	// each may cost a request to the API server. A known agent has its own budget, so that other
	// visitors of its address do not affect it.
	failuresPerSecond, failuresBurst = rate.Limit(0.5), 20
	// allPerSecond and allBurst are the failures of all strangers together, because addresses are
	// cheap.
	allPerSecond, allBurst = rate.Limit(50), 500
)

// throttle rejects visitors whose requests failed too often. A success costs nothing.
type throttle struct {
	now      func() time.Time
	failures *limit.Buckets[any]
	all      *rate.Limiter
}

// allows reports whether a visitor is not throttled.
func (t *throttle) allows(v *visitor) bool {
	if !v.known && t.all.TokensAt(t.now()) < 1 {
		return false
	}
	return t.failures.Tokens(v.who(), t.now()) >= 1
}

// charge counts a failure.
func (t *throttle) charge(v *visitor) {
	t.failures.Allow(v.who(), t.now())
	if !v.known {
		t.all.AllowN(t.now(), 1)
	}
}

// registrations counts the answers to agents.
var registrations = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "drover_agent_registrations_total", Help: "Answers to agents that registered or renewed their access, by HTTP status",
}, []string{"code"})

// RegisterMetrics adds this package's metrics to controller-runtime's registry; call it once.
func RegisterMetrics() error { return metrics.Registry.Register(registrations) }
