package nodedriver_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/testkit"
)

var errRefused = errors.New("the API server is away")

// at makes the n-th write fail before it is done, and the one after that when it was done: the answer is lost. A count of all
// writes is kept.
func at(n int, count *int) func(do func() error) error {
	return func(do func() error) error {
		*count++
		switch *count {
		case n:
			return errRefused
		case n + 1:
			if err := do(); err != nil {
				return err
			}
			return fmt.Errorf("answer lost: %w", errRefused)
		}
		return do()
	}
}

// live leads an external driver from its NodeDriver to its end, and tells how many reconciles failed.
func (e *env) live() (failed int) {
	e.t.Helper()
	answered, deleted := false, false
	var machine *unstructured.Unstructured
	testkit.Eventually(e.t, patience, func() error {
		result, wrong := e.reconciler.Reconcile(e.t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.nd)})
		if wrong != nil {
			failed++
		}
		err := e.Get(e.t.Context(), client.ObjectKeyFromObject(e.nd), e.nd)
		if apierrors.IsNotFound(err) && wrong == nil && result.IsZero() {
			return nil
		}
		require.NoError(e.t, client.IgnoreNotFound(err))
		switch {
		case deleted && machine != nil:
			require.NoError(e.t, e.Delete(e.t.Context(), machine))
			machine = nil
		case !answered && len(e.jobs()) > 0:
			e.succeed("d1", flagsOf(e.nd.DriverName(), region)...)
			answered = true
		case !deleted && meta.IsStatusConditionTrue(e.nd.Status.Conditions, v3.ReadyCondition):
			if machine == nil {
				machine = e.machine(e.nd.Name, map[string]any{})
			} else if len(e.nd.Finalizers) > 0 {
				require.NoError(e.t, e.Delete(e.t.Context(), e.nd))
				deleted = true
			}
		}
		return errors.New("it is not gone yet")
	})
	require.True(e.t, answered && deleted)
	return failed
}

// TestInterrupted_atEachWrite: wherever the API fails the controller, it goes on from there: one probe, and nothing left.
func TestInterrupted_atEachWrite(t *testing.T) {
	met := true
	for n := 1; met; n += 2 { // each fault is of two writes, until a life has fewer
		require.Less(t, n, 40, "writes")
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			count := 0
			e := newEnv(t, external(fmt.Sprintf("interrupted%d", n)))
			e.fault = at(n, &count)
			failed := e.live()
			met = count >= n
			require.Equal(t, met, failed > 0, "%d reconciles failed", failed)
			require.True(t, met || n > 20, "a life has more writes than %d", count)
			require.Len(t, e.jobs(), 1, "one probe")
			e.expectNoProbeLeft(&e.jobs()[0])
			e.expectNoKinds()
		})
	}
}

// A NodeDriver that is made inactive while its driver is probed: nobody waits for the answer, and nothing of the probe stays.
func TestDeactivate_endsTheProbe(t *testing.T) {
	e := newEnv(t, external("unwanted"))
	e.reconcile()
	job := e.runningJob()
	e.update(func(nd *v3.NodeDriver) { nd.Spec.Active = false })
	e.reconcile()
	e.expect(v3.ReadyCondition, metav1.ConditionFalse, v3.InactiveReason)
	e.expectNoProbeLeft(job)
	testkit.ExpectNotFound(t, e.Client, job)

	e.update(func(nd *v3.NodeDriver) { nd.Spec.Active = true })
	e.reconcile()
	require.NotEqual(t, job.Name, e.runningJob().Name)
	e.succeed("d1", flagsOf("unwanted", region)...)
	e.reconcileUntilReady()
}

// The note of the last probe may be lost with its Secret; numbers are not given twice all the same.
func TestProbe_noteIsLost(t *testing.T) {
	e := newEnv(t, external("noteless"))
	e.reconcile()
	first := e.runningJob()
	result := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: driver.CacheNamespace, Name: jobrunner.ObjectName("probe", "noteless", "result")}}
	require.NoError(t, e.Delete(t.Context(), result))
	e.reconcile()
	var names []string
	for _, job := range e.jobs() {
		names = append(names, job.Name)
	}
	require.Equal(t, []string{"probe-noteless-1", "probe-noteless-2"}, names)
	require.Equal(t, "probe-noteless-1", first.Name)
}

