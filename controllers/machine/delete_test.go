package machine_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	managementv3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

func TestDelete_removesTheServerFirst(t *testing.T) {
	s := made(t)
	s.events()
	s.delete(s.obj)
	status := s.reconcile()
	s.expect(rkev1.DeleteJobCondition, metav1.ConditionUnknown, rkev1.JobRunningReason)
	s.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.JobRunningReason)
	require.Equal(t, rkev1.PhaseDeleting, status.Phase)
	require.Equal(t, "m-rm-1", status.JobName)
	request := s.requestOf(state.Remove, 1)
	require.Equal(t, state.Remove, request.Operation)
	require.Equal(t, "marker-secret-token", request.CredentialEnv["DIGITALOCEAN_ACCESS_TOKEN"])
	require.False(t, request.HasBootstrap)

	s.removed(1)
	s.goes()
	secret := testkit.ExpectExists(t, s.client, s.stateSecret())
	require.Empty(t, secret.Finalizers, "the garbage collector may have it")
	require.Contains(t, strings.Join(s.events(), "\n"), rkev1.ServerGoneReason)
	testkit.ExpectReconciled(t, s.reconciler, s.obj) // one event too many does no harm
}

func TestDelete_nothingWasMade(t *testing.T) {
	for name, prepare := range map[string]func(*subject){
		"never reconciled": func(*subject) {},
		"waiting": func(s *subject) {
			s.delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "cred"}})
			s.reconcile()
		},
		"the Job's pod did not get as far as the driver": func(s *subject) {
			s.reconcile()
			s.write(map[string]any{state.ResultKey: state.Result{Operation: state.Create, Attempt: 1, Outcome: state.Failed}})
			s.end(state.Create, 1, batchv1.JobFailed, "BackoffLimitExceeded")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newWorld(t).machine("digitalocean", "m", droplet())
			prepare(s)
			s.delete(s.obj)
			s.goes()
			testkit.ExpectNotFound(t, s.client, s.job(state.Remove, 1))
		})
	}
}

func TestDelete_whileCreating(t *testing.T) {
	s := begun(t)
	s.write(map[string]any{state.JournalKey: state.Journal{Operation: state.Create, Attempt: 1, Phase: state.PhaseIntent, InstanceName: "m"}})
	s.remove()
	s.expect(rkev1.DeleteJobCondition, metav1.ConditionUnknown, rkev1.JobCancelledReason)
	job := testkit.ExpectExists(t, s.client, s.job(state.Create, 1))
	require.False(t, job.DeletionTimestamp.IsZero(), "the Job is being cancelled")
	require.Contains(t, job.Finalizers, metav1.FinalizerDeleteDependents, "and stays until its pod is gone")

	s.reconcile()
	testkit.ExpectNotFound(t, s.client, s.job(state.Remove, 1))

	// The pod saves what it knows and ends; the garbage collector takes the Job.
	s.write(map[string]any{
		state.ExtractedConfigKey: "a tar.gz",
		state.ResultKey:          state.Result{Operation: state.Create, Attempt: 1, Outcome: state.Cancelled, ServerMayExist: true},
	})
	s.dropJobFinalizers()
	s.reconcile()
	s.expect(rkev1.DeleteJobCondition, metav1.ConditionUnknown, rkev1.JobRunningReason)
	read := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: jobrunner.JobName(s.name, state.Create, 1)}}
	testkit.ExpectNotFound(t, s.client, read) // and with it the token that the pod had
	s.removed(1)
	s.goes()
}

