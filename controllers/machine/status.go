package machine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-project/drover/advice"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/credential"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// order of the steps whose conditions make a machine ready. The provider ID is not one of them: the
// server exists, and is recorded, without it.
var order = []string{
	rkev1.ClusterReadyCondition, rkev1.DriverReadyCondition, rkev1.BootstrapReadyCondition, rkev1.CredentialReadyCondition,
	rkev1.CreateJobCondition, rkev1.StateStoredCondition,
}

// quiet are the reasons without an event: ordinary waiting, and steps that succeeded on the way.
var quiet = []string{
	rkev1.WaitingForOwnerReason, rkev1.WaitingForClusterReason, rkev1.WaitingForInfrastructureReason,
	rkev1.WaitingForBootstrapReason, rkev1.DeletingReason, rkev1.ClusterReadyReason, rkev1.DriverReadyReason, rkev1.BootstrapReadyReason,
	rkev1.CredentialReadyReason, rkev1.CredentialNotNeededReason, rkev1.StateStoredReason, rkev1.DeliveredReason,
	rkev1.WaitingForQuotaReason, rkev1.WaitingForCapacityReason, rkev1.WaitingForRateLimitReason, rkev1.JobQueuedReason,
}

// finish summarizes the conditions, writes the status once, emits events, and releases a machine
// whose server is gone.
func (r *Reconciler) finish(ctx context.Context, s *scope, outcome error) error {
	r.leaveTurn(s, outcome)
	r.releaseJob(ctx, s, outcome)
	s.summarize()
	r.metrics.observe(s, r.kind.Driver)
	if s.released {
		// If the state is deleted before the machine, the status records that no server is left.
		// Otherwise a machine whose release fails would start a removal without any record of a
		// server.
		if s.inFallback() || s.state.secret != nil && !s.state.secret.DeletionTimestamp.IsZero() {
			if _, err := r.writeStatus(ctx, s); err != nil {
				return err
			}
		}
		r.emit(s)
		r.metrics.count(s.request, tally{})
		return r.release(ctx, s)
	}
	wrote, err := r.writeStatus(ctx, s)
	if wrote {
		r.emit(s)
	}
	return err
}

// writeStatus reports whether there was something to write.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope) (bool, error) {
	if err := s.SetStatus(s.status); err != nil {
		return false, err
	}
	return step.PatchStatus(ctx, r.Client, s.before, s.Unstructured)
}

// summarize sets the status fields that follow from the conditions.
func (s *scope) summarize() {
	s.status.ObservedGeneration = s.GetGeneration()
	if held[ptr.Deref(s.conditions.Get(rkev1.CreateJobCondition), metav1.Condition{}).Reason] == "" {
		s.status.HeldBy = ""
	}
	if s.deleting() {
		s.status.Phase, s.status.Ready = rkev1.PhaseDeleting, false
		s.summarizeDeletion()
		return
	}
	isTrue := func(condition string) bool { return meta.IsStatusConditionTrue(s.status.Conditions, condition) }
	s.conditions.Summarize(rkev1.ReadyCondition, rkev1.ReadyReason, order...)
	// The last of the steps has no condition before it ran.
	if isTrue(rkev1.ReadyCondition) && s.conditions.Get(rkev1.StateStoredCondition) == nil {
		reason, message := rkev1.JobPendingReason, "no server exists yet"
		if isTrue(rkev1.PausedCondition) {
			paused := s.conditions.Get(rkev1.PausedCondition)
			reason, message = paused.Reason, paused.Message
		}
		s.conditions.False(rkev1.ReadyCondition, reason, message)
	}
	if meta.IsStatusConditionFalse(s.status.Conditions, rkev1.BootstrapDeliveredCondition) {
		s.conditions.Repeat(rkev1.ReadyCondition, *s.conditions.Get(rkev1.BootstrapDeliveredCondition))
	}
	s.status.Ready = isTrue(rkev1.ReadyCondition)
	if s.status.Ready {
		s.status.FailureReason, s.status.FailureMessage, s.status.NextAttemptTime = "", "", nil
	}
	s.status.Phase = s.phase()
	s.conditions.CountServer()
}

