package machine_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

func TestCreate_fromMachineToReady(t *testing.T) {
	s := newWorld(t).machine("digitalocean", "pool1-abc", droplet())

	status := s.reconcile()
	s.expect(rkev1.CreateJobCondition, metav1.ConditionUnknown, rkev1.JobRunningReason)
	s.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.JobRunningReason)
	s.expect(rkev1.PausedCondition, metav1.ConditionFalse, "")
	require.Equal(t, rkev1.PhaseCreating, status.Phase)
	require.Equal(t, "pool1-abc-create-1", status.JobName)
	require.Contains(t, s.obj.GetFinalizers(), rkev1.MachineFinalizer)
	require.Equal(t, "pool1-abc", s.obj.GetLabels()[rkev1.CAPIMachineLabel])

	request := s.requestOf(state.Create, 1)
	require.Equal(t, map[string]string{"DIGITALOCEAN_ACCESS_TOKEN": "marker-secret-token"}, withoutDefaults(request.CredentialEnv))
	require.Equal(t, "fra1", request.Options["digitalocean-region"])
	require.Equal(t, "pool1-abc", request.InstanceName)
	require.Equal(t, string(s.obj.GetUID()), request.Tags[jobrunner.TagMachineUID])
	require.Equal(t, string(s.cluster.UID), request.Machine.ClusterUID)
	require.True(t, request.Driver.Builtin)
	require.True(t, request.HasBootstrap)

	// Its pod runs: nothing new to say.
	job := testkit.ExpectExists(t, s.client, s.job(state.Create, 1))
	job.Status.Active, job.Status.Ready = 1, new(int32(1))
	require.NoError(t, s.client.Status().Update(t.Context(), job))
	s.reconcile()

	s.succeed(1)
	status = s.reconcile()
	for _, condition := range []string{rkev1.ClusterReadyCondition, rkev1.DriverReadyCondition, rkev1.BootstrapReadyCondition,
		rkev1.CredentialReadyCondition, rkev1.CreateJobCondition, rkev1.StateStoredCondition, rkev1.ProviderIDKnownCondition, rkev1.ReadyCondition} {
		testkit.ExpectCondition(t, s.obj, condition, metav1.ConditionTrue, "")
	}
	require.Equal(t, []clusterv1.MachineAddress{{Type: clusterv1.MachineExternalIP, Address: "198.18.0.7"}}, status.Addresses)
	require.True(t, *status.Initialization.Provisioned)
	require.True(t, status.Ready)
	require.Equal(t, rkev1.PhaseRunning, status.Phase)
	require.Equal(t, "Succeeded", status.LastAttempt.Outcome)
	require.Equal(t, "cred", status.CloudCredentialSecretName)
	spec, _ := s.obj.Object["spec"].(map[string]any)
	require.Equal(t, "digitalocean://123", spec["providerID"])
	require.Greater(t, s.obj.GetGeneration(), int64(1), "the provider ID was written into the spec")
	testkit.ExpectObserved(t, s.obj)
	testkit.ExpectNotFound(t, s.client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "pool1-abc-create-1"}})

	events := s.events()
	t.Logf("%d API writes from creation to Ready: %v; %d events: %q", s.wrote(), s.writes, len(events), events)
	// The credential of last resort, which must not be in the state, is one. Two are for the first machine alone: labels of the user's Secrets.
	require.LessOrEqual(t, s.wrote()+len(events), 13+2)
}

// The zone that Cluster API chose goes before the template's.
func TestCreate_inItsFailureDomain(t *testing.T) {
	s := newWorld(t).machine("digitalocean", "pool1-abc", droplet())
	s.capi.Spec.FailureDomain = "ams3"
	s.update(s.capi)
	s.reconcile()
	require.Equal(t, "ams3", s.requestOf(state.Create, 1).Options["digitalocean-region"])
}

func withoutDefaults(env map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range env {
		if strings.Contains(key, "TOKEN") {
			out[key] = value
		}
	}
	return out
}