// Who tells the pod of a deleted Job to end, and takes the Job when that is gone, the garbage collector, may be busy for long.
func TestDelete_waitsForNoGarbageCollector(t *testing.T) {
	for name, ends := range map[string]func(*subject, *corev1.Pod){
		"the pod has ended": func(s *subject, pod *corev1.Pod) {
			s.podIs(pod, corev1.PodSucceeded, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}})
		},
		"the pod is gone, and has told how it ended": func(s *subject, pod *corev1.Pod) {
			s.write(map[string]any{state.ResultKey: state.Result{Operation: state.Create, Attempt: 1, Outcome: state.Cancelled, ServerMayExist: true}})
			require.NoError(t, s.client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := begun(t)
			job := testkit.ExpectExists(t, s.client, s.job(state.Create, 1))
			pod := s.podOf(job)
			s.podIs(pod, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
			s.write(map[string]any{state.JournalKey: state.Journal{Operation: state.Create, Attempt: 1, Phase: state.PhaseCreated, InstanceName: "m"}})
			s.remove()
			s.expect(rkev1.DeleteJobCondition, metav1.ConditionUnknown, rkev1.JobCancelledReason)
			testkit.ExpectNotFound(t, s.client, s.job(state.Remove, 1))
			require.NoError(t, s.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
			require.False(t, pod.DeletionTimestamp.IsZero(), "it is told to end")
			require.EqualValues(t, 90, *pod.DeletionGracePeriodSeconds, "and has the time that it has in the Job")

			ends(s, pod)
			s.reconcile()
			s.expect(rkev1.DeleteJobCondition, metav1.ConditionUnknown, rkev1.JobRunningReason)
			testkit.ExpectNotFound(t, s.client, s.job(state.Create, 1))
			s.removed(1)
			s.goes()
		})
	}
}

func TestDelete_waitsForAPodThatOutlivesItsJob(t *testing.T) {
	s := begun(t)
	job := testkit.ExpectExists(t, s.client, s.job(state.Create, 1))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "p", Labels: job.Spec.Template.Labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}, ServiceAccountName: "m-machine", AutomountServiceAccountToken: new(bool)}}
	require.NoError(t, s.client.Create(t.Context(), pod))
	require.NoError(t, s.client.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	s.dropJobFinalizers()
	s.remove()
	c := s.expect(rkev1.DeleteJobCondition, metav1.ConditionUnknown, rkev1.JobCancelledReason)
	require.Contains(t, c.Message, "pod p")
	require.NoError(t, s.client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	s.goes()
}

func TestDelete_failsAndIsTriedAgain(t *testing.T) {
	s := made(t)
	s.remove()
	s.fail(state.Remove, 1, rkev1.ClassTransient, "503 from the cloud", true)
	status := s.reconcile()
	c := s.expect(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.ServerMayExistReason)
	require.Contains(t, c.Message, "503 from the cloud")
	require.Contains(t, c.Message, rkev1.AbandonAnnotation+"=m")
	require.Equal(t, rkev1.DeleteErrorReason, status.FailureReason)
	require.NotNil(t, status.NextAttemptTime)

	s.clock.SetTime(status.NextAttemptTime.Add(time.Second))
	require.EqualValues(t, 2, s.reconcile().Attempts)
	s.removed(2)
	s.goes()
}

func TestDelete_abandon(t *testing.T) {
	s := made(t)
	s.remove()
	s.fail(state.Remove, 1, rkev1.ClassUnauthorized, "401", true)
	s.reconcile()
	s.annotate(rkev1.AbandonAnnotation, "another-name")
	s.reconcile()
	testkit.ExpectNotFound(t, s.client, s.job(state.Remove, 2))

	// The right name: one more attempt, which is told so, and then the machine goes whatever comes of it.
	s.annotate(rkev1.AbandonAnnotation, "m")
	s.reconcile()
	require.True(t, s.requestOf(state.Remove, 2).Abandon)
	s.fail(state.Remove, 2, rkev1.ClassUnauthorized, "401", true)
	s.events()
	s.goes()
	events := strings.Join(s.events(), "\n")
	require.Contains(t, events, rkev1.AbandonedReason)
	require.Contains(t, events, "ID 123")
}

func TestDelete_whateverElseIsGone(t *testing.T) {
	s := made(t)
	for _, gone := range []client.Object{s.capi, s.cluster,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "cred"}}} {
		s.delete(gone)
	}
	s.delete(&managementv3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "digitalocean"}})
	s.remove()
	request := s.requestOf(state.Remove, 1)
	require.True(t, request.Driver.Builtin)
	require.Equal(t, "marker-secret-token", request.CredentialEnv["DIGITALOCEAN_ACCESS_TOKEN"], "the one that was used last")
	s.expect(rkev1.CredentialReadyCondition, metav1.ConditionTrue, rkev1.CredentialRecalledReason)
	s.removed(1)
	s.goes()
}

