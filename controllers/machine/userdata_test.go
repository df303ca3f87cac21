package machine_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	managementv3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// bomb is 4 KB that unpack to 4 MiB of YAML, whose nodes would take hundreds of megabytes.
func bomb(tb testing.TB) []byte {
	tb.Helper()
	var out bytes.Buffer
	writer, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	require.NoError(tb, err)
	_, err = writer.Write([]byte("#cloud-config\na: [" + strings.Repeat("a,", 2<<20-20) + "]\n"))
	require.NoError(tb, err)
	require.NoError(tb, writer.Close())
	require.Less(tb, out.Len(), 5<<10)
	return out.Bytes()
}

// peak samples the heap until it is told to stop, and returns by how much it grew at most.
func peak(stop <-chan struct{}) func() uint64 {
	runtime.GC()
	var base, now runtime.MemStats
	runtime.ReadMemStats(&base)
	grown := make(chan uint64)
	go func() {
		most := uint64(0)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			runtime.ReadMemStats(&now)
			if now.HeapInuse > base.HeapInuse {
				most = max(most, now.HeapInuse-base.HeapInuse)
			}
			select {
			case <-stop:
				grown <- most
				return
			case <-tick.C:
			}
		}
	}()
	return func() uint64 { return <-grown }
}

// TestBootstrapData_bombs: one tenant's bootstrap Secrets cost the manager next to nothing, and another tenant's machine gets
// its Job as fast as beside any other machines.
func TestBootstrapData_bombs(t *testing.T) {
	// rush reconciles as many machines at a time as there are workers, three times each as after restarts, and one of another
	// tenant; it returns how long that took to get its Job, and by how much the heap grew.
	rush := func(data []byte) (time.Duration, uint64) {
		attacked, healthy := newWorld(t), newWorld(t)
		secret := testkit.ExpectExists(t, attacked.client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: attacked.namespace, Name: "bootstrap"}})
		secret.Data["value"] = data
		attacked.update(secret)
		stop, gate := make(chan struct{}), make(chan struct{})
		var all sync.WaitGroup
		for i := range 16 {
			m := attacked.machine("digitalocean", fmt.Sprintf("m%d", i), droplet())
			all.Go(func() {
				<-gate
				for range 3 {
					if _, err := m.reconciler.Reconcile(context.WithoutCancel(t.Context()), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m.obj)}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		one := healthy.machine("digitalocean", "one", droplet())
		grown := peak(stop)
		close(gate)
		began := time.Now()
		one.reconcile()
		took := time.Since(began)
		all.Wait()
		close(stop)
		testkit.ExpectExists(t, one.client, one.job(state.Create, 1))
		return took, grown()
	}
	usual, _ := rush([]byte("#!/bin/sh\n"))
	took, grown := rush(bomb(t))
	t.Logf("beside bombs: heap +%d MiB at most, the healthy machine's Job after %s; beside ordinary machines after %s", grown>>20, took, usual)
	require.Less(t, grown, uint64(64<<20))
	require.Less(t, took, 3*usual+5*time.Second)
}

// What is wrong is named: the machine's own user data, and not the bootstrap Secret.
func TestUserData_ofTheMachineIsWrong(t *testing.T) {
	w := newWorld(t)
	spec := droplet()
	spec["userdata"] = "neither a script nor a configuration\n"
	s := w.machine("digitalocean", "m", spec)
	s.reconcile()
	c := s.expect(rkev1.BootstrapReadyCondition, metav1.ConditionFalse, rkev1.UserDataInvalidReason)
	require.Contains(t, c.Message, "the machine's own user data (driver flag --digitalocean-userdata) cannot be used with the bootstrap data")
	require.NotContains(t, c.Message, "in Secret")
}

// TestUserData_theJobRefuses: what only parsing can tell is told by the Job, and mending the Secret is all it takes.
func TestUserData_theJobRefuses(t *testing.T) {
	w := newWorld(t)
	s := w.machine("digitalocean", "m", droplet())
	s.reconcile()
	now := w.clock.Now()
	const message = "reading the bootstrap data: line 7: it is not valid YAML"
	s.write(map[string]any{
		state.JournalKey: state.Journal{Operation: state.Create, Attempt: 1, Phase: state.PhaseGone, InstanceName: "m"},
		state.ResultKey: state.Result{Operation: state.Create, Attempt: 1, Outcome: state.Failed, Class: rkev1.ClassInvalid,
			Reason: "UserDataInvalid", Message: message, StartTime: now, EndTime: now},
	})
	s.end(state.Create, 1, batchv1.JobFailed, "BackoffLimitExceeded")
	s.reconcile()
	c := s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.AttemptsExhaustedReason)
	require.Contains(t, c.Message, "UserDataInvalid"+"): "+message)
	require.Contains(t, c.Message, "its bootstrap data")

	secret := testkit.ExpectExists(t, w.client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "bootstrap"}})
	secret.Labels = map[string]string{"touched": "true"}
	w.update(secret)
	s.reconcile()
	s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.AttemptsExhaustedReason)
	secret.Data["value"] = []byte("#cloud-config\n")
	w.update(secret)
	s.reconcile()
	testkit.ExpectExists(t, w.client, s.job(state.Create, 2))
}

