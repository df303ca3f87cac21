package machine

import (
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/state"
)

// metrics of all kinds together; registered with the manager's registry.
type metrics struct {
	machines *prometheus.GaugeVec
	duration *prometheus.HistogramVec
	attempts *prometheus.CounterVec
	waiting  *prometheus.GaugeVec

	mu sync.Mutex
	// counted is how the gauges count each machine.
	counted map[Request]tally
}

// tally is how one machine is counted: by its phase and, when it has no server, by what it waits for.
type tally struct {
	kind, driver, phase string
	// class and until are empty when it waits for nothing that an attempt has told.
	class, until string
}

// What a machine waits for whose server could not be made.
const (
	// untilTurn: another one that asks for the same asks first.
	untilTurn = "turn"
	// untilJob: as many Jobs run as may.
	untilJob = "job"
	// untilRetry: its next attempt has a time.
	untilRetry = "retry"
	// untilChange: it has no attempts left.
	untilChange = "change"
)

func newMetrics() *metrics {
	return &metrics{
		machines: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drover_machines", Help: "Machines by kind and phase."}, []string{"kind", "phase"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "drover_job_duration_seconds", Help: "How long Jobs took, by kind, operation and outcome.",
			Buckets: []float64{5, 15, 30, 60, 120, 300, 600, 1200, 2400}}, []string{"kind", "operation", "outcome"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_attempts_total", Help: "Ended Jobs by kind, driver, operation and class of failure, which is empty on success."},
			[]string{"kind", "driver", "operation", "class"}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drover_machines_waiting", Help: "Machines whose server could not be made, by driver, class of failure, and what they wait for: turn, job, retry or change."},
			[]string{"driver", "class", "until"}),
		counted: map[Request]tally{},
	}
}

func (m *metrics) register(registry prometheus.Registerer) error {
	for _, collector := range []prometheus.Collector{m.machines, m.duration, m.attempts, m.waiting} {
		err := registry.Register(collector)
		// A second manager in one process, as in tests, goes without.
		if _, again := errors.AsType[prometheus.AlreadyRegisteredError](err); err != nil && !again {
			return err
		}
	}
	return nil
}

// observe counts the machine, and its last attempt if this reconcile is the first to see its end.
func (m *metrics) observe(s *scope, driver string) {
	m.count(s.request, s.tally(driver), 1)
	m.observeAttempt(s, driver)
}

// count counts a machine in another way than before, or, with nothing to add, not any more.
func (m *metrics) count(request Request, now tally, add float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, known := m.counted[request]
	if known && was == now && add > 0 {
		return
	}
	if known {
		m.add(was, -1)
		delete(m.counted, request)
	}
	if add > 0 {
		m.add(now, add)
		m.counted[request] = now
	}
}

func (m *metrics) add(t tally, n float64) {
	m.machines.WithLabelValues(t.kind, t.phase).Add(n)
	if t.until != "" {
		m.waiting.WithLabelValues(t.driver, t.class, t.until).Add(n)
	}
}

// tally says how the machine is to be counted.
func (s *scope) tally(driver string) tally {
	t := tally{kind: s.request.Kind.Kind, driver: driver, phase: s.status.Phase}
	create := s.conditions.Get(rkev1.CreateJobCondition)
	if create == nil || s.deleting() || create.Status != metav1.ConditionFalse {
		return t
	}
	t.class = heldFor(create.Reason)
	switch last := s.status.LastAttempt; {
	case create.Reason == rkev1.JobQueuedReason:
		t.until = untilJob
	case t.class != "":
		t.until = untilTurn
	case last == nil || last.Class == "":
		return t
	case create.Reason == rkev1.AttemptsExhaustedReason, create.Reason == rkev1.ServerMayExistReason:
		t.class, t.until = last.Class, untilChange
	case create.Reason == rkev1.WaitingForRetryReason:
		t.class, t.until = last.Class, untilTurn
	}
	if t.until == untilTurn && s.status.NextAttemptTime != nil {
		t.until = untilRetry
	}
	return t
}

func (m *metrics) observeAttempt(s *scope, driver string) {
	last := s.status.LastAttempt
	before, err := rkev1.DriverMachine{Unstructured: s.before}.Status()
	if err != nil || last == nil {
		return
	}
	if known := before.LastAttempt; known != nil && known.Operation == last.Operation && known.Number == last.Number {
		return
	}
	m.attempts.WithLabelValues(s.request.Kind.Kind, driver, last.Operation, last.Class).Inc()
	if last.StartTime == nil || last.EndTime == nil || last.Outcome == string(state.Cancelled) {
		return
	}
	took := last.EndTime.Sub(last.StartTime.Time)
	m.duration.WithLabelValues(s.request.Kind.Kind, last.Operation, last.Outcome).Observe(max(took, 0*time.Second).Seconds())
}

func (m *metrics) forget(request Request) { m.count(request, tally{}, 0) }
