package machine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/controllers/machine"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// stopwatch notes when each machine reached each point.
type stopwatch struct {
	mu    sync.Mutex
	at    map[string]map[string]time.Time
	ready chan string
}

func (s *stopwatch) note(machine, point string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at[machine] == nil {
		s.at[machine] = map[string]time.Time{}
	}
	if s.at[machine][point].IsZero() {
		s.at[machine][point] = time.Now()
	}
}

// between lists, sorted, how long the machines took from one point to another.
func (s *stopwatch) between(from, to string, machines []string) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []time.Duration
	for _, name := range machines {
		all = append(all, s.at[name][to].Sub(s.at[name][from]))
	}
	slices.Sort(all)
	return all
}

// bench is a manager with the machine controller, and a stand-in for Job controller, kubelet and pod that is done at once.
type bench struct {
	*testing.B
	client    client.WithWatch
	namespace string
	watch     *stopwatch
	writes    func() int
}

// BenchmarkMachines measures our own overhead (design.md, "What fast means here"): the Jobs take no time. With a thousand
// machines there, further ones are made one after the other; the delays are theirs.
func BenchmarkMachines(b *testing.B) {
	const many, further = 1000, 100
	for b.Loop() {
		w := newBench(b)
		before := heap()
		began := time.Now()
		w.make("m", many)
		w.awaitReady(many)
		b.ReportMetric(float64(many)/time.Since(began).Seconds(), "machines/s")
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB/1000-machines")
		b.ReportMetric(float64(w.writes())/many, "writes/machine")

		idle := w.writes()
		var names []string
		for i := range further {
			w.make(fmt.Sprintf("f%d", i), 1)
			w.awaitReady(1)
			names = append(names, fmt.Sprintf("f%d-0", i))
		}
		for _, d := range []struct{ name, from, to string }{{"start-to-Job", "made", "job"}, {"done-to-Ready", "done", "ready"}} {
			all := w.watch.between(d.from, d.to, names)
			b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, d.name+"-p50-ms")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, d.name+"-p99-ms")
		}
		b.ReportMetric(float64(w.writes()-idle)/further, "writes/further-machine")
	}
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func newBench(b *testing.B) *bench {
	b.Helper()
	scheme := newScheme(b)
	w := &bench{B: b, client: testkit.Client(b, scheme), namespace: testkit.Namespace(b),
		watch: &stopwatch{at: map[string]map[string]time.Time{}, ready: make(chan string, 2000)}}
	mgr, err := ctrl.NewManager(testkit.Config(b), ctrl.Options{Scheme: scheme, NewCache: capi.NewCache,
		Client: capi.ClientOptions(), Controller: capi.ControllerOptions(), Metrics: server.Options{BindAddress: "0"}})
	require.NoError(b, err)
	counted := &world{client: w.client, writes: map[string]int{}}
	w.writes = counted.wrote
	require.NoError(b, machine.New(machine.Options{Client: counted.counting(), Cache: mgr.GetCache(), Live: mgr.GetAPIReader(),
		Recorder: &events.FakeRecorder{}, Settings: jobrunner.Settings{Image: "x"}}).Register(mgr))
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	b.Cleanup(func() {
		cancel()
		require.NoError(b, <-ended)
	})
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "c1"}, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKECluster", Name: "c1"}}}
	cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	testkit.ExpectApplied(b, w.client, cluster, digitalocean(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "bootstrap"}, StringData: map[string]string{"value": "#!/bin/sh\n"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "cred"}, StringData: map[string]string{"accessToken": "x"}})
	go w.playPods(ctx)
	go w.watchReady(ctx)
	return w
}

// make makes machines with their owners, as Cluster API does.
func (w *bench) make(prefix string, count int) {
	w.Helper()
	for i := range count {
		name := fmt.Sprintf("%s-%d", prefix, i)
		owner := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"}},
			Spec: clusterv1.MachineSpec{ClusterName: "c1", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("bootstrap")},
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke-machine.cattle.io", Kind: "DigitaloceanMachine", Name: name}}}
		require.NoError(w, w.client.Create(w.Context(), owner))
		obj := &unstructured.Unstructured{Object: map[string]any{"spec": droplet()}}
		obj.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind("DigitaloceanMachine"))
		obj.SetNamespace(w.namespace)
		obj.SetName(name)
		obj.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, clusterv1.GroupVersion.WithKind("Machine"))})
		require.NoError(w, w.client.Create(w.Context(), obj))
		w.watch.note(name, "made")
	}
}

func (w *bench) awaitReady(count int) {
	w.Helper()
	timeout := time.NewTimer(10 * time.Minute)
	defer timeout.Stop()
	for range count {
		select {
		case <-w.watch.ready:
		case <-timeout.C:
			w.Fatal("machines did not become ready")
		}
	}
}

func (w *bench) watchReady(ctx context.Context) {
	w.follow(ctx, listOf("DigitaloceanMachine"), func(e watch.Event) {
		obj, ok := e.Object.(*unstructured.Unstructured)
		if !ok || !hasPhase(rkev1.PhaseRunning)(e) {
			return
		}
		w.watch.mu.Lock()
		seen := !w.watch.at[obj.GetName()]["ready"].IsZero()
		w.watch.mu.Unlock()
		if !seen {
			w.watch.note(obj.GetName(), "ready")
			w.watch.ready <- obj.GetName()
		}
	})
}

func (w *bench) playPods(ctx context.Context) {
	w.follow(ctx, &batchv1.JobList{}, func(e watch.Event) {
		job, ok := e.Object.(*batchv1.Job)
		if !ok || e.Type != watch.Added {
			return
		}
		name := job.Labels[rkev1.InfraMachineNameLabel]
		w.watch.note(name, "job")
		if err := w.playPod(ctx, name); err != nil && ctx.Err() == nil {
			w.Errorf("playing the pod of %s: %v", name, err)
		}
		w.watch.note(name, "done")
	})
}

func (w *bench) playPod(ctx context.Context, name string) error {
	documents := map[string]any{
		state.ServerKey: state.Server{InstanceID: name, ProviderID: "digitalocean://" + name},
		state.ResultKey: state.Result{Operation: state.Create, Attempt: 1, Outcome: state.Succeeded},
	}
	data := map[string][]byte{}
	for key, document := range documents {
		raw, err := json.Marshal(document)
		if err != nil {
			return err
		}
		data[key] = raw
	}
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: jobrunner.StateSecretName(name)}}
	return w.client.Patch(ctx, secret, client.RawPatch(types.MergePatchType, patch))
}

func (w *bench) follow(ctx context.Context, list client.ObjectList, see func(watch.Event)) {
	events, err := w.client.Watch(ctx, list, client.InNamespace(w.namespace))
	if err != nil {
		w.Errorf("watching: %v", err)
		return
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		see(event)
	}
}