func TestDelete_externalDriverIsGone(t *testing.T) {
	const url = "https://u:SECRET@drivers.test/acme?token=SECRET"
	w := newWorld(t)
	nd := w.external("acme", url, strings.Repeat("a", 64))
	s := w.machine("acme", "m", map[string]any{"token": "t"})
	s.ready()
	shown, _, err := unstructured.NestedString(s.obj.Object, "status", "driverUrl")
	require.NoError(t, err)
	require.Equal(t, "https://drivers.test/acme", shown, "what lets one in is not for all who may look at a machine")
	w.delete(nd)
	delete(s.obj.Object, "status")
	require.NoError(t, w.client.Status().Update(t.Context(), s.obj))
	s.remove()
	driver := s.requestOf(state.Remove, 1).Driver
	require.Equal(t, nd.Status.Digest, driver.Digest)
	require.Equal(t, url, driver.URL, "from the state")
}

// loseState empties the state Secret, as a restore may, or takes it away.
func (s *subject) loseState(altogether bool) {
	s.Helper()
	secret := testkit.ExpectExists(s, s.client, s.stateSecret())
	secret.Finalizers, secret.Data = nil, nil
	s.update(secret)
	if altogether {
		s.delete(secret)
	}
}

func TestDelete_stateIsEmpty(t *testing.T) {
	for name, altogether := range map[string]bool{"empty": false, "gone": true} {
		t.Run(name, func(t *testing.T) {
			s := made(t)
			s.loseState(altogether)
			s.remove()
			request := s.requestOf(state.Remove, 1)
			require.Equal(t, string(s.obj.GetUID()), request.Tags[jobrunner.TagMachineUID], "the finder has the tag to look for")
			require.True(t, request.MayExist, "and who has no finder does not say that there is none")
			testkit.ExpectExists(t, s.client, s.stateSecret())
			testkit.ExpectExists(t, s.client, s.obj)
		})
	}
}

// A server whose state is lost is left as it is: it is neither replaced nor made a second time.
func TestState_isLost(t *testing.T) {
	for name, altogether := range map[string]bool{"empty": false, "gone": true} {
		t.Run(name, func(t *testing.T) {
			s := made(t)
			kept := testkit.ExpectExists(t, s.client, s.stateSecret())
			s.loseState(altogether)
			if !altogether {
				s.delete(s.job(state.Create, 1))
				s.dropJobFinalizers()
			}
			s.reconcile()
			message := s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.StateMissingReason).Message
			require.Contains(t, message, "restore it from a backup, or delete the machine")
			testkit.ExpectNotFound(t, s.client, s.job(state.Create, 2))

			back := s.stateSecret()
			if !altogether {
				back = testkit.ExpectExists(t, s.client, s.stateSecret())
			}
			back.Type, back.Annotations, back.Labels, back.Data = kept.Type, kept.Annotations, kept.Labels, kept.Data
			if altogether {
				require.NoError(t, s.client.Create(t.Context(), back))
			} else {
				s.update(back)
			}
			s.reconcile()
			s.expect(rkev1.ReadyCondition, metav1.ConditionTrue, rkev1.ReadyReason)
		})
	}
}

// An attempt that was lost before there was a server may have made one: its successor is told, also if it is made in two steps.
func TestState_isLostWithAnAttempt(t *testing.T) {
	s := begun(t)
	require.False(t, s.requestOf(state.Create, 1).MayExist)
	s.loseState(true)
	for range 2 {
		s.delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.job(state.Create, 1).Name}})
		s.delete(s.job(state.Create, 1))
		s.dropJobFinalizers()
		s.reconcile()
		require.True(t, s.requestOf(state.Create, 1).MayExist)
	}
}

func TestDelete_stateSurvivesADeletionOfChildren(t *testing.T) {
	// kubectl delete --cascade=foreground deletes what the machine owns before the machine.
	s := made(t)
	s.delete(testkit.ExpectExists(t, s.client, s.stateSecret()))
	s.remove()
	require.NotEmpty(t, testkit.ExpectExists(t, s.client, s.stateSecret()).Data[state.ExtractedConfigKey])
	s.removed(1)
	s.goes()
	testkit.ExpectNotFound(t, s.client, s.stateSecret())
}

