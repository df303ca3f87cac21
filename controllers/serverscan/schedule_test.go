package serverscan_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/serverscan"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

const interval = 24 * time.Hour

// round has the Schedule of the world's namespace look once, and tells when it looks again.
func (w *world) round() time.Duration {
	w.Helper()
	schedule := &serverscan.Schedule{Client: w.client, Reader: w.client, Namespace: w.namespace, Interval: interval, Clock: w.clock}
	next, err := schedule.Round(w.Context())
	require.NoError(w, err)
	return next
}

// later lets time pass.
func (w *world) later(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

// periodic are the ServerScans that the Schedule has made and that are there.
func (w *world) periodic() []rkev1.ServerScan {
	w.Helper()
	list := &rkev1.ServerScanList{}
	require.NoError(w, w.client.List(w.Context(), list, client.InNamespace(w.namespace)))
	return list.Items
}

// lookedAt plays the Job of the only ServerScan that is not done.
func (w *world) lookedAt(result state.Result) {
	w.Helper()
	for _, scan := range w.periodic() {
		if scan.Status.CompletionTime == nil {
			w.scan = &scan
		}
	}
	w.reconcile()
	w.end(w.scan.Name+"-scan-1", result)
	w.reconcile()
}

// using makes a machine of a kind use a credential.
func (w *world) using(kind, name, credential string) *unstructured.Unstructured {
	w.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"common": map[string]any{"cloudCredentialSecretName": credential}}}}
	obj.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind(kind))
	obj.SetNamespace(w.namespace)
	obj.SetName(name)
	require.NoError(w, w.client.Create(w.Context(), obj))
	return obj
}

func TestSchedule_looksOnceInEachInterval(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, interval, w.round(), "nobody uses a credential")
	w.using("DigitaloceanMachine", "a", "cred")
	w.using("DigitaloceanMachine", "b", "cred")
	w.using("ExoscaleMachine", "c", "cred")
	w.using("DigitaloceanMachine", "d", "")
	next := w.round()
	require.InDelta(t, interval, next, float64(time.Minute), "the machines are new")
	require.Empty(t, w.periodic())
	w.later(interval - time.Minute)
	next = w.round()
	require.Positive(t, next)
	require.LessOrEqual(t, next, 2*time.Minute, "it looks again when the first is due, not an interval later")
	require.Empty(t, w.periodic())

	w.later(2 * time.Minute)
	w.round()
	made := w.periodic()
	require.Len(t, made, 1, "one for the credential, none for a driver whose servers carry no tags")
	ttl := int32(25 * 60 * 60)
	require.Equal(t, rkev1.ServerScanSpec{Driver: "digitalocean", CloudCredentialSecretName: "cred", TTLSecondsAfterFinished: &ttl}, made[0].Spec,
		"it removes nothing, and stays until the next one is done")
	require.Equal(t, map[string]string{rkev1.PeriodicLabel: "true"}, made[0].Labels)
	w.round()
	require.Len(t, w.periodic(), 1, "one that is not done is waited for")

	w.lookedAt(w.report())
	require.InDelta(t, interval, w.round(), float64(time.Second))
	w.later(interval)
	w.reconcile()
	w.round()
	require.Len(t, w.periodic(), 2, "the last one can be read until the next is done")
	w.later(2 * time.Hour)
	w.reconcile()
	require.Len(t, w.periodic(), 1)
}

// A ServerScan that somebody else asked for has looked too.
func TestSchedule_countsWhatOthersAsked(t *testing.T) {
	w := newWorld(t)
	w.using("DigitaloceanMachine", "a", "cred")
	w.later(2 * interval)
	w.ask(nil)
	w.end("look-scan-1", w.report())
	w.reconcile()
	require.InDelta(t, interval, w.round(), float64(time.Second))
	require.Len(t, w.periodic(), 1)
}

// By another grace period other servers are orphans: nobody has looked as the manager would.
func TestSchedule_countsNoOtherGrace(t *testing.T) {
	w := newWorld(t)
	w.using("DigitaloceanMachine", "a", "cred")
	w.later(2 * interval)
	w.ask(func(s *rkev1.ServerScanSpec) { s.GracePeriod = &metav1.Duration{Duration: 1000 * time.Hour} })
	w.end("look-scan-1", w.report())
	w.reconcile()
	w.round()
	require.Len(t, w.periodic(), 2)
}

