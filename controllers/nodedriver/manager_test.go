package nodedriver_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/controllers/nodedriver"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// startManager runs the controller in a real manager until the test ends.
func (e *env) startManager() {
	e.t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(e.t, errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), v3.AddToScheme(scheme)))
	controllers := capi.ControllerOptions()
	controllers.SkipNameValidation = new(true)
	mgr, err := ctrl.NewManager(testkit.Config(e.t), ctrl.Options{Scheme: scheme, NewCache: capi.NewCache, Client: capi.ClientOptions(),
		Metrics: server.Options{BindAddress: "0"}, Controller: controllers})
	require.NoError(e.t, err)
	watch, err := nodedriver.NewUserWatch(mgr.GetConfig())
	require.NoError(e.t, err)
	require.NoError(e.t, mgr.Add(watch))
	reconciler, err := nodedriver.New(nodedriver.Options{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Recorder: e.recorder,
		Watch: watch, Jobs: jobrunner.Settings{Image: "x"}})
	require.NoError(e.t, err)
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

	machine := e.machine("last", map[string]any{})
	e.await("held", func(nd *v3.NodeDriver) bool { return len(nd.Finalizers) > 0 })
	require.NoError(t, e.Delete(t.Context(), e.nd))
	e.await("kept for its machine", isReady(v3.DeletionBlockedReason))
	require.NoError(t, e.Delete(t.Context(), machine))
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
	require.ErrorContains(t, err, "making a client of metadata")
}
