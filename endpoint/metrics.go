package endpoint

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// refusals counts what was refused or taken away; more than a few mean an attack.
var refusals = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "drover_endpoint_refused_total", Help: "Connections and request bodies that were refused or ended for want of room, by port",
}, []string{"port", "what"})

// RegisterMetrics adds what this package counts to controller-runtime's registry; once.
func RegisterMetrics() error { return metrics.Registry.Register(refusals) }

// Metrics serves what controller-runtime's registry holds. Few are answered at once, for each answer is made in memory.
func Metrics() http.Handler {
	const inFlight = 16
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError, MaxRequestsInFlight: inFlight}))
	return mux
}