// summarizeDeletion reports in Ready why a machine that is being deleted waits.
func (s *scope) summarizeDeletion() {
	remove := s.conditions.Get(rkev1.DeleteJobCondition)
	switch {
	case meta.IsStatusConditionTrue(s.status.Conditions, rkev1.PausedCondition):
		paused := s.conditions.Get(rkev1.PausedCondition)
		s.conditions.False(rkev1.ReadyCondition, paused.Reason, paused.Message+"; the server is removed after the pause ends")
	case remove != nil && remove.Status != metav1.ConditionTrue:
		s.conditions.Repeat(rkev1.ReadyCondition, *remove)
	default:
		s.conditions.False(rkev1.ReadyCondition, rkev1.DeletingReason, "the server is being removed")
	}
}

func (s *scope) phase() string {
	create := s.conditions.Get(rkev1.CreateJobCondition)
	switch {
	case s.status.Ready:
		return rkev1.PhaseRunning
	case create == nil:
		return rkev1.PhasePending
	case create.Status == metav1.ConditionFalse && s.status.LastAttempt != nil,
		meta.IsStatusConditionFalse(s.status.Conditions, rkev1.BootstrapDeliveredCondition):
		return rkev1.PhaseFailed
	case create.Status == metav1.ConditionFalse:
		return rkev1.PhasePending
	}
	return rkev1.PhaseCreating
}

// advice returns the names for advice about the machine.
func (s *scope) advice(driver string) advice.Machine {
	owner, _, _ := s.Owner()
	about := advice.Machine{Namespace: s.GetNamespace(), Name: s.GetName(), UID: string(s.GetUID()), Kind: s.GetKind(), Driver: driver, NodeDriver: s.nodeDriver,
		CAPIMachine: owner, Cluster: s.GetLabels()[clusterv1.ClusterNameLabel], Instance: cmp.Or(s.status.InstanceName, s.state.InstanceName),
		State: jobrunner.StateSecretName(s.GetName()), Job: s.status.JobName, JobNamespace: s.home.Namespace,
		Cloned: s.GetAnnotations()[clusterv1.TemplateClonedFromNameAnnotation] != "", Deleting: s.deleting(), NamespaceGoing: s.namespaceGoing || s.inFallback(), HasPlan: s.hasPlan}
	if name := s.CredentialName(); name != "" {
		ref := credential.Parse(s.GetNamespace(), name)
		about.CredentialNamespace, about.CredentialName, about.Credential = ref.Namespace, ref.Name, ref.Name
		if ref.IsForeign() {
			about.Credential = ref.String()
		}
	}
	if labels := s.GetLabels(); about.Cluster != "" && labels[rkev1.ClusterNameLabel] == about.Cluster {
		about.Pool = labels[rkev1.MachinePoolLabel]
	}
	if s.machine != nil {
		about.CAPIMachine, about.Cluster = s.machine.Name, s.machine.Spec.ClusterName
		if name := ptr.Deref(s.machine.Spec.Bootstrap.DataSecretName, ""); len(validation.IsDNS1123Subdomain(name)) == 0 {
			about.Bootstrap = name
		}
	}
	return about
}

func (r *Reconciler) emit(s *scope) {
	passed := quiet
	if meta.FindStatusCondition(s.was, rkev1.CreateJobCondition) == nil { // it came with its server, from a move or a backup: no Job has made that here
		passed = append(slices.Clone(quiet), rkev1.JobSucceededReason)
	}
	step.Emit(r.Recorder, s.Unstructured, step.Transitions{Before: s.was, After: s.status.Conditions, Quiet: passed,
		Of: append([]string{rkev1.DeleteJobCondition, rkev1.BootstrapDeliveredCondition}, order...)})
}

// ending returns the reason and the message with which a step waits or stalls; both are empty for
// any other outcome.
func ending(err error) (reason, message string) {
	if waiting, ok := errors.AsType[*step.Waiting](err); ok {
		return waiting.Reason, waiting.Message
	}
	if stalled, ok := errors.AsType[*step.Stalled](err); ok {
		return stalled.Reason, stalled.Err.Error()
	}
	return "", ""
}