func TestCreate_settledMachineIsLeftAlone(t *testing.T) {
	s := made(t)
	s.events()
	version := s.obj.GetResourceVersion()
	clear(s.writes)
	s.reconcile()
	s.reconcile()
	require.Equal(t, version, s.obj.GetResourceVersion())
	require.Zero(t, s.wrote(), "%v", s.writes)
	require.Empty(t, s.events())

	// What was needed to make the server may go.
	s.delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "cred"}})
	s.delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "bootstrap"}})
	require.True(t, s.reconcile().Ready)
	require.Zero(t, s.wrote(), "%v", s.writes)

	// Another generation is told once.
	spec, _ := s.obj.Object["spec"].(map[string]any)
	spec["size"] = "s-8vcpu-16gb"
	require.NoError(t, s.client.Update(t.Context(), s.obj))
	clear(s.writes)
	s.reconcile()
	testkit.ExpectObserved(t, s.obj)
	s.reconcile()
	require.Equal(t, 1, s.wrote(), "%v", s.writes)
}

func TestCreate_waitsForItsTurn(t *testing.T) {
	w := newWorld(t)
	s := w.machine("digitalocean", "m", droplet())
	s.capi.Spec.Bootstrap = clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.test", Kind: "Config", Name: "x"}}
	w.update(s.capi)
	w.cluster.Status.Initialization.InfrastructureProvisioned = nil
	require.NoError(t, w.client.Status().Update(t.Context(), w.cluster))

	s.reconcile()
	s.expect(rkev1.ClusterReadyCondition, metav1.ConditionFalse, rkev1.WaitingForInfrastructureReason)
	require.Empty(t, s.obj.GetFinalizers())

	w.cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	w.cluster.Status.Phase = "Provisioned"
	require.NoError(t, w.client.Status().Update(t.Context(), w.cluster))
	s.reconcile()
	s.expect(rkev1.BootstrapReadyCondition, metav1.ConditionFalse, rkev1.WaitingForBootstrapReason)
	require.Empty(t, s.events(), "waiting is no event")

	s.capi.Spec.Bootstrap.DataSecretName = new("bootstrap")
	w.update(s.capi)
	require.Equal(t, rkev1.PhaseCreating, s.reconcile().Phase)
}

func TestCreate_ownerComesLater(t *testing.T) {
	s := newWorld(t).machine("digitalocean", "m", droplet())
	refs := s.obj.GetOwnerReferences()
	s.obj.SetOwnerReferences(nil)
	s.update(s.obj)

	s.clock.SetTime(s.obj.GetCreationTimestamp().Add(time.Second))
	result := testkit.ExpectReconciled(t, s.reconciler, s.obj)
	require.Positive(t, result.RequeueAfter)
	require.Zero(t, s.wrote(), "Cluster API adopts it in a moment")

	s.clock.SetTime(start)
	s.reconcile()
	c := s.expect(rkev1.ClusterReadyCondition, metav1.ConditionFalse, rkev1.WaitingForOwnerReason)
	require.Contains(t, c.Message, "infrastructureRef")

	s.obj.SetOwnerReferences(refs)
	s.update(s.obj)
	require.Equal(t, rkev1.PhaseCreating, s.reconcile().Phase)
}

func TestCreate_notForAMachineThatIsGoing(t *testing.T) {
	s := newWorld(t).machine("digitalocean", "m", droplet())
	s.capi.Finalizers = []string{"cluster.x-k8s.io/machine"}
	s.update(s.capi)
	s.delete(s.capi)
	s.reconcile()
	s.expect(rkev1.ClusterReadyCondition, metav1.ConditionFalse, rkev1.DeletingReason)
	testkit.ExpectNotFound(t, s.client, s.stateSecret())
}

