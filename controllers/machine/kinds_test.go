package machine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/controllers/machine"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/testkit"
)

// await watches until the object is as wanted; nothing is polled.
func (w *world) await(list client.ObjectList, namespace, name string, want func(watch.Event) bool) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	defer cancel()
	opts := []client.ListOption{client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", name)}}
	if namespace != "" {
		opts = append(opts, client.InNamespace(namespace))
	}
	events, err := w.client.Watch(ctx, list, opts...)
	require.NoError(w, err)
	defer events.Stop()
	for event := range events.ResultChan() {
		if want(event) {
			return
		}
	}
	require.Fail(w, "it did not come to pass", "%T %s", list, name)
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

func gone(e watch.Event) bool { return e.Type == watch.Deleted }

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
		s.write(map[string]any{jobrunner.JournalKey: jobrunner.Journal{Operation: jobrunner.Create, Attempt: 1, Phase: jobrunner.PhaseRecorded},
			jobrunner.ServerKey: jobrunner.Server{ProviderID: "late://1"},
			jobrunner.ResultKey: jobrunner.Result{Operation: jobrunner.Create, Attempt: 1, Outcome: jobrunner.Succeeded}})
		w.await(listOf("LateMachine"), w.namespace, "late", hasPhase(rkev1.PhaseRunning))

		// The CRD is deleted under the machine: its server is removed all the same.
		s.read()
		w.delete(crd)
		w.await(listOf("LateMachine"), w.namespace, "late", hasPhase(rkev1.PhaseDeleting))
		s.dropJobFinalizers()
		w.await(&batchv1.JobList{}, w.namespace, "late-rm-1", func(e watch.Event) bool { return e.Type == watch.Added })
		s.removed(1)
		w.await(&apiextensionsv1.CustomResourceDefinitionList{}, "", crd.Name, gone)
		w.delete(nd)
		w.deleteAll(s)
	}
}

// startManager runs the controller in a real manager until the test ends.
func (w *world) startManager(nodes machine.NodeFinder) {
	w.Helper()
	controllers := capi.ControllerOptions()
	controllers.SkipNameValidation = new(true)
	mgr, err := ctrl.NewManager(testkit.Config(w), ctrl.Options{Scheme: newScheme(w), NewCache: capi.NewCache,
		Client: capi.ClientOptions(), Metrics: server.Options{BindAddress: "0"}, Controller: controllers})
	require.NoError(w, err)
	controller := machine.New(machine.Options{Client: mgr.GetClient(), Cache: mgr.GetCache(), Live: mgr.GetAPIReader(),
		Recorder: mgr.GetEventRecorder("drover"), Settings: jobrunner.Settings{Image: "x"}, Nodes: nodes})
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
