package agents

import (
	"crypto/rand"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/api/connect"
	"github.com/drover-project/drover/endpoint"
	"github.com/drover-project/drover/limit"
)

// Options of New.
type Options struct {
	// Client reads plan Secrets without a cache, writes an agent's key into them, and requests
	// tokens of their ServiceAccounts.
	Client client.Client
	// API is the API server to which agents' requests are passed through. Its credential is not
	// used.
	API *rest.Config
	// Server is the https address that agents call the endpoint by, without a path.
	Server string
	// Authorities returns the certificates in PEM that verify the endpoint's certificate, or none
	// if the system's authorities do. If several sets verify it, it returns the one with a checksum
	// (SHA-256, hex), else all.
	Authorities func(checksum string) []byte
	// InstallScript is served to users who set a server up by hand.
	InstallScript func() ([]byte, error)
	// Assets are the files of /assets.
	Assets *Assets
	// Recorder records events for tokens that were used twice and for addresses whose registrations
	// are rejected.
	Recorder events.EventRecorder
	// TicketSecret seals the tickets of known agents. All replicas share it. When it changes,
	// tickets are invalid until the next renewal. If nil, the handler makes its own.
	TicketSecret func() []byte
	// Self is the object of events about the endpoint.
	Self runtime.Object
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// New makes the handler of all paths. An error means that API cannot be used.
func New(o Options) (http.Handler, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.TicketSecret == nil {
		own := []byte(rand.Text())
		o.TicketSecret = func() []byte { return own }
	}
	permits := func(what string, total, perKey int64, keepOwn bool) *limit.Preemptive[any] {
		return limit.NewPreemptive[any](limit.PreemptiveOptions{Total: total, PerKey: perKey, KeepOwn: keepOwn, Rejected: endpoint.Rejections(port, what)})
	}
	g := &guard{now: o.Now, ticketSecret: o.TicketSecret,
		throttle: &throttle{now: o.Now, failures: limit.NewBuckets[any](failuresPerSecond, failuresBurst), all: rate.NewLimiter(allPerSecond, allBurst)},
		// The newest request preempts the oldest, so that a client with idle requests delays no
		// other client of its address.
		strangers:   permits("unauthenticated requests", maxStrangers, maxOfAddress, false),
		downloads:   permits("downloads", maxDownloads, maxDownloadsOfAddress, true),
		requests:    permits("requests of agents", maxRequests, maxRequestsOfAgent, true),
		watches:     permits("watches of agents", maxWatches, maxWatchesOfAgent, false),
		ofAgents:    rateLimit{limit.NewBuckets[any](agentPerSecond, agentBurst), endpoint.Rejections(port, "requests of agents per second")},
		ofAddresses: rateLimit{limit.NewBuckets[any](addressPerSecond, addressBurst), endpoint.Rejections(port, "unauthenticated requests per second")},
	}
	through, err := newPassThrough(o.API, g)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, "text/plain", []byte("ok")) })
	mux.HandleFunc("GET /cacerts", func(w http.ResponseWriter, r *http.Request) {
		answer(w, "application/x-pem-file", o.Authorities(r.URL.Query().Get("checksum")))
	})
	mux.HandleFunc("GET /system-agent-install.sh", func(w http.ResponseWriter, _ *http.Request) {
		script, err := o.InstallScript()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		answer(w, "text/x-shellscript", script)
	})
	mux.Handle("GET /assets/{name}", g.download(o.Assets))
	mux.Handle("POST "+connect.Path, &registrar{Options: o, guard: g, grants: &grants{now: o.Now, answers: lru.New(maxAnswers)}, events: rate.NewLimiter(eventsPerSecond, eventsBurst),
		known: semaphore.NewWeighted(maxAtOnce), strangers: semaphore.NewWeighted(maxAtOnce)})
	mux.Handle("/", through)
	return g.admit(mux), nil
}

func answer(w http.ResponseWriter, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(body) //nolint:gosec // our own texts, none of them HTML, with their content type
}
