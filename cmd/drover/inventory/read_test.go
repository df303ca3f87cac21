package inventory_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/inventory"
)

// TestKindsAreReadAtOnce: with many drivers and an API server far away, a user waits for one answer and not for one of each.
func TestKindsAreReadAtOnce(t *testing.T) {
	w := newWorld(t)
	w.machine(t, "GenericMachine", "b", "")
	w.machine(t, "DigitaloceanMachine", "a", "")
	var lists, gets sync.WaitGroup
	lists.Add(2)
	gets.Add(2)
	far := w.through(t, func(_ http.ResponseWriter, r *http.Request) bool {
		// Nobody is answered before everybody has asked.
		if strings.HasPrefix(r.URL.Path, "/apis/rke-machine.cattle.io/") && r.URL.Query().Get("limit") != "" {
			lists.Done()
			lists.Wait()
		}
		if strings.HasPrefix(r.URL.Path, "/apis/rke-machine.cattle.io/") && strings.HasSuffix(r.URL.Path, "machines/b") {
			gets.Done()
			gets.Wait()
		}
		return false
	})
	machines, _, err := far.Machines(t.Context(), []facts.Kind{generic, digitalocean}, inventory.ListOptions{Namespace: w.namespace})
	require.NoError(t, err)
	require.Equal(t, []string{"GenericMachine/b", "DigitaloceanMachine/a"}, names(machines), "in the order of the kinds all the same")
	target, err := far.Resolve(t.Context(), w.namespace, "b")
	require.NoError(t, err)
	require.Equal(t, "GenericMachine", target.Machine.Kind.Name)
}

// aged are API objects with creation times that a real server would not give, in an API that takes what it is given.
func aged(objects ...runtime.Object) *inventory.API {
	return &inventory.API{Kube: fake.NewClientset(objects...)}
}

func minute(n int) metav1.Time { return metav1.NewTime(now.Add(time.Duration(n) * time.Minute)) }

func TestAttempts_jobs(t *testing.T) {
	job := func(name, namespace, uid string, at int) *batchv1.Job {
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, CreationTimestamp: minute(at), Labels: map[string]string{rkev1.MachineUIDLabel: uid}}}
	}
	api := aged(job("web-create-1", "shop", "u1", 1), job("web-create-3", "shop", "u1", 3), job("web-create-2", "shop", "u1", 2),
		job("web-remove-1", "shop", "u1", 3), job("db-create-9", "shop", "u2", 9), job("web-create-8", "yard", "u1", 8))
	known := api.Attempts(t.Context(), &facts.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1"}})
	require.Empty(t, known.Problems)
	var got []string
	for _, j := range known.Jobs {
		got = append(got, j.Name)
	}
	require.Equal(t, []string{"web-remove-1", "web-create-3", "web-create-2", "web-create-1"}, got, "newest first; of the same second the later name")
	require.Empty(t, api.Attempts(t.Context(), &facts.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "none", UID: "u3"}}).Jobs)
}

func TestPodsOf(t *testing.T) {
	pod := func(name, job string, at int) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", CreationTimestamp: minute(at), Labels: map[string]string{batchv1.JobNameLabel: job}}}
	}
	api := aged(pod("a", "j", 1), pod("b", "j", 3), pod("c", "j", 3), pod("d", "j", 2), pod("e", "other", 9))
	pods, err := api.PodsOf(t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "j"}})
	require.NoError(t, err)
	var got []string
	for _, p := range pods {
		got = append(got, p.Name)
	}
	require.Equal(t, []string{"c", "b", "d", "a"}, got)
}

// TestEventsInOrder: components fill different fields with the time of an event.
func TestEventsInOrder(t *testing.T) {
	w := newWorld(t)
	m := w.machine(t, "GenericMachine", "b", "")
	add := func(message string, fill func(e *corev1.Event)) {
		e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: message}, Message: message, Reason: "Told", Type: "Normal",
			Action: "Tell", ReportingController: "drover.cattle.io/test", ReportingInstance: "test",
			InvolvedObject: corev1.ObjectReference{APIVersion: "rke-machine.cattle.io/v1", Kind: "GenericMachine", Namespace: w.namespace, Name: "b", UID: m.UID}}
		fill(e)
		w.make(t, e)
	}
	add("third", func(e *corev1.Event) { e.LastTimestamp, e.FirstTimestamp = minute(3), minute(0) })
	add("first", func(e *corev1.Event) { e.EventTime = metav1.NewMicroTime(minute(1).Time) })
	add("fourth", func(e *corev1.Event) {
		e.EventTime = metav1.NewMicroTime(minute(0).Time)
		e.Series = &corev1.EventSeries{Count: 2, LastObservedTime: metav1.NewMicroTime(minute(4).Time)}
	})
	add("second", func(e *corev1.Event) { e.LastTimestamp = minute(2) })
	s := w.Snapshot(t.Context(), inventory.Target{Machine: m}, w.namespace, "b", now)
	require.Equal(t, []string{"first", "second", "third", "fourth"}, messages(s.Events))
}

// TestLongOwnership: a chain of owners that turns in a circle is no endless walk.
func TestLongOwnership(t *testing.T) {
	w := newWorld(t)
	set := w.apply(t, pool("MachineSet", "loop", "", ""))
	set.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineSet", Name: "loop", UID: set.GetUID()}})
	require.NoError(t, w.Update(t.Context(), set))
	w.capiMachine(t, "circle", "GenericMachine", "none", owned("MachineSet", "loop", types.UID("u")))
	target, err := w.Resolve(t.Context(), w.namespace, "circle")
	require.NoError(t, err)
	s := w.Snapshot(t.Context(), target, w.namespace, "circle", now)
	require.Empty(t, s.Problems)
	require.Len(t, s.Owners, 4)
}

// TestDriverOfASnapshot: the driver behind a kind, also before it told its kind, and of those with one name the one that serves.
func TestDriverOfASnapshot(t *testing.T) {
	w := newWorld(t)
	w.drivers(t)
	for kind, want := range map[string]string{"InventorycloudMachine": "inv-new", "Inventorycloud-2Machine": "inventorycloud-2", "NobodysMachine": ""} {
		s := w.Snapshot(t.Context(), inventory.Target{MissingKind: kind}, w.namespace, "x", now)
		require.Empty(t, s.Problems)
		if want == "" {
			require.Nil(t, s.Driver, kind)
			continue
		}
		require.Equal(t, want, s.Driver.Name, kind)
	}
}