// TestBootstrapData_unexplained: data that nothing reads is handed over, for who knows, and told.
func TestBootstrapData_unexplained(t *testing.T) {
	w := newWorld(t)
	w.setKey("bootstrap", "value", "runcmd: [MARKER]\n")
	s := w.machine("digitalocean", "m", droplet())
	s.reconcile()
	c := s.expect(rkev1.BootstrapReadyCondition, metav1.ConditionTrue, rkev1.BootstrapFormatUnknownReason)
	require.Contains(t, c.Message, "Secret bootstrap")
	require.NotContains(t, c.Message, "MARKER")
	require.Contains(t, strings.Join(w.events(), "\n"), rkev1.BootstrapFormatUnknownReason)
	testkit.ExpectExists(t, w.client, s.job(state.Create, 1))
}

// TestUserData_unknownHabit: a driver that may want the data or a path is not guessed at, and an annotation says it.
func TestUserData_unknownHabit(t *testing.T) {
	w := newWorld(t)
	nd := w.external("stranger-unsure", "https://drivers.test/unsure", strings.Repeat("a", 64))
	nd.Spec.DisplayName = "unsure"
	w.update(nd)
	s := w.machine("unsure", "m", map[string]any{})
	s.reconcile()
	c := s.expect(rkev1.BootstrapReadyCondition, metav1.ConditionFalse, rkev1.UserDataHabitUnknownReason)
	require.Contains(t, c.Message, "annotate its NodeDriver: drover.cattle.io/user-data=flag=unsure-user-data,habit=")
	require.Contains(t, c.Message, "kubectl annotate nodedriver stranger-unsure ")
	testkit.ExpectNotFound(t, s.client, s.job(state.Create, 1), s.stateSecret())

	for _, wrong := range []string{"flag=unsure-data,habit=inline", "habit=telepathy"} {
		nd.Annotations = map[string]string{managementv3.UserDataAnnotation: wrong}
		w.update(nd)
		s.reconcile()
		s.expect(rkev1.BootstrapReadyCondition, metav1.ConditionFalse, rkev1.UserDataHabitUnknownReason)
	}
	nd.Annotations = map[string]string{managementv3.UserDataAnnotation: "flag=unsure-user-data, habit=base64"}
	w.update(nd)
	s.reconcile()
	require.Equal(t, clouds.UserData{Habit: clouds.Base64, Flag: "unsure-user-data"}, s.requestOf(state.Create, 1).UserData)
}

// TestUserData_conflictingOption: a machine that existed before admission checked its options, or that Cluster API made, gets a
// condition with the field's name and no Job.
func TestUserData_conflictingOption(t *testing.T) {
	w := newWorld(t)
	nd := w.external("unsure", "https://drivers.test/unsure", strings.Repeat("a", 64))
	nd.Annotations = map[string]string{managementv3.UserDataAnnotation: "flag=unsure-user-data,habit=path"}
	w.update(nd)
	s := w.machine("unsure", "m", map[string]any{"userData": "/etc/MARKER"})
	s.reconcile()
	says := s.expect(rkev1.BootstrapReadyCondition, metav1.ConditionFalse, rkev1.SpecInvalidReason).Message
	require.True(t, strings.HasPrefix(says, "spec.userData: must hold user data, not the path of a file\n"), says)
	testkit.ExpectNotFound(t, s.client, s.job(state.Create, 1), s.stateSecret())
}

