package nodedriver_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/controllers/nodedriver"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// What a user reads in `kubectl describe nodedriver`: sentences, one for each thing that happened.
func TestEvents_ofABuiltinDriver(t *testing.T) {
	e := newEnv(t, builtin("rackspace-events"))
	e.update(func(nd *v3.NodeDriver) { nd.Spec.DisplayName = "google" })
	e.reconcileUntilReady()
	require.Equal(t, []string{
		"Normal Ready Driver google is ready to create servers; its kinds are GoogleMachine, GoogleMachineTemplate and GoogleConfig",
	}, e.events())
	e.reconcile()
	require.Empty(t, e.events(), "nothing happened")
	e.update(func(nd *v3.NodeDriver) { nd.Spec.Active = false })
	e.reconcile()
	require.Empty(t, e.events(), "the user knows it")
	e.update(func(nd *v3.NodeDriver) { nd.Spec.Active = true })
	e.reconcileUntilReady()
	require.Len(t, e.events(), 1)

	machine := e.machine("kept", map[string]any{})
	e.update(func(nd *v3.NodeDriver) { nd.Spec.Active = false })
	e.reconcile()
	require.Equal(t, []string{"Normal KeptForMachines spec.active is false, but the kinds are kept, because 1 object uses them (GoogleMachine default/kept)"}, e.events())
	require.NoError(t, e.Delete(t.Context(), e.nd))
	e.reconcile()
	require.Equal(t, []string{"Warning MachinesExist this NodeDriver is being deleted, but it and its kinds are kept, because 1 object uses them (GoogleMachine default/kept). It is deleted automatically after the machines are deleted"}, e.events())
	require.NoError(t, e.Delete(t.Context(), machine))
}

func TestEvents_ofAnExternalDriver(t *testing.T) {
	e := newEnv(t, external("eventful"))
	e.reconcile()
	require.Empty(t, e.events(), "to be probed is no news")
	e.finish(state.Result{Outcome: state.Failed, Reason: v3.DownloadFailedReason, Class: rkev1.ClassInvalid, Message: "404 Not Found"})
	e.reconcile()
	failure := "404 Not Found. To retry, change the spec or annotate the NodeDriver with drover.cattle.io/retry=<any new value>"
	require.Equal(t, []string{"Warning DownloadFailed " + failure}, e.events())
	e.reconcile()
	require.Empty(t, e.events(), "still the same")

	e.update(func(nd *v3.NodeDriver) { nd.Annotations = map[string]string{rkev1.RetryAnnotation: "1"} })
	e.reconcile()
	e.succeed("d1", flagsOf("eventful", region, size)...)
	e.reconcileUntilReady()
	require.Equal(t, []string{
		"Normal Downloaded The binary of driver eventful was downloaded, verified and stored",
		"Normal Installed Driver eventful returned its 2 flags",
		"Normal Ready Driver eventful is ready to create servers; its kinds are EventfulMachine, EventfulMachineTemplate and EventfulConfig",
	}, e.events())
}

// failure is how a probe may end, and what a user is told then.
type failure struct {
	name   string
	result state.Result
	// condition that says so, and in which words.
	condition, reason, message string
	// again tells that another probe comes by itself.
	again bool
}