func TestDelete_pausedKeepsEverything(t *testing.T) {
	s := made(t)
	s.annotate("cluster.x-k8s.io/paused", "")
	s.remove()
	s.expect(rkev1.PausedCondition, metav1.ConditionTrue, "")
	testkit.ExpectNotFound(t, s.client, s.job(state.Remove, 1))
}

func TestDelete_namespaceIsGoing(t *testing.T) {
	s := made(t)
	own := testkit.ExpectExists(t, s.client, s.stateSecret())
	own.Annotations[rkev1.TaggedUIDAnnotation] = "earlier"
	s.update(own)
	s.delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	s.delete(s.obj)
	status := s.reconcile()
	c := s.expect(rkev1.DeleteJobCondition, metav1.ConditionFalse, "NamespaceTerminating")
	require.Contains(t, c.Message, "drover-drivers", "where nothing can be copied to yet")

	testkit.ExpectApplied(t, s.client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "drover-drivers"}})
	status = s.reconcile()
	s.expect(rkev1.DeleteJobCondition, metav1.ConditionUnknown, rkev1.JobRunningReason)
	fallback := s.atFallback(status.JobName)
	secret := testkit.ExpectExists(t, s.client, fallback.stateSecret())
	require.Equal(t, []byte("a tar.gz"), secret.Data[state.ExtractedConfigKey])
	request := fallback.requestOf(state.Remove, 1)
	require.Equal(t, "drover-drivers", request.Namespace)
	require.Equal(t, secret.Name, request.StateSecret)
	require.Equal(t, s.namespace, request.Machine.Namespace)
	require.Equal(t, "earlier", request.Tags[jobrunner.TagMachineUID])
	require.NotContains(t, secret.Data, state.CredentialKey)
	require.Contains(t, string(testkit.ExpectExists(t, s.client, fallback.lastCredential()).Data[state.CredentialKey]), "DIGITALOCEAN_ACCESS_TOKEN")

	s.reconcile()
	fallback.fail(state.Remove, 1, rkev1.ClassTransient, "503", true)
	status = s.reconcile()
	s.clock.SetTime(status.NextAttemptTime.Add(time.Second))
	s.reconcile()
	fallback.removed(2)
	s.goes()
	testkit.ExpectNotFound(t, s.client, fallback.stateSecret(), fallback.job(state.Remove, 1), fallback.job(state.Remove, 2),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "drover-drivers", Name: jobrunner.AccessName(fallback.name)}})
	require.Empty(t, testkit.ExpectExists(t, s.client, s.stateSecret()).Finalizers)
	require.Empty(t, testkit.ExpectExists(t, s.client, s.lastCredential()).Finalizers)
	testkit.ExpectNotFound(t, s.client, fallback.lastCredential())
}

// What the pod writes of its number decides nothing of how much is taken away after it.
func TestDelete_fallbackIsLeftWhateverThePodWrote(t *testing.T) {
	s := newWorld(t).machine("digitalocean", "m", droplet())
	fallback := s.fallBack()
	fallback.removed(1)
	secret := testkit.ExpectExists(t, s.client, fallback.stateSecret())
	var result state.Result
	require.NoError(t, json.Unmarshal(secret.Data[state.ResultKey], &result))
	result.Attempt = state.MaxAttempt
	fallback.write(map[string]any{state.ResultKey: result})
	secret = testkit.ExpectExists(t, s.client, fallback.stateSecret())
	secret.Annotations["drover.cattle.io/claimed-attempt"] = strconv.Itoa(state.MaxAttempt)
	s.update(secret)
	clear(s.writes)
	s.goes()
	require.Less(t, s.wrote(), 20, "%v", s.writes)
	access := metav1.ObjectMeta{Namespace: "drover-drivers", Name: jobrunner.AccessName(fallback.name)}
	request := metav1.ObjectMeta{Namespace: "drover-drivers", Name: jobrunner.JobName(fallback.name, state.Remove, 1)}
	testkit.ExpectNotFound(t, s.client, fallback.stateSecret(), fallback.job(state.Remove, 1), &corev1.Secret{ObjectMeta: request},
		&corev1.ServiceAccount{ObjectMeta: access}, &rbacv1.Role{ObjectMeta: access}, &rbacv1.RoleBinding{ObjectMeta: access})
}

