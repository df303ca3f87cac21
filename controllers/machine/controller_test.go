package machine_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/controllers/machine"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// await watches until the object is as wanted; nothing is polled.
func (w *world) await(list client.ObjectList, namespace, name string, want func(watch.Event) bool) {
	w.Helper()
	w.follow(w.watch(list, namespace, name), want)
}

// awaitGone watches until the object is gone, which it may be before the watch begins.
func (w *world) awaitGone(list client.ObjectList, obj client.Object) {
	w.Helper()
	events := w.watch(list, obj.GetNamespace(), obj.GetName())
	err := w.client.Get(w.Context(), client.ObjectKeyFromObject(obj), obj.DeepCopyObject().(client.Object))
	if apierrors.IsNotFound(err) {
		events.Stop()
		return
	}
	require.NoError(w, err)
	w.follow(events, func(e watch.Event) bool { return e.Type == watch.Deleted })
}

// watch begins with the object as it is, if it is there.
func (w *world) watch(list client.ObjectList, namespace, name string) watch.Interface {
	w.Helper()
	opts := []client.ListOption{client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", name)}}
	if namespace != "" {
		opts = append(opts, client.InNamespace(namespace))
	}
	events, err := w.client.Watch(w.Context(), list, opts...)
	require.NoError(w, err)
	return events
}

func (w *world) follow(events watch.Interface, want func(watch.Event) bool) {
	w.Helper()
	defer events.Stop()
	patience := time.NewTimer(2 * time.Minute)
	defer patience.Stop()
	var last watch.Event
	for {
		select {
		case event, open := <-events.ResultChan():
			require.True(w, open, "the watch ended")
			if want(event) {
				return
			}
			last = event
		case <-patience.C:
			raw, err := json.MarshalIndent(last.Object, "", "  ")
			require.NoError(w, err)
			require.Fail(w, "it did not come to pass", "the last there was is %s %s", last.Type, raw)
		}
	}
}

func listOf(kind string) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind(kind + "List"))
	return list
}

func hasPhase(phase string) func(watch.Event) bool {
	return func(e watch.Event) bool {
		obj, ok := e.Object.(*unstructured.Unstructured)
		if !ok || e.Type == watch.Deleted {
			return false
		}
		got, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
		return got == phase
	}
}

// TestKinds runs the controller in a real manager: a kind is watched when its CRD appears, machines are brought forward by
// watches alone, a CRD goes only after its machines' servers, and a kind can come back.
func TestKinds_comeAndGo(t *testing.T) {
	w := newWorld(t)
	w.startManager(nil)
	fieldsOfDriver, err := crdgen.FieldsOf("late", []crdgen.Flag{{Name: "late-region", Type: crdgen.String}}, crdgen.Rules{})
	require.NoError(t, err)
	for range 2 {
		_, _, crd, err := crdgen.CRDs(crdgen.Schema{Driver: "late", Fields: fieldsOfDriver})
		require.NoError(t, err)
		testkit.ApplyCRDs(t, crd)
		s := w.lateMachine()
		w.await(listOf("LateMachine"), w.namespace, "late", hasPhase(rkev1.PhasePending))

		// The driver appears, and only that wakes the machine.
		nd := w.nodeDriver("late", "https://drivers.test/late", nil)
		nd.Status.Digest = "0123456789012345678901234567890123456789012345678901234567890123"
		require.NoError(t, w.client.Status().Update(t.Context(), nd))
		w.await(listOf("LateMachine"), w.namespace, "late", hasPhase(rkev1.PhaseCreating))
		s.write(map[string]any{state.JournalKey: state.Journal{Operation: state.Create, Attempt: 1, Phase: state.PhaseRecorded},
			state.ServerKey: state.Server{ProviderID: "late://1"},
			state.ResultKey: state.Result{Operation: state.Create, Attempt: 1, Outcome: state.Succeeded}})
		w.await(listOf("LateMachine"), w.namespace, "late", hasPhase(rkev1.PhaseRunning))

		// The CRD is deleted under the machine: its server is removed all the same.
		s.read()
		w.delete(crd)
		w.await(listOf("LateMachine"), w.namespace, "late", hasPhase(rkev1.PhaseDeleting))
		s.dropJobFinalizers()
		w.await(&batchv1.JobList{}, w.namespace, "late-rm-1", func(e watch.Event) bool { return e.Type == watch.Added })
		s.removed(1)
		w.awaitGone(&apiextensionsv1.CustomResourceDefinitionList{}, crd)
		w.delete(nd)
		w.deleteAll(s)
	}
}

// startManager runs the controller in a real manager until the test ends.
func (w *world) startManager(nodes machine.NodeFinder) {
	w.Helper()
	controllers := capi.ControllerOptions()
	controllers.SkipNameValidation = new(true)
	var namespaces map[string]cache.Config
	if w.limit > 0 { // other tests have Jobs too
		namespaces = map[string]cache.Config{w.namespace: {}}
	}
	mgr, err := ctrl.NewManager(testkit.Config(w), ctrl.Options{Scheme: newScheme(w), NewCache: capi.NewCache, Cache: cache.Options{DefaultNamespaces: namespaces},
		Client: capi.ClientOptions(), Metrics: server.Options{BindAddress: "0"}, Controller: controllers})
	require.NoError(w, err)
	controller := machine.New(machine.Options{Client: mgr.GetClient(), Cache: mgr.GetCache(), Live: mgr.GetAPIReader(),
		Recorder: mgr.GetEventRecorder("drover"), Settings: jobrunner.Settings{Image: "x"}, Nodes: nodes, MaxConcurrentJobs: w.limit})
	require.NoError(w, controller.Register(mgr))
	ctx, stop := context.WithCancel(w.Context())
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	w.Cleanup(func() {
		stop()
		require.NoError(w, <-ended)
	})
}

func (w *world) lateMachine() *subject {
	w.Helper()
	s := &subject{world: w, name: "late"}
	s.obj = &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"region": "x"}}}
	s.obj.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind("LateMachine"))
	s.obj.SetNamespace(w.namespace)
	s.obj.SetName("late")
	s.capi = w.capiMachine("LateMachine", "late")
	s.obj.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(s.capi, clusterv1.GroupVersion.WithKind("Machine"))})
	require.NoError(w, w.client.Create(w.Context(), s.obj))
	return s
}

// deleteAll plays the garbage collector.
func (w *world) deleteAll(s *subject) {
	w.Helper()
	w.delete(s.capi)
	for _, kind := range []client.Object{&batchv1.Job{}, &corev1.Secret{}} {
		require.NoError(w, w.client.DeleteAllOf(w.Context(), kind, client.InNamespace(w.namespace),
			client.MatchingLabels{rkev1.MachineUIDLabel: string(s.obj.GetUID())}, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
}