func TestFailures_saySo(t *testing.T) {
	failed := func(reason, class, message string) state.Result {
		return state.Result{Outcome: state.Failed, Reason: reason, Class: class, Message: message}
	}
	for _, tt := range []failure{
		{name: "html", result: failed(v3.NotADriverReason, rkev1.ClassInvalid, "the address served a web page"),
			condition: v3.DownloadedCondition, reason: v3.NotADriverReason, message: "the address served a web page. To retry, change the spec or annotate"},
		{name: "sum", result: failed(v3.ChecksumMismatchReason, rkev1.ClassInvalid, "its sha256 is 12"),
			condition: v3.DownloadedCondition, reason: v3.ChecksumMismatchReason, message: "its sha256 is 12. To retry, change the spec"},
		{name: "refused", result: failed(v3.DownloadFailedReason, rkev1.ClassUnauthorized, "403 Forbidden"),
			condition: v3.DownloadedCondition, reason: v3.DownloadFailedReason, message: "403 Forbidden. To retry, change the spec"},
		{name: "throttled", result: failed(v3.DownloadFailedReason, rkev1.ClassThrottled, "429 Too Many Requests"), again: true,
			condition: v3.DownloadedCondition, reason: v3.DownloadFailedReason, message: "429 Too Many Requests. Attempt 1 failed, the next starts at"},
		{name: "silent", result: failed(v3.DriverUnresponsiveReason, rkev1.ClassTransient, "no address within 10s"), again: true,
			condition: v3.InstalledCondition, reason: v3.DriverUnresponsiveReason, message: "no address within 10s. Attempt 1 failed"},
		{name: "flags", result: failed(v3.FlagsInvalidReason, rkev1.ClassInvalid, "10000 flags"),
			condition: v3.InstalledCondition, reason: v3.FlagsInvalidReason, message: "10000 flags. To retry, change the spec"},
		{name: "wordless", result: failed("", rkev1.ClassInvalid, "it ended"),
			condition: v3.DownloadedCondition, reason: "Failed", message: "it ended. To retry, change the spec"},
		{name: "cancelled", result: state.Result{Outcome: state.Cancelled, Reason: "Cancelled", Class: rkev1.ClassTransient, Message: "told to stop"}, again: true,
			condition: v3.DownloadedCondition, reason: "Cancelled", message: "told to stop. Attempt 1 failed"},
		{name: "reportless", result: state.Result{Outcome: state.Succeeded},
			condition: v3.InstalledCondition, reason: v3.ProbeFailedReason, message: "the machine binary in the image has another version than the manager"},
		{name: "rubbish", result: state.Result{Outcome: state.Succeeded, Probe: &state.ProbeReport{Digest: "d", Flags: []byte(`{"not":"a list"}`)}},
			condition: v3.InstalledCondition, reason: v3.FlagsInvalidReason, message: ""},
		{name: "hostileflag", result: state.Result{Outcome: state.Succeeded, Probe: &state.ProbeReport{Digest: "d", Flags: []byte(`[{"name":"../x","type":"string"}]`)}},
			condition: v3.InstalledCondition, reason: v3.FlagsInvalidReason, message: ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEnv(t, external("fail"+tt.name))
			e.reconcile()
			e.finish(tt.result)
			result := e.reconcile()
			require.Contains(t, e.expect(tt.condition, metav1.ConditionFalse, tt.reason), tt.message)
			e.expect(v3.ReadyCondition, metav1.ConditionFalse, tt.reason)
			if tt.condition == v3.InstalledCondition {
				e.expect(v3.DownloadedCondition, metav1.ConditionTrue, v3.DownloadedReason)
			}
			require.Equal(t, tt.again, result.RequeueAfter > 0)
			require.Empty(t, e.nd.Status.Digest, "nothing is made with it")
			require.Empty(t, e.nd.Status.MachineKind)
			jobs := len(e.jobs())
			e.reconcile()
			require.Len(t, e.jobs(), jobs, "one failure costs one Job")
		})
	}
}

// A driver that fails after it worked leaves its kinds and its machines as they were.
func TestFailures_doNotHurtWhatWorked(t *testing.T) {
	e, parts := established(t, "worked", digestOf("7"))
	for _, result := range []state.Result{
		{Outcome: state.Failed, Reason: v3.ChecksumMismatchReason, Class: rkev1.ClassInvalid, Message: "its sha256 is 12"},
		{Outcome: state.Succeeded},
	} {
		e.update(func(nd *v3.NodeDriver) { nd.Spec.Version += "+" })
		e.reconcile()
		e.finish(result)
		e.reconcile()
		require.Equal(t, digestOf("7"), e.nd.Status.Digest)
		require.Equal(t, "WorkedMachine", e.nd.Status.MachineKind)
		require.Contains(t, e.machineFields(), "region")
		e.expectAll(parts)
	}
}