// A manager of one namespace sees nothing but Jobs and pods in the fallback.
func TestDelete_fallbackIsNotCached(t *testing.T) {
	w := newWorld(t)
	w.cache = interceptor.NewClient(w.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, job := obj.(*batchv1.Job); key.Namespace == "drover-drivers" && !job {
				return fmt.Errorf("unable to get: %v because of unknown namespace for the cache", key)
			}
			return c.Get(ctx, key, obj, opts...)
		}})
	s := w.machine("digitalocean", "m", droplet())
	fallback := s.fallBack()
	s.reconcile()
	fallback.removed(1)
	s.goes()
}

// What tells that the server is gone may go before the machine does, which could not be let go at the same moment: it goes all
// the same, without its credential.
func TestDelete_stateIsGoneBeforeTheMachine(t *testing.T) {
	for name, begin := range map[string]func(*subject) *subject{
		"with its namespace": func(s *subject) *subject { return s.fallBack() },
		"with its owner's children": func(s *subject) *subject {
			s.ready()
			s.delete(testkit.ExpectExists(t, s.client, s.stateSecret()))
			s.remove()
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newWorld(t).machine("digitalocean", "m", droplet())
			at := begin(s)
			s.events()
			at.removed(1)
			s.fault = func(do func() error) error {
				if apierrors.IsNotFound(s.client.Get(t.Context(), client.ObjectKeyFromObject(at.stateSecret()), at.stateSecret())) {
					return errRefused
				}
				return do()
			}
			require.ErrorIs(t, testkit.ExpectReconcileError(t, s.reconciler, s.obj), errRefused)
			s.fault = nil
			require.NoError(t, client.IgnoreNotFound(s.client.Delete(t.Context(), s.stateSecret())))
			s.delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "cred"}})
			s.goes()
			events := s.events()
			require.Len(t, events, 1)
			require.Contains(t, events[0], "removed server m")
		})
	}
}

// A state that was lost, and copied so, is no proof that nothing was made.
func TestDelete_fallbackWithoutAState(t *testing.T) {
	testkit.ExpectApplied(t, testkit.Client(t, newScheme(t)), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "drover-drivers"}})
	s := made(t)
	secret := testkit.ExpectExists(t, s.client, s.stateSecret())
	secret.Finalizers = nil
	s.update(secret)
	s.delete(secret)
	s.delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	s.delete(s.obj)
	fallback := s.atFallback("refuge-" + string(s.obj.GetUID()))
	s.fault = func(do func() error) error {
		if s.client.Get(t.Context(), client.ObjectKeyFromObject(fallback.stateSecret()), fallback.stateSecret()) == nil {
			return errRefused
		}
		return do()
	}
	require.ErrorIs(t, testkit.ExpectReconcileError(t, s.reconciler, s.obj), errRefused)
	s.fault = nil
	s.reconcile()
	s.expect(rkev1.DeleteJobCondition, metav1.ConditionUnknown, rkev1.JobRunningReason)
	testkit.ExpectExists(t, s.client, fallback.job(state.Remove, 1))
	require.True(t, fallback.requestOf(state.Remove, 1).MayExist)
}

