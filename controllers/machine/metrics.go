package machine

import (
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-project/drover/jobrunner"
)

// metrics of all kinds together; registered with the manager's registry.
type metrics struct {
	machines *prometheus.GaugeVec
	duration *prometheus.HistogramVec
	attempts *prometheus.CounterVec

	mu sync.Mutex
	// phases of the machines as counted in the gauge.
	phases map[Request]string
}

func newMetrics() *metrics {
	return &metrics{
		machines: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drover_machines", Help: "Machines by kind and phase."}, []string{"kind", "phase"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "drover_job_duration_seconds", Help: "How long Jobs took, by kind, operation and outcome.",
			Buckets: []float64{5, 15, 30, 60, 120, 300, 600, 1200, 2400}}, []string{"kind", "operation", "outcome"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_attempts_total", Help: "Ended Jobs by kind, operation and class of failure, which is empty on success."},
			[]string{"kind", "operation", "class"}),
		phases: map[Request]string{},
	}
}

func (m *metrics) register(registry prometheus.Registerer) error {
	for _, collector := range []prometheus.Collector{m.machines, m.duration, m.attempts} {
		err := registry.Register(collector)
		// A second manager in one process, as in tests, goes without.
		if _, again := errors.AsType[prometheus.AlreadyRegisteredError](err); err != nil && !again {
			return err
		}
	}
	return nil
}

// observe counts the machine's phase, and its last attempt if this reconcile is the first to see its end.
func (m *metrics) observe(s *scope) {
	m.mu.Lock()
	if known, ok := m.phases[s.request]; !ok || known != s.status.Phase {
		if ok {
			m.machines.WithLabelValues(s.request.Kind.Kind, known).Dec()
		}
		m.machines.WithLabelValues(s.request.Kind.Kind, s.status.Phase).Inc()
		m.phases[s.request] = s.status.Phase
	}
	m.mu.Unlock()
	m.observeAttempt(s)
}

func (m *metrics) observeAttempt(s *scope) {
	last := s.status.LastAttempt
	before, err := object{s.before}.Status()
	if err != nil || last == nil {
		return
	}
	if known := before.LastAttempt; known != nil && known.Operation == last.Operation && known.Number == last.Number {
		return
	}
	m.attempts.WithLabelValues(s.request.Kind.Kind, last.Operation, last.Class).Inc()
	if last.StartTime == nil || last.EndTime == nil || last.Outcome == string(jobrunner.Cancelled) {
		return
	}
	took := last.EndTime.Sub(last.StartTime.Time)
	m.duration.WithLabelValues(s.request.Kind.Kind, last.Operation, last.Outcome).Observe(max(took, 0*time.Second).Seconds())
}

func (m *metrics) forget(request Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.phases[request]; ok {
		m.machines.WithLabelValues(request.Kind.Kind, known).Dec()
		delete(m.phases, request)
	}
}
