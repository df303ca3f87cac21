package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	managementv3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/e2e/simulated"
	"github.com/drover-project/drover/testkit"
)

const (
	driverName = "digitalocean"
	// poolSize is how many machines a MachineDeployment has.
	poolSize = 100
)

// fleet is a cluster whose machines come and go through MachineDeployments, as users make them.
type fleet struct {
	testing.TB
	// server is one of its own: a manager works on all namespaces, also on what an earlier test has left.
	server    *rest.Config
	client    client.WithWatch
	namespace string
	counter   *counter
	manager   *manager
	config    string
	watch     *stopwatch
	// ready and gone get the name of each machine that gets there.
	ready, gone chan string
	registered  time.Duration
}

// newFleet has a manager with further flags.
func newFleet(tb testing.TB, flags ...string) *fleet {
	tb.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme, clusterv1.AddToScheme,
		managementv3.AddToScheme, rkev1.AddToScheme, apiextensionsv1.AddToScheme} {
		require.NoError(tb, add(scheme))
	}
	f := &fleet{TB: tb, server: testkit.Fresh(tb), namespace: "fleet", counter: &counter{counts: requests{}},
		watch: &stopwatch{at: map[string]map[string]time.Time{}}, ready: make(chan string, 10000), gone: make(chan string, 10000)}
	var err error
	f.client, err = client.NewWithWatch(f.server, client.Options{Scheme: scheme})
	require.NoError(tb, err)
	require.NoError(tb, f.client.Create(tb.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}}))
	f.config = f.counter.start(tb, f.server)
	f.manager = startManager(tb, f.config, f.namespace, flags...)
	f.register()
	f.makeSecrets()
	f.background(func(ctx context.Context) error {
		return (&pods{client: f.client, namespace: f.namespace, watch: f.watch, workers: make(chan struct{}, 8)}).play(ctx, f.server)
	})
	f.background(f.watchMachines)
	return f
}

// background runs something until the benchmark ends.
func (f *fleet) background(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.Context()))
	ended := make(chan error, 1)
	go func() {
		err := run(ctx)
		if err != nil && !errors.Is(err, context.Canceled) {
			f.Errorf("in the background: %v", err)
		}
		ended <- err
	}()
	f.Cleanup(func() {
		cancel()
		<-ended
	})
}

// register activates the driver and notes how long it takes until its three kinds are served.
func (f *fleet) register() {
	f.Helper()
	nd := &managementv3.NodeDriver{}
	testkit.Eventually(f, time.Minute, func() error { return f.client.Get(f.Context(), client.ObjectKey{Name: driverName}, nd) })
	before := nd.DeepCopy()
	nd.Spec.Active = true
	began := time.Now()
	require.NoError(f, f.client.Patch(f.Context(), nd, client.MergeFrom(before)))
	testkit.Eventually(f, time.Minute, func() error {
		for _, kind := range []string{"digitaloceanmachines", "digitaloceanmachinetemplates"} {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := f.client.Get(f.Context(), client.ObjectKey{Name: kind + ".rke-machine.cattle.io"}, crd); err != nil {
				return err
			}
			if !established(crd) {
				return fmt.Errorf("%s is not established", crd.Name)
			}
		}
		return nil
	})
	f.registered = time.Since(began)
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established {
			return c.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

// makeSecrets makes what all machines share.
func (f *fleet) makeSecrets() {
	f.Helper()
	f.create(
		&corev1.Secret{ObjectMeta: f.named("bootstrap"), StringData: map[string]string{"value": "#!/bin/sh\n"}},
		&corev1.Secret{ObjectMeta: f.named("credential"), StringData: map[string]string{"accessToken": "x"}},
	)
}

// create makes objects; the webhooks may not be served yet.
func (f *fleet) create(objs ...client.Object) {
	f.Helper()
	for _, obj := range objs {
		testkit.Eventually(f, time.Minute, func() error { return f.client.Create(f.Context(), obj) })
	}
}

func (f *fleet) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: f.namespace, Name: name}
}