// TestDelivery: what the Job has seen of the bootstrap data on the server is a condition; without the data no machine is Ready.
func TestDelivery(t *testing.T) {
	for name, c := range map[string]struct {
		proven *bool
		code   int
		status metav1.ConditionStatus
		reason string
		ready  metav1.ConditionStatus
		phase  string
	}{
		"delivered":     {new(true), 0, metav1.ConditionTrue, rkev1.DeliveredReason, metav1.ConditionTrue, rkev1.PhaseRunning},
		"not verified":  {nil, 0, metav1.ConditionUnknown, rkev1.NotVerifiedReason, metav1.ConditionTrue, rkev1.PhaseRunning},
		"it failed":     {new(true), 3, metav1.ConditionFalse, rkev1.BootstrapFailedReason, metav1.ConditionFalse, rkev1.PhaseFailed},
		"not delivered": {new(false), 0, metav1.ConditionFalse, rkev1.NotDeliveredReason, metav1.ConditionFalse, rkev1.PhaseFailed},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.machine("digitalocean", "m", droplet())
			s.reconcile()
			s.succeed(1)
			s.write(map[string]any{state.ResultKey: state.Result{Operation: state.Create, Attempt: 1, Outcome: state.Succeeded,
				Delivery: &state.Delivery{Proven: c.proven, ExitCode: c.code, Message: "what was seen"}, StartTime: w.clock.Now(), EndTime: w.clock.Now()}})
			require.Equal(t, c.phase, s.reconcile().Phase)
			require.Contains(t, s.expect(rkev1.BootstrapDeliveredCondition, c.status, c.reason).Message, "what was seen")
			s.expect(rkev1.ReadyCondition, c.ready, "")
			if c.status == metav1.ConditionFalse {
				require.Contains(t, s.expect(rkev1.BootstrapDeliveredCondition, c.status, c.reason).Message, "drover ssh m -n "+s.namespace+" -- ")
			}
			require.Equal(t, c.status == metav1.ConditionFalse, strings.Contains(strings.Join(w.events(), "\n"), c.reason))
			wrote := w.wrote()
			s.reconcile()
			require.Equal(t, wrote, w.wrote(), "nothing changed")
		})
	}
}

// TestContact: the machine is Ready when the driver is done, while its Job still logs in to the server; what that learned comes later, and a
// pod that is killed meanwhile is no failure. A deletion ends the Job at once.
func TestContact(t *testing.T) {
	w := newWorld(t)
	spec := droplet()
	contact := map[string]any{"port": int64(2222), "user": "core", "timeoutSeconds": int64(30), "jumpHost": "me@bastion.example:22"}
	spec["common"].(map[string]any)["sshContact"] = contact
	s := w.machine("digitalocean", "m", spec)
	s.reconcile()
	require.Equal(t, rkev1.SSHContact{Port: 2222, User: "core", TimeoutSeconds: 30, JumpHost: "me@bastion.example:22"}, s.requestOf(state.Create, 1).SSHContact)

	saved := func(delivery state.Delivery) map[string]any {
		return map[string]any{
			state.JournalKey: state.Journal{Operation: state.Create, Attempt: 1, Phase: state.PhaseBootstrapped, InstanceName: s.name},
			state.ServerKey:  state.Server{InstanceID: "123", ProviderID: "digitalocean://123"}, state.ExtractedConfigKey: "a tar.gz",
			state.ResultKey: state.Result{Operation: state.Create, Attempt: 1, Outcome: state.Succeeded, Delivery: &delivery, StartTime: w.clock.Now(), EndTime: w.clock.Now()},
		}
	}
	s.write(saved(state.Delivery{Message: "the Job logs in to look"}))
	status := s.reconcile()
	require.True(t, status.Ready)
	require.Equal(t, rkev1.PhaseRunning, status.Phase)
	require.True(t, *status.Initialization.Provisioned)
	require.Equal(t, "the Job logs in to look", s.expect(rkev1.BootstrapDeliveredCondition, metav1.ConditionUnknown, rkev1.NotVerifiedReason).Message)

	s.write(saved(state.Delivery{Proven: new(true), Message: "cloud-init has it"}))
	wrote := w.wrote()
	require.True(t, s.reconcile().Ready)
	require.Equal(t, wrote+1, w.wrote(), "the condition, and nothing else")
	s.expect(rkev1.BootstrapDeliveredCondition, metav1.ConditionTrue, rkev1.DeliveredReason)

	s.end(state.Create, 1, batchv1.JobFailed, "BackoffLimitExceeded")
	require.True(t, s.reconcile().Ready)
	testkit.ExpectNotFound(t, s.client, s.job(state.Create, 2))
}