// Somebody wrote rubbish into the note: it is as good as none.
func TestProbe_noteIsRubbish(t *testing.T) {
	e := newEnv(t, external("rubbish-note"))
	e.reconcile()
	result := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: driver.CacheNamespace, Name: jobrunner.ObjectName("probe", "rubbish-note", "result")}}
	testkit.ExpectExists(t, e.Client, result)
	result.Annotations = map[string]string{"drover.cattle.io/probe-attempt": "many", rkev1.RequestHashAnnotation: "x"}
	require.NoError(t, e.Update(t.Context(), result))
	e.reconcile()
	require.Len(t, e.jobs(), 2)
	testkit.ExpectExists(t, e.Client, result)
	require.Equal(t, "2", result.Annotations["drover.cattle.io/probe-attempt"])
}

// A probe whose Job is gone without an answer is made again, after a while.
func TestProbe_jobIsGone(t *testing.T) {
	e := newEnv(t, external("jobless"))
	e.reconcile()
	job := e.runningJob()
	require.NoError(t, e.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	e.reconcile()
	testkit.Eventually(t, patience, func() error {
		e.reconcile()
		if len(e.jobs()) != 1 || e.jobs()[0].Name == job.Name {
			return errors.New("no second probe")
		}
		return nil
	})
	require.EqualValues(t, 2, e.request(e.runningJob()).Attempt)
	require.EqualValues(t, 2, e.nd.Status.ProbeAttempts)
}

// A probe that used too much memory would do so again: that its Job is cleaned up is no reason to make another.
func TestProbe_verdictOutlivesItsJob(t *testing.T) {
	e := newEnv(t, external("greedy"))
	e.reconcile()
	job := e.runningJob()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: driver.CacheNamespace, Name: job.Name + "-x",
		Labels: map[string]string{batchv1.JobNameLabel: job.Name}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}},
		AutomountServiceAccountToken: new(bool), ServiceAccountName: job.Name}}
	require.NoError(t, e.Create(t.Context(), pod))
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "flags", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}}}
	require.NoError(t, e.Status().Update(t.Context(), pod))
	testkit.EndJob(e.t, e.Client, job, false, "", e.now)
	e.reconcile()
	message := e.expect(v3.DownloadedCondition, metav1.ConditionFalse, rkev1.OutOfMemoryReason)
	require.NoError(t, e.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	require.NoError(t, e.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	testkit.Eventually(t, patience, func() error {
		if len(e.jobs()) > 0 {
			return errors.New("the Job is still there")
		}
		return nil
	})
	e.reconcile()
	require.Empty(t, e.jobs())
	require.Equal(t, message, e.expect(v3.DownloadedCondition, metav1.ConditionFalse, rkev1.OutOfMemoryReason))
}

// Of two NodeDrivers with one driver name the older has the kinds; when it is renamed, the other gets them.
func TestNameTaken_untilItIsFree(t *testing.T) {
	first, second := external("namesake-a"), external("namesake-b")
	first.Spec.DisplayName, second.Spec.DisplayName = "namesake", "namesake"
	e := newEnv(t, first)
	e.reconcile()
	e.succeed("d1", flagsOf("namesake", region)...)
	e.reconcileUntilReady()
	late := newEnv(t, second)
	late.reconcile()
	message := late.expect(v3.ReadyCondition, metav1.ConditionFalse, v3.NameTakenReason)
	require.Equal(t, "NodeDriver namesake-a has the driver name namesake already: change spec.displayName of this driver, or delete one of the two\n"+
		"* Find the other driver: drover get drivers\n* Change spec.displayName of this driver, or delete the other driver", message)
	require.Len(t, late.jobs(), 1, "no probe for a name that is taken")

	e.update(func(nd *v3.NodeDriver) { nd.Spec.DisplayName = "renamed" })
	late.reconcile()
	late.expect(v3.ValidCondition, metav1.ConditionTrue, v3.ValidReason)
	late.expect(v3.ReadyCondition, metav1.ConditionFalse, v3.ProbingReason)
	late.succeed("d2", flagsOf("namesake", region, size)...)
	late.reconcileUntilReady()
	require.Contains(t, late.machineFields(), "size")
}

// Annotations of a NodeDriver change its kinds at once, without another probe, and one that names nothing is told of.
func TestAnnotations_changeTheKinds(t *testing.T) {
	e := newEnv(t, external("annotated"))
	e.reconcile()
	e.succeed("d1", flagsOf("annotated", region)...)
	e.reconcileUntilReady()
	for name, tt := range map[string]struct {
		key, value string
		check      func(crdgen.Field) bool
		warns      string
	}{
		"a secret":          {v3.PrivateCredentialFieldsAnnotation, "region", func(f crdgen.Field) bool { return f.Credential != "" && f.Secret }, ""},
		"a public key":      {v3.PublicCredentialFieldsAnnotation, "region", func(f crdgen.Field) bool { return f.Credential != "" && !f.Secret }, ""},
		"a password":        {v3.PasswordFieldsAnnotation, "region", func(f crdgen.Field) bool { return f.Credential == "" && f.Secret }, ""},
		"a default":         {v3.DefaultsAnnotation, "region:ams3", func(f crdgen.Field) bool { return f.Preset == "ams3" }, ""},
		"a file":            {v3.FileAliasesAnnotation, "region:region", func(f crdgen.Field) bool { return f.File }, ""},
		"a flag not there":  {v3.UserDataAnnotation, "flag=nosuch-flag,habit=inline", func(f crdgen.Field) bool { return f.Credential == "" }, "nosuch-flag"},
		"no password field": {v3.PasswordFieldsAnnotation, "zzz", func(f crdgen.Field) bool { return !f.Secret }, `password field "zzz" matches no flag`},
		"a field not there": {v3.PrivateCredentialFieldsAnnotation, "regoin", func(f crdgen.Field) bool { return f.Credential == "" }, "regoin"},
	} {
		t.Run(name, func(t *testing.T) {
			e.t = t
			e.update(func(nd *v3.NodeDriver) { nd.Annotations = map[string]string{tt.key: tt.value} })
			e.reconcileUntilReady()
			fields, err := crdgen.FieldsFromCRD(e.crd(crdgen.MachineGroup, "AnnotatedMachine"))
			require.NoError(t, err)
			require.Len(t, fields, 1)
			require.True(t, tt.check(fields[0]), "%+v", fields[0])
			reason := v3.CompatibleReason
			if tt.warns != "" {
				reason = v3.DoubtfulAnnotationsReason
			}
			message := e.expect(v3.SchemaCompatibleCondition, metav1.ConditionTrue, reason)
			require.Contains(t, message, tt.warns)
			require.Equal(t, tt.warns == "", message == "")
			require.Equal(t, message, e.expect(v3.ReadyCondition, metav1.ConditionTrue, v3.ReadyReason), "where people look")
		})
	}
	e.t = t
	require.Len(t, e.jobs(), 1)
	var running []batchv1.Job
	for _, job := range e.jobs() {
		if !jobrunner.JobEnded(&job) {
			running = append(running, job)
		}
	}
	require.Empty(t, running)
}

// A driver of which nobody has said how it takes user data says so where people look, before a machine with bootstrap data waits for it.
func TestSchema_userDataHabitUnknown(t *testing.T) {
	e := newEnv(t, external("unsaid"))
	e.reconcile()
	e.succeed("d1", flagsOf("unsaid", region, crdgen.Flag{Name: "acme-user-data", Type: crdgen.String})...)
	e.reconcileUntilReady()
	require.Contains(t, e.expect(v3.ReadyCondition, metav1.ConditionTrue, v3.ReadyReason), "it is not known how driver unsaid takes user data")
	e.update(func(nd *v3.NodeDriver) {
		nd.Annotations = map[string]string{v3.UserDataAnnotation: "flag=unsaid-user-data,habit=inline"}
	})
	e.reconcileUntilReady()
	require.Empty(t, e.expect(v3.ReadyCondition, metav1.ConditionTrue, v3.ReadyReason))
}