// Where the drivers of all are cached, only those run that an administrator's NodeDriver had, whatever the state Secret says.
func TestDelete_recordedDriverElsewhere(t *testing.T) {
	digest := strings.Repeat("a", 64)
	for name, c := range map[string]struct {
		recorded, cached string
		runs             bool
	}{
		"in the cache":                {digest, digest, true},
		"of nobody":                   {strings.Repeat("b", 64), digest, false},
		"named like one in the cache": {strings.Repeat("a", 63) + "b", digest, false},
		"without a digest":            {"", digest, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			testkit.ExpectApplied(t, w.client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "drover-drivers"}})
			nd := w.nodeDriver("acme", "https://drivers.test/acme", nil)
			nd.Status.Digest, nd.Status.AppliedURL = c.recorded, "https://drivers.test/acme"
			nd.Status.Digest = cmp.Or(nd.Status.Digest, digest)
			require.NoError(t, w.client.Status().Update(t.Context(), nd))
			s := w.machine("acme", "m", map[string]any{"token": "t"})
			s.ready()
			w.delete(nd)
			part := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "drover-drivers", Name: driver.CachePartName(c.cached, 0),
				Annotations: map[string]string{"drover.cattle.io/driver-sha256": c.cached}}}
			require.NoError(t, w.client.Create(t.Context(), part))
			t.Cleanup(func() { _ = w.client.Delete(context.Background(), part) })
			secret := testkit.ExpectExists(t, s.client, s.stateSecret())
			if c.recorded == "" {
				for key, note := range secret.Annotations {
					secret.Annotations[key] = strings.ReplaceAll(note, digest, "")
				}
				s.update(secret)
			}
			s.delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
			s.delete(s.obj)
			status := s.reconcile()
			if c.runs {
				s.expect(rkev1.DeleteJobCondition, metav1.ConditionUnknown, rkev1.JobRunningReason)
				testkit.ExpectExists(t, s.client, s.atFallback(status.JobName).job(state.Remove, 1))
				return
			}
			got := s.expect(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.DriverNotFoundReason)
			require.Contains(t, got.Message, "create NodeDriver acme again")
		})
	}
}

// A namespace that is deleted takes the plan Secret and the agent's access along: the condition promises nothing that cannot be.
func TestDelete_noPlanInANamespaceThatGoes(t *testing.T) {
	s := newWorld(t).machine("digitalocean", "m", droplet())
	s.bootstrappedByUs()
	fallback := s.fallBack()
	fallback.notCleaned(1, rkev1.ClassTransient)
	s.reconcile()
	c := s.expect(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.WaitingForRetryReason)
	require.Contains(t, c.Message, ". Its agent cannot clean it by plan either, because its plan Secret is deleted with the namespace")
	require.NotContains(t, c.Message, "--agent")
	require.Contains(t, c.Message, "then: drover retry m -n ")
	require.Contains(t, c.Message, "cleaned it by hand as docs/drivers.md describes: drover abandon m -n ")
	require.Empty(t, s.asked())
}

// fallBack brings a machine up whose namespace is deleted then, and starts the remove Job elsewhere.
func (s *subject) fallBack() *subject {
	s.Helper()
	testkit.ExpectApplied(s, s.client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "drover-drivers"}})
	s.ready()
	s.delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	s.delete(s.obj)
	status := s.reconcile()
	s.expect(rkev1.DeleteJobCondition, metav1.ConditionUnknown, rkev1.JobRunningReason)
	return s.atFallback(status.JobName)
}

// atFallback is the same machine, whose pod runs in another namespace.
func (s *subject) atFallback(job string) *subject {
	s.Helper()
	elsewhere := &world{T: s.T, client: s.client, clock: s.clock, namespace: "drover-drivers"}
	return &subject{world: elsewhere, name: strings.TrimSuffix(job, "-rm-1"), obj: s.obj}
}

func TestEventsAreSentences(t *testing.T) {
	s := newWorld(t).machine("digitalocean", "m1", droplet())
	s.ready()
	require.Equal(t, []string{"Normal JobSucceeded Job m1-create-1 created server m1, attempt 1"}, s.events(), "one event for the whole way to Ready")

	// A move takes neither status nor Jobs along.
	s.delete(s.job(state.Create, 1))
	s.dropJobFinalizers()
	delete(s.obj.Object, "status")
	require.NoError(t, s.client.Status().Update(t.Context(), s.obj))
	s.reconcile()
	s.expect(rkev1.CreateJobCondition, metav1.ConditionTrue, rkev1.JobSucceededReason)
	require.Empty(t, s.events(), "no Job has made its server here")
	s.remove()
	s.removed(1)
	testkit.ExpectReconciled(t, s.reconciler, s.obj)
	require.Equal(t, []string{"Normal ServerGone Job m1-rm-1 removed server m1"}, s.events())
}
