package inventory_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/driver"
)

// probes is the namespace in which NodeDrivers are probed, with what a probe leaves there.
func probes(t *testing.T, w *world) *world {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: driver.CacheNamespace}}
	if err := w.Create(t.Context(), namespace); err != nil {
		require.ErrorContains(t, err, "already exists")
	}
	return &world{Client: w.Client, API: w.API, namespace: driver.CacheNamespace}
}

// probe makes the Job and the pod of a probe of a driver.
func (w *world) probe(t *testing.T, of string, phase corev1.PodPhase) *corev1.Pod {
	t.Helper()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "probe-" + of, Labels: map[string]string{
		rkev1.NodeDriverLabel: of, rkev1.OperationLabel: "probe"}}}
	job.Spec.Template.Spec = podSpec()
	w.make(t, job)
	pod := w.pod(t, "probe-"+of, job.Name)
	pod.Status.Phase = phase
	require.NoError(t, w.Status().Update(t.Context(), pod))
	return pod
}

func TestDriverSnapshot(t *testing.T) {
	w := newWorld(t)
	p := probes(t, w)
	pod := p.probe(t, "snapcloud", corev1.PodPending)
	p.probe(t, "othercloud", corev1.PodPending)
	p.secret(t, "probe-snapcloud-result", map[string]string{"log.txt": "GET https://d.example/1\n"})
	p.event(t, "snap-pod", "Pod", pod.Name, pod.UID, "pulling", 2)
	nd := &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "nd-1", UID: types.UID("u-" + w.namespace)}, Spec: v3.NodeDriverSpec{DisplayName: "snapcloud"}}
	nd.Status.MachineKind = "GenericMachine"
	events := &world{Client: w.Client, namespace: "default"}
	events.event(t, "snap-"+w.namespace, "NodeDriver", "nd-1", nd.UID, "probing", 1)
	w.machine(t, "GenericMachine", "one", "")

	s := w.DriverSnapshot(t.Context(), nd, now)
	require.Empty(t, s.Problems)
	require.Same(t, nd, s.Driver)
	require.GreaterOrEqual(t, s.Machines, 1)
	require.Len(t, s.Jobs, 1)
	require.Equal(t, "probe-snapcloud", s.Jobs[0].Name)
	require.Len(t, s.Pods, 1)
	require.Equal(t, pod.UID, s.Pods[0].UID)
	require.Equal(t, "GET https://d.example/1\n", s.Log)
	require.Equal(t, []string{"probing", "pulling"}, messages(s.Events))

	nd.Status.MachineKind = "SnapcloudMachine"
	require.Zero(t, w.DriverSnapshot(t.Context(), nd, now).Machines, "a kind that is not served has no machines")
	require.Empty(t, w.DriverSnapshot(t.Context(), &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "never-probed", UID: "none"}}, now).Jobs)
}

// TestDriverSnapshotLog: the kept log goes before the pod's; without either there is none.
func TestDriverSnapshotLog(t *testing.T) {
	w := newWorld(t)
	p := probes(t, w)
	p.probe(t, "logcloud", corev1.PodRunning)
	said := w.through(t, func(out http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/pods/probe-logcloud/log") {
			return false
		}
		_, _ = out.Write([]byte("container=" + r.URL.Query().Get("container") + " tail=" + r.URL.Query().Get("tailLines")))
		return true
	})
	nd := &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "logcloud", UID: "u"}}
	require.Equal(t, "container=machine tail=20", said.DriverSnapshot(t.Context(), nd, now).Log)
	silent := w.through(t, func(out http.ResponseWriter, r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/log") && answer(out, failure)
	})
	s := silent.DriverSnapshot(t.Context(), nd, now)
	require.Empty(t, s.Log, "its node does not answer")
	require.Equal(t, []string{"reading the log of pod probe-logcloud: etcd is ill"}, s.Problems)
	p.secret(t, "probe-logcloud-result", map[string]string{"log.txt": "kept"})
	s = said.DriverSnapshot(t.Context(), nd, now)
	require.Equal(t, "kept", s.Log)
	require.Empty(t, s.Problems)
}

func TestDriverSnapshotWithFewRights(t *testing.T) {
	w := newWorld(t)
	probes(t, w)
	nd := &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "digitalocean", UID: "u"}}
	nd.Status.MachineKind = "DigitaloceanMachine"
	s := w.as(t, "onlooker").DriverSnapshot(t.Context(), nd, now)
	require.Equal(t, -1, s.Machines, "unknown is not none")
	lacks := func(verb, resource, group, name, where string) string {
		return ": " + cannot("onlooker", verb, resource, group, name, where)
	}
	require.Equal(t, []string{
		"listing digitaloceanmachines" + lacks("list", "digitaloceanmachines", "rke-machine.cattle.io", "", "at the cluster scope"),
		"listing Jobs in drover-drivers" + lacks("list", "jobs", "batch", "", `in the namespace "drover-drivers"`),
		"getting Secret drover-drivers/probe-digitalocean-result" + lacks("get", "secrets", "", "probe-digitalocean-result", `in the namespace "drover-drivers"`),
		"listing events in default" + lacks("list", "events", "", "", `in the namespace "default"`),
	}, s.Problems)
	ill := w.through(t, func(out http.ResponseWriter, r *http.Request) bool {
		return r.URL.Path == "/apis/rke-machine.cattle.io/v1" && answer(out, failure)
	})
	s = ill.DriverSnapshot(t.Context(), nd, now)
	require.Equal(t, -1, s.Machines)
	require.Equal(t, []string{"asking the API for machine kinds: etcd is ill"}, s.Problems)
}

// TestProbeNamespace: the CLI writes the name down, for driver brings along more than it needs.
func TestProbeNamespace(t *testing.T) {
	w := newWorld(t)
	var asked []string
	api := w.through(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/jobs") {
			asked = append(asked, r.URL.Path)
		}
		return false
	})
	api.DriverSnapshot(t.Context(), &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, now)
	require.Equal(t, []string{"/apis/batch/v1/namespaces/" + driver.CacheNamespace + "/jobs"}, asked)
}