func TestCreate_isIdempotentWhereverItWasInterrupted(t *testing.T) {
	s := begun(t)
	// The controller died after the claim: the Job is missing, or more than it.
	for _, lost := range []func(){
		func() { s.delete(s.job(state.Create, 1)) },
		func() {
			s.delete(s.job(state.Create, 1))
			s.delete(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "m-machine"}})
		},
	} {
		lost()
		s.dropJobFinalizers()
		status := s.reconcile()
		require.EqualValues(t, 1, status.Attempts)
		testkit.ExpectExists(t, s.client, s.job(state.Create, 1))
		testkit.ExpectExists(t, s.client, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "m-machine"}})
	}
	jobs := &batchv1.JobList{}
	require.NoError(t, s.client.List(t.Context(), jobs))
	count := 0
	for i := range jobs.Items {
		if jobs.Items[i].Namespace == s.namespace {
			count++
		}
	}
	require.Equal(t, 1, count)
}

// Cluster API takes over where the server is when the machine says that it is provisioned, and so it stands there in time.
func TestCreate_tellsTheFailureDomain(t *testing.T) {
	s := begun(t)
	s.succeed(1)
	for _, where := range []string{"fra1", "nyc3", ""} {
		s.write(map[string]any{state.ServerKey: state.Server{InstanceID: "123", ProviderID: "digitalocean://123", FailureDomain: where}})
		status := s.reconcile()
		require.True(t, *status.Initialization.Provisioned)
		require.Equal(t, where, status.FailureDomain)
	}
}

// Two managers with different filters share no machine.
func TestCreate_onlyWhatIsWatched(t *testing.T) {
	w := newWorld(t)
	for name, tt := range map[string]struct {
		filter, label string
		want          bool
	}{
		"all":           {"", "", true},
		"all-labelled":  {"", "blue", true},
		"without-label": {"blue", "", false},
		"of-another":    {"blue", "green", false},
		"of-this-one":   {"blue", "blue", true},
	} {
		t.Run(name, func(t *testing.T) {
			w.filter = tt.filter
			s := w.machine("digitalocean", name, droplet())
			if tt.label != "" {
				s.obj.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "c1", clusterv1.WatchLabel: tt.label})
				s.update(s.obj)
			}
			before := w.wrote()
			status := s.reconcile()
			require.Equal(t, tt.want, status.Phase == rkev1.PhaseCreating)
			require.Equal(t, tt.want, w.wrote() > before)
		})
	}
}

func TestCreate_pausedStartsNothing(t *testing.T) {
	w := newWorld(t)
	w.cluster.Spec.Paused = new(true)
	w.update(w.cluster)
	s := w.machine("digitalocean", "m", droplet())
	s.reconcile()
	s.expect(rkev1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)
	s.expect(rkev1.ReadyCondition, metav1.ConditionFalse, clusterv1.PausedReason)
	testkit.ExpectNotFound(t, s.client, s.job(state.Create, 1), s.stateSecret())

	w.cluster.Spec.Paused = nil
	w.update(w.cluster)
	s.reconcile()
	s.expect(rkev1.PausedCondition, metav1.ConditionFalse, "")
	testkit.ExpectExists(t, s.client, s.job(state.Create, 1))
}

func TestCreate_secretsAreNowhereToBeSeen(t *testing.T) {
	spec := droplet()
	spec["sshKeyContents"] = "marker-secret-key"
	s := newWorld(t).machine("digitalocean", "m", spec)
	s.reconcile()
	require.Contains(t, s.requestOf(state.Create, 1).Secrets, "marker-secret-key\n")
	s.fail(state.Create, 1, rkev1.ClassUnauthorized, "401 Unauthorized", false)
	status := s.reconcile()
	raw, err := json.Marshal([]any{status, s.events(), testkit.ExpectExists(t, s.client, s.job(state.Create, 1)),
		testkit.ExpectExists(t, s.client, s.stateSecret())})
	require.NoError(t, err)
	require.NotContains(t, string(raw), "marker-secret")
}