// The pod of a probe that cannot start says why, while it is waited for.
func TestProbe_saysWhatHoldsItUp(t *testing.T) {
	e := newEnv(t, external("heldup"))
	e.reconcile()
	job := e.runningJob()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: driver.CacheNamespace, Name: job.Name + "-x",
		Labels: map[string]string{batchv1.JobNameLabel: job.Name}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}},
		AutomountServiceAccountToken: new(bool), ServiceAccountName: job.Name}}
	require.NoError(t, e.Create(t.Context(), pod))
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "fetch", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}
	require.NoError(t, e.Status().Update(t.Context(), pod))
	e.reconcile()
	message := e.expect(v3.DownloadedCondition, metav1.ConditionUnknown, v3.ProbingReason)
	require.Contains(t, message, "Job drover-drivers/"+job.Name+" reads the driver: the pod "+pod.Name+" cannot start (ImagePullBackOff): no such image")
}

// A quota may reject the pod of a probe, and then no event of a pod arrives.
func TestProbe_podNotCreated(t *testing.T) {
	e := newEnv(t, external("quota"))
	require.Equal(t, jobrunner.PodGrace, e.reconcile().RequeueAfter, "the reconcile that starts the probe sets a timer")
	job := e.runningJob()
	e.now = job.CreationTimestamp.Add(5 * time.Second)
	require.Equal(t, 15*time.Second, e.reconcile().RequeueAfter)
	e.now = job.CreationTimestamp.Add(jobrunner.PodGrace)
	e.reconcile()
	message := e.expect(v3.DownloadedCondition, metav1.ConditionUnknown, rkev1.PodNotCreatedReason)
	require.Contains(t, message, "Job drover-drivers/"+job.Name+" waits: Kubernetes has not created a pod for the Job")
	require.Contains(t, message, "kubectl -n drover-drivers describe job "+job.Name)
	e.expect(v3.ReadyCondition, metav1.ConditionFalse, rkev1.PodNotCreatedReason)

	require.NoError(t, e.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: driver.CacheNamespace, Name: job.Name + "-x",
		Labels: map[string]string{batchv1.JobNameLabel: job.Name}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}},
		AutomountServiceAccountToken: new(bool), ServiceAccountName: job.Name}}))
	e.reconcile()
	e.expect(v3.DownloadedCondition, metav1.ConditionUnknown, v3.ProbingReason)
}

// startManager runs the controller in a real manager until the test ends.
func (e *env) startManager() {
	e.t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(e.t, errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), v3.AddToScheme(scheme), clusterv1.AddToScheme(scheme)))
	controllers := capi.ControllerOptions()
	controllers.SkipNameValidation = new(true)
	mgr, err := ctrl.NewManager(testkit.Config(e.t), ctrl.Options{Scheme: scheme, NewCache: capi.NewCache, Client: capi.ClientOptions(),
		Metrics: server.Options{BindAddress: "0"}, Controller: controllers})
	require.NoError(e.t, err)
	watch, err := nodedriver.NewUserWatch(mgr.GetConfig())
	require.NoError(e.t, err)
	require.NoError(e.t, mgr.Add(watch))
	reconciler := nodedriver.New(nodedriver.Options{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Recorder: e.recorder,
		Watch: watch, Jobs: jobrunner.Settings{Image: "x"}})
	require.NoError(e.t, reconciler.Register(mgr))
	ctx, stop := context.WithCancel(e.t.Context())
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	e.t.Cleanup(func() {
		stop()
		require.NoError(e.t, <-ended)
	})
}

// await watches the NodeDriver until it is as wanted.
func (e *env) await(what string, want func(*v3.NodeDriver) bool) {
	e.t.Helper()
	testkit.Eventually(e.t, patience, func() error {
		if err := client.IgnoreNotFound(e.Get(e.t.Context(), client.ObjectKeyFromObject(e.nd), e.nd)); err != nil {
			return err
		}
		if !want(e.nd) {
			return errors.New("not " + what)
		}
		return nil
	})
}

func isReady(reason string) func(*v3.NodeDriver) bool {
	return func(nd *v3.NodeDriver) bool {
		c := meta.FindStatusCondition(nd.Status.Conditions, v3.ReadyCondition)
		return c != nil && c.Reason == reason
	}
}