func stepReason(err error) string {
	reason, _ := ending(err)
	return reason
}

func isWaiting(err error) bool { return stepReason(err) != "" }

// withReason changes the reason of a wait and extends its message.
func withReason(err error, reason, more string) error {
	waiting, ok := errors.AsType[*step.Waiting](err)
	if !ok {
		return err
	}
	changed := *waiting
	changed.Reason, changed.Message = reason, waiting.Message+more
	return &changed
}

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

// tally is how one machine is counted: by its phase and, if it has no server, by the cause of its
// wait.
type tally struct {
	kind, driver, phase string
	// class and until are empty if it does not wait because of an attempt.
	class, until string
}

// Why a machine waits whose server could not be made.
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

// waitsUntil maps the reason of the Job's condition to the cause of the wait.
var waitsUntil = map[string]string{rkev1.JobQueuedReason: untilJob, rkev1.WaitingForQuotaReason: untilTurn, rkev1.WaitingForCapacityReason: untilTurn,
	rkev1.WaitingForRateLimitReason: untilTurn, rkev1.WaitingForRetryReason: untilTurn,
	rkev1.AttemptsExhaustedReason: untilChange, rkev1.ServerMayExistReason: untilChange}

func newMetrics() *metrics {
	return &metrics{
		machines: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drover_machines", Help: "Machines by kind and phase."}, []string{"kind", "phase"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "drover_job_duration_seconds", Help: "Duration of Jobs, by kind, operation and outcome.",
			Buckets: []float64{5, 15, 30, 60, 120, 300, 600, 1200, 2400}}, []string{"kind", "operation", "outcome"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_attempts_total", Help: "Ended Jobs by kind, driver, operation and class of failure, which is empty on success."},
			[]string{"kind", "driver", "operation", "class"}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drover_machines_waiting", Help: "Machines whose server could not be created, by driver, class of failure, and cause of the wait: turn, job, retry or change."},
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

// count counts a machine in another way than before, or, with none, not any more.
func (m *metrics) count(request Request, now tally) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, known := m.counted[request]
	if was == now {
		return
	}
	if known {
		m.add(was, -1)
		delete(m.counted, request)
	}
	if now != (tally{}) {
		m.add(now, 1)
		m.counted[request] = now
	}
}

func (m *metrics) add(t tally, n float64) {
	m.machines.WithLabelValues(t.kind, t.phase).Add(n)
	if t.until != "" {
		m.waiting.WithLabelValues(t.driver, t.class, t.until).Add(n)
	}
}

// tally returns how to count the machine.
func (s *scope) tally(driver string) tally {
	t := tally{kind: s.request.Kind.Kind, driver: driver, phase: s.status.Phase}
	if s.deleting() || !meta.IsStatusConditionFalse(s.status.Conditions, rkev1.CreateJobCondition) {
		return t
	}
	reason, last := s.conditions.Get(rkev1.CreateJobCondition).Reason, ptr.Deref(s.status.LastAttempt, rkev1.AttemptStatus{})
	switch until, class := waitsUntil[reason], cmp.Or(held[reason], last.Class); {
	case until == untilJob:
		t.until = until
	case until != "" && class != "":
		t.until, t.class = until, class
	}
	if t.until == untilTurn && s.status.NextAttemptTime != nil {
		t.until = untilRetry
	}
	return t
}

// observe counts the machine, and its last attempt if this reconcile is the first to see its end.
func (m *metrics) observe(s *scope, driver string) {
	m.count(s.request, s.tally(driver))
	last := s.status.LastAttempt
	before, err := rkev1.DriverMachine{Unstructured: s.before}.Status()
	if err != nil || last == nil {
		return
	}
	if isSame(before.LastAttempt, last) {
		return
	}
	m.attempts.WithLabelValues(s.request.Kind.Kind, driver, last.Operation, last.Class).Inc()
	if last.StartTime == nil || last.EndTime == nil || last.Outcome == string(state.Cancelled) {
		return
	}
	took := last.EndTime.Sub(last.StartTime.Time)
	m.duration.WithLabelValues(s.request.Kind.Kind, last.Operation, last.Outcome).Observe(max(took, 0*time.Second).Seconds())
}