func (f *fleet) template(cluster string) client.Object {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"clusterName": cluster, "template": map[string]any{"spec": map[string]any{
		"region": "nyc3", "common": map[string]any{"cloudCredentialSecretName": "credential"}}}}}}
	obj.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind(crdgen.KindsOf(driverName).MachineTemplate))
	obj.SetNamespace(f.namespace)
	obj.SetName(cluster)
	return obj
}

// pool makes a Cluster with a MachineDeployment. Each pool has one of its own, for Cluster API looks at all machines of a
// Cluster whenever one of them changes: hundreds in one are its affair, not ours.
func (f *fleet) pool(name string, replicas int) {
	f.Helper()
	labels := map[string]string{"pool": name, clusterv1.ClusterNameLabel: name}
	f.create(
		&rkev1.RKECluster{ObjectMeta: f.named(name)},
		&clusterv1.Cluster{ObjectMeta: f.named(name), Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: "rke.cattle.io", Kind: "RKECluster", Name: name}}},
		f.template(name),
		&clusterv1.MachineDeployment{ObjectMeta: f.named(name), Spec: clusterv1.MachineDeploymentSpec{
			ClusterName: name, Replicas: new(int32(replicas)), Selector: metav1.LabelSelector{MatchLabels: map[string]string{"pool": name}},
			Template: clusterv1.MachineTemplateSpec{ObjectMeta: clusterv1.ObjectMeta{Labels: labels}, Spec: clusterv1.MachineSpec{
				ClusterName: name, Bootstrap: clusterv1.Bootstrap{DataSecretName: new("bootstrap")},
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: rkev1.MachineGroupVersion.Group,
					Kind: crdgen.KindsOf(driverName).MachineTemplate, Name: name},
			}},
		}},
	)
}

// scale changes a pool.
func (f *fleet) scale(name string, replicas int) {
	f.Helper()
	md := &clusterv1.MachineDeployment{ObjectMeta: f.named(name)}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	require.NoError(f, f.client.Patch(f.Context(), md, patch))
}

// pools makes machines in pools of poolSize and returns the pools' names.
func (f *fleet) pools(machines int) []string {
	f.Helper()
	var names []string
	for made := 0; made < machines; made += poolSize {
		name := fmt.Sprintf("pool-%d", len(names))
		f.pool(name, min(poolSize, machines-made))
		names = append(names, name)
	}
	return names
}

// await waits for machines, for longer than a machine that works needs: 0.4 s each.
func (f *fleet) await(what chan string, count int) {
	f.Helper()
	timeout := time.NewTimer(3*time.Minute + time.Duration(count)*time.Second)
	defer timeout.Stop()
	for got := range count {
		select {
		case <-what:
		case <-timeout.C:
			f.Fatalf("%d of %d machines got there; the manager says: %s", got, count, lastLines(f.manager.log.String()))
		}
	}
}

func lastLines(log string) string { return log[max(0, len(log)-4000):] }

// watchMachines follows the machines until the end.
func (f *fleet) watchMachines(ctx context.Context) error {
	machines := rkev1.MachineGroupVersion.WithResource(driverName + "machines")
	return simulated.Follow(ctx, f.server, f.namespace, machines, func(event watch.EventType, machine *unstructured.Unstructured) {
		if err := f.see(event, machine); err != nil {
			f.Error(err)
		}
	})
}

func (f *fleet) see(event watch.EventType, obj *unstructured.Unstructured) error {
	name := obj.GetName()
	if event == watch.Deleted {
		f.watch.note(name, "gone")
		f.gone <- name
		return nil
	}
	if len(obj.GetOwnerReferences()) > 0 && metav1.GetControllerOf(obj) != nil {
		f.watch.note(name, "may start")
	}
	raw, err := json.Marshal(obj.Object["status"])
	if err != nil {
		return fmt.Errorf("reading the status of %s: %w", name, err)
	}
	var status rkev1.RKEMachineStatus
	if err := json.Unmarshal(raw, &status); err != nil {
		return fmt.Errorf("reading the status of %s: %w", name, err)
	}
	if status.Phase == rkev1.PhaseRunning && f.watch.note(name, "ready") {
		f.ready <- name
	}
	return nil
}