// In a real manager everything happens by watch: nothing here waits for a clock.
func TestManager_followsItsWatches(t *testing.T) {
	e := newEnv(t, builtin("exoscale-manager"))
	e.update(func(nd *v3.NodeDriver) { nd.Spec.DisplayName = "vmwarefusion" })
	e.startManager()
	e.await("ready", isReady(v3.ReadyReason))

	crd := e.crd(crdgen.ConfigGroup, "VmwarefusionConfig")
	again := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, e.Delete(t.Context(), crd))
	// The API server takes its time until a definition is gone: that is not ours.
	testkit.Eventually(t, patience, func() error {
		if err := e.Get(t.Context(), client.ObjectKeyFromObject(crd), again); client.IgnoreNotFound(err) != nil {
			return err
		} else if err == nil && again.UID == crd.UID {
			return errors.New("it is not gone yet")
		}
		return nil
	})
	began := time.Now()
	testkit.Eventually(t, patience, func() error { return e.Get(t.Context(), client.ObjectKeyFromObject(crd), again) })
	e.await("ready again", isReady(v3.ReadyReason))

	machine, owner := e.machine("last", map[string]any{}), e.capiMachine("last")
	held := func(nd *v3.NodeDriver) bool { return len(nd.Finalizers) > 0 }
	e.await("held", held)
	require.NoError(t, e.Delete(t.Context(), machine))
	require.NoError(t, e.Delete(t.Context(), owner))
	e.await("held for nothing", func(nd *v3.NodeDriver) bool { return !held(nd) })
	machine, owner = e.machine("last", map[string]any{}), e.capiMachine("last")
	e.await("held", held)
	require.NoError(t, e.Delete(t.Context(), e.nd))
	e.await("kept for its machine", isReady(v3.DeletionBlockedReason))
	require.NoError(t, e.Delete(t.Context(), machine))
	e.await("kept for its CAPI Machine", func(nd *v3.NodeDriver) bool {
		return strings.Contains(meta.FindStatusCondition(nd.Status.Conditions, v3.ReadyCondition).Message, "1 object uses them (CAPI Machine default/last)")
	})
	require.NoError(t, e.Delete(t.Context(), owner))
	e.expectNoKinds()

	// Without machines nothing holds it: its kinds are found by its driver's name, and stay no longer than their last object.
	e.nd.ObjectMeta = metav1.ObjectMeta{Name: e.nd.Name}
	testkit.Eventually(t, patience, func() error { return e.Create(t.Context(), e.nd) })
	e.await("ready anew", isReady(v3.ReadyReason))
	config := e.config("VmwarefusionConfig", map[string]any{})
	require.NoError(t, e.Delete(t.Context(), e.nd))
	testkit.ExpectNotFound(t, e.Client, e.nd.DeepCopy())
	e.crd(crdgen.ConfigGroup, "VmwarefusionConfig")
	require.NoError(t, e.Delete(t.Context(), config))
	e.expectNoKinds()
	require.Less(t, time.Since(began), 50*time.Second, "the safety net is a minute")
}

func TestManager_probesAndComesBack(t *testing.T) {
	nd := predefined(t, "outscale")
	nd.Spec.Active = true
	e := newEnv(t, nd)
	e.startManager()
	e.await("probing", isReady(v3.ProbingReason))
	e.finish(state.Result{Outcome: state.Failed, Reason: v3.DownloadFailedReason, Message: "404"})
	e.await("failed", isReady(v3.DownloadFailedReason))
	uid := e.nd.UID
	require.NoError(t, e.Delete(t.Context(), e.nd))
	e.await("back, inactive", func(nd *v3.NodeDriver) bool {
		return nd.UID != uid && !nd.Spec.Active && isReady(v3.InactiveReason)(nd)
	})
}

// The watch of users ends with the manager, and begins nothing after that.
func TestUserWatch_endsWithItsManager(t *testing.T) {
	watch, err := nodedriver.NewUserWatch(testkit.Config(t))
	require.NoError(t, err)
	watch.Ensure("n1", "none")
	watch.Ensure("n1", "none")
	watch.Stop("n2")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, watch.Start(ctx))
	watch.Ensure("n1", "none")
	watch.Stop("n1")
	bad := testkit.Config(t)
	bad.Host = "://"
	_, err = nodedriver.NewUserWatch(bad)
	require.ErrorContains(t, err, "creating a metadata client")
}