// What was not certain yet, or too young, may be an orphan the next time.
func TestSchedule_goesOnWhileSomethingIsOpen(t *testing.T) {
	for verdict, change := range map[string]func(*world, *state.ScannedServer){
		rkev1.VerdictYoung:     func(w *world, s *state.ScannedServer) { s.Created = w.clock.Now() },
		rkev1.VerdictUncertain: func(_ *world, s *state.ScannedServer) { s.ClusterUID = "elsewhere" },
		rkev1.VerdictOrphan:    func(*world, *state.ScannedServer) {},
	} {
		t.Run(verdict, func(t *testing.T) {
			w := newWorld(t)
			last := w.using("DigitaloceanMachine", "a", "cred")
			w.later(2 * interval)
			w.round()
			server := w.found("1", "gone")
			change(w, &server)
			w.lookedAt(w.report(server))
			require.Equal(t, "1 "+verdict, w.verdicts())
			require.NoError(t, w.client.Delete(t.Context(), last))
			w.later(interval + 2*time.Hour)
			w.everyOne()
			w.round()
			require.Len(t, w.periodic(), 2, "the first stays until the second has an answer")
			w.lookedAt(w.report())
			require.Empty(t, w.verdicts())
			w.later(interval)
			require.Equal(t, interval, w.round(), "nothing is left to look for")
		})
	}
}

// After its last machine an account is looked at once more: the server may have stayed.
func TestSchedule_looksOnceMoreAfterTheLastMachine(t *testing.T) {
	w := newWorld(t)
	last := w.using("DigitaloceanMachine", "a", "cred")
	w.later(2 * interval)
	w.round()
	w.lookedAt(w.report(w.found("1", string(last.GetUID()))))
	require.EqualValues(t, 1, w.scan.Status.Known)
	require.NoError(t, w.client.Delete(t.Context(), last))
	w.later(interval)
	w.round()
	require.Len(t, w.periodic(), 2)

	elsewhere := newWorld(t).using("DigitaloceanMachine", "b", "cred")
	w.lookedAt(w.report(w.found("2", string(elsewhere.GetUID()))))
	require.EqualValues(t, 1, w.scan.Status.Known, "other namespaces use the account too")
	require.Equal(t, map[string]string{rkev1.PeriodicLabel: "unused"}, w.scan.Labels)
	w.later(interval)
	require.Equal(t, interval, w.round())
	require.Len(t, w.periodic(), 2, "that is enough")
}

// everyOne has the controller look at all ServerScans, as a manager that comes up.
func (w *world) everyOne() {
	w.Helper()
	for _, scan := range w.periodic() {
		testkit.ExpectReconciled(w, w.reconciler, &scan)
	}
}

// Orphans are not lost sight of while the cloud cannot be asked, nor because the manager was down for long.
func TestSchedule_goesOnUntilTheCloudAnswers(t *testing.T) {
	w := newWorld(t)
	last := w.using("DigitaloceanMachine", "a", "cred")
	w.later(2 * interval)
	w.round()
	w.lookedAt(w.report(w.found("1", "gone")))
	require.NoError(t, w.client.Delete(t.Context(), last))
	saw := w.scan.Name

	for range 3 {
		w.later(interval)
		w.round()
		w.lookedAt(state.Result{Outcome: state.Failed, Class: rkev1.ClassUnauthorized, Message: "401"})
		w.everyOne()
	}
	w.later(10 * interval)
	w.everyOne()
	left := w.periodic()
	require.Len(t, left, 1, "failures are deleted when their time has come")
	require.Equal(t, saw, left[0].Name)

	w.round()
	require.Len(t, w.periodic(), 2)
	w.lookedAt(w.report())
	w.everyOne()
	left = w.periodic()
	require.Len(t, left, 1, "the cloud has answered, so the old one may go")
	require.NotEqual(t, saw, left[0].Name)
	w.later(2 * interval)
	w.everyOne()
	require.Empty(t, w.periodic())
	require.Equal(t, interval, w.round())
}

// A hundred credentials are not asked with at the same moment.
func TestSchedule_spreadsThemOut(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
		w.using("DigitaloceanMachine", name, "cred-"+name)
	}
	w.later(2 * interval)
	require.Equal(t, time.Minute, w.round())
	require.Len(t, w.periodic(), 10)
	w.round()
	require.Len(t, w.periodic(), 12)
}

// What a namespace does not take any more is no error.
func TestSchedule_namespaceThatIsBeingDeleted(t *testing.T) {
	w := newWorld(t)
	w.using("DigitaloceanMachine", "a", "cred")
	namespace := &corev1.Namespace{}
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Name: w.namespace}, namespace))
	require.NoError(t, w.client.Delete(t.Context(), namespace))
	w.later(2 * interval)
	w.round()
	require.Empty(t, w.periodic())
}