func TestCreate_statusIsLost(t *testing.T) {
	// clusterctl move never restores a status.
	s := made(t)
	delete(s.obj.Object, "status")
	require.NoError(t, s.client.Status().Update(t.Context(), s.obj))
	status := s.reconcile()
	s.expect(rkev1.ReadyCondition, metav1.ConditionTrue, "")
	require.Equal(t, rkev1.PhaseRunning, status.Phase)
	require.Len(t, status.Addresses, 1)
	testkit.ExpectNotFound(t, s.client, s.job(state.Create, 2))
}

// A machine that a backup brought back has another UID than the one that its servers are tagged with: they are looked for with
// that, for a server whose answer was lost is found in no other way.
func TestCreate_restoredMachineFindsItsServers(t *testing.T) {
	w := newWorld(t)
	for name, forget := range map[string]string{"noted": "", "by-its-label": rkev1.TaggedUIDAnnotation} {
		t.Run(name, func(t *testing.T) {
			s := w.machine("digitalocean", name, droplet())
			s.reconcile()
			first := string(s.obj.GetUID())
			s.fail(state.Create, 1, rkev1.ClassTransient, "connection reset", true)
			secret := testkit.ExpectExists(t, s.client, s.stateSecret())

			again := s.restore(secret, forget)
			again.annotate(rkev1.RetryAnnotation, "1")
			again.reconcile()
			require.NotEqual(t, first, string(again.obj.GetUID()))
			request := again.requestOf(state.Create, 2)
			require.Equal(t, first, request.Tags[jobrunner.TagMachineUID])
			require.Equal(t, string(again.obj.GetUID()), request.Machine.UID)

			again.fail(state.Create, 2, rkev1.ClassTransient, "connection reset", true)
			again.delete(again.obj)
			again.reconcile()
			require.Equal(t, first, again.requestOf(state.Remove, 1).Tags[jobrunner.TagMachineUID], "from one attempt to the next")
		})
	}
}

// restore plays a backup: the machine and its state are gone, and come back without a status, with another UID and no owners.
func (s *subject) restore(secret *corev1.Secret, forget string) *subject {
	s.Helper()
	s.delete(s.job(state.Create, 1))
	s.dropJobFinalizers()
	for _, obj := range []client.Object{testkit.ExpectExists(s, s.client, s.stateSecret()), s.obj} {
		s.read()
		require.NoError(s, s.client.Patch(s.Context(), obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		s.delete(obj)
	}
	secret.ResourceVersion, secret.UID, secret.OwnerReferences, secret.ManagedFields = "", "", nil, nil
	delete(secret.Annotations, forget)
	require.NoError(s, s.client.Create(s.Context(), secret))
	s.delete(s.capi)
	return s.machine("digitalocean", s.name, droplet())
}

func TestCreate_externalDriver(t *testing.T) {
	w := newWorld(t)
	w.secret("acme", string(rkev1.CloudCredentialSecretType), map[string]string{"acmecredentialConfig-token": "t", "keyText": "k"})
	s := w.machine("acme", "m", map[string]any{"region": "x", "common": map[string]any{"cloudCredentialSecretName": "acme"}})
	s.reconcile()
	c := s.expect(rkev1.DriverReadyCondition, metav1.ConditionFalse, rkev1.DriverNotFoundReason)
	require.Contains(t, c.Message, "NodeDriver")

	nd := w.nodeDriver("acme", "https://drivers.test/acme", nil)
	s.reconcile()
	s.expect(rkev1.DriverReadyCondition, metav1.ConditionFalse, rkev1.DriverNotReadyReason)

	nd.Status.Digest, nd.Status.AppliedURL = strings.Repeat("a", 64), "https://drivers.test/acme"
	require.NoError(t, w.client.Status().Update(t.Context(), nd))
	s.reconcile()
	request := s.requestOf(state.Create, 1)
	require.Equal(t, nd.Status.Digest, request.Driver.Digest)
	require.False(t, request.Driver.Builtin)
	require.Equal(t, "t", request.CredentialEnv["ACME_TOKEN"])
	require.Equal(t, map[string]any{"acme-region": "x", "acme-key-text": "k"}, request.Options, "its flag names no variable")
}

// A node's clock may be wrong: back-off counts by ours, so that a failed attempt is neither repeated at once nor put off for ever.
func TestBackOffCountsByTheManagersClock(t *testing.T) {
	for name, skew := range map[string]time.Duration{"the pod's clock is behind": -2 * time.Hour, "the pod's clock is ahead": 2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			s := newWorld(t).machine("digitalocean", "m1", droplet())
			s.reconcile()
			s.clock.SetTime(start.Add(skew))
			s.fail(state.Create, 1, rkev1.ClassTransient, "no route to host", false)
			s.clock.SetTime(start)
			status := s.reconcile()
			s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.WaitingForRetryReason)
			require.WithinRange(t, status.NextAttemptTime.Time, start.Add(15*time.Second), start.Add(19*time.Second))
			require.Equal(t, status, s.reconcile(), "it stays so")
		})
	}
}