// TestContact_deletion does not wait for the contact to end: its Job is told to.
func TestContact_deletion(t *testing.T) {
	w := newWorld(t)
	s := w.machine("digitalocean", "m", droplet())
	s.reconcile()
	s.write(map[string]any{
		state.JournalKey: state.Journal{Operation: state.Create, Attempt: 1, Phase: state.PhaseBootstrapped, InstanceName: s.name},
		state.ServerKey:  state.Server{InstanceID: "123", ProviderID: "digitalocean://123"}, state.ExtractedConfigKey: "a tar.gz",
		state.ResultKey: state.Result{Operation: state.Create, Attempt: 1, Outcome: state.Succeeded, StartTime: w.clock.Now(), EndTime: w.clock.Now()},
	})
	require.True(t, s.reconcile().Ready)
	pod := s.podOf(testkit.ExpectExists(t, s.client, s.job(state.Create, 1)))
	s.remove()
	s.expect(rkev1.DeleteJobCondition, metav1.ConditionUnknown, rkev1.JobCancelledReason)
	testkit.ExpectExists(t, s.client, pod)
	job := testkit.ExpectExists(t, s.client, s.job(state.Create, 1))
	require.False(t, job.DeletionTimestamp.IsZero())
	require.False(t, testkit.ExpectExists(t, s.client, pod).DeletionTimestamp.IsZero())
}

// TestContact_offWithoutUserData: the bootstrap data would reach nobody. The kind refuses what is known of its driver; what a NodeDriver
// says of it, the condition.
func TestContact_offWithoutUserData(t *testing.T) {
	w := newWorld(t)
	off := map[string]any{"sshContact": map[string]any{"mode": rkev1.SSHContactOff}}
	refused := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"ipAddress": "198.18.0.9", "common": off}}}
	refused.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind("GenericMachine"))
	refused.SetNamespace(w.namespace)
	refused.SetName("m")
	err := w.client.Create(t.Context(), refused)
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	require.ErrorContains(t, err, "the bootstrap data goes over SSH, which cannot be Off")

	nd := w.nodeDriver("unsure", "https://drivers.test/unsure", func(nd *managementv3.NodeDriver) {
		nd.Annotations = map[string]string{managementv3.UserDataAnnotation: "habit=none"}
	})
	nd.Status.Digest, nd.Status.AppliedURL = strings.Repeat("a", 64), "https://drivers.test/unsure"
	require.NoError(t, w.client.Status().Update(t.Context(), nd))
	s := w.machine("unsure", "n", map[string]any{"common": off})
	s.reconcile()
	require.Contains(t, s.expect(rkev1.BootstrapReadyCondition, metav1.ConditionFalse, rkev1.SpecInvalidReason).Message, "spec.common.sshContact.mode must not be Off")
	testkit.ExpectNotFound(t, s.client, s.job(state.Create, 1), s.stateSecret())

	// Nor would anybody read what is no script: that is told before there is a server.
	w.setKey("bootstrap", "value", "#cloud-config\n")
	s = w.machine("unsure", "config", map[string]any{})
	s.reconcile()
	told := s.expect(rkev1.BootstrapReadyCondition, metav1.ConditionFalse, rkev1.BootstrapFormatUnsupportedReason).Message
	require.Contains(t, told, "must be a shell script that begins with #!, but the data in Secret")
	require.Contains(t, told, "Use a bootstrap provider that writes a script, or your own Secret with a script that begins with #!\n* Drover reads it again when it changes")
	require.NotContains(t, told, "MIME")
	testkit.ExpectNotFound(t, s.client, s.job(state.Create, 1), s.stateSecret())
}