// A Job that is cleaned up takes its pod with it. What both told of an attempt stays: it is not made again for that, whether the
// status is there or was lost too.
func TestCreate_exhaustedStaysExhaustedWithoutItsJob(t *testing.T) {
	s := begun(t)
	for attempt := int32(1); ; attempt++ {
		s.write(map[string]any{state.JournalKey: state.Journal{Operation: state.Create, Attempt: attempt, Phase: state.PhaseRecorded, InstanceName: s.name}})
		s.outOfMemory(attempt)
		status := s.reconcile()
		if attempt == jobrunner.MadeBudget {
			break
		}
		s.clock.SetTime(status.NextAttemptTime.Add(time.Second))
		s.reconcile()
	}
	says := s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.AttemptsExhaustedReason).Message
	require.Contains(t, says, "OutOfMemory")
	require.Contains(t, says, "5 attempts created a server and then failed, and each server costs money")
	last := s.read().LastAttempt
	require.Equal(t, rkev1.ClassUnknown, last.Class)

	s.clock.SetTime(s.clock.Now().Add(25 * time.Hour))
	require.NoError(t, s.client.Delete(t.Context(), s.job(state.Create, 5), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	pods := &corev1.PodList{}
	require.NoError(t, s.client.List(t.Context(), pods, client.InNamespace(s.namespace)))
	for i := range pods.Items {
		require.NoError(t, s.client.Delete(t.Context(), &pods.Items[i], client.GracePeriodSeconds(0)))
	}
	clear(s.writes)
	require.Equal(t, last, s.reconcile().LastAttempt)
	require.Equal(t, says, s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.AttemptsExhaustedReason).Message)
	require.Zero(t, s.wrote(), "%v", s.writes)

	delete(s.obj.Object, "status")
	require.NoError(t, s.client.Status().Update(t.Context(), s.obj))
	require.Equal(t, last.Message, s.reconcile().LastAttempt.Message)
	s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.AttemptsExhaustedReason)
	testkit.ExpectNotFound(t, s.client, s.job(state.Create, 6))
}

// The API server looks for finalizers when a deletion begins, and not again: a machine that gets its finalizer meanwhile is gone all the same.
func TestCreate_nothingForAMachineThatIsGone(t *testing.T) {
	s := newWorld(t).machine("digitalocean", "m", droplet())
	s.fault = func(do func() error) error { // the first write sets the finalizer
		s.fault = nil
		err := do()
		s.vanish()
		return err
	}
	require.True(t, apierrors.IsNotFound(testkit.ExpectReconcileError(t, s.reconciler, s.obj)))
	testkit.ExpectNotFound(t, s.client, s.stateSecret(), s.job(state.Create, 1),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: jobrunner.AccessName(s.name)}})
	s.goes()
}
