package move

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	managementv3 "github.com/drover-project/drover/api/management/v3"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

const namespace = "shop"

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func machines() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind("DigitaloceanMachineList"))
	return list
}

// A cluster moves with its machines while the server of one is being removed, nothing is made twice, and it lives on there: its states,
// keys and credentials have come along, another machine is made with them, and all servers are removed from there.
func TestMove(t *testing.T) {
	from, to := newSite(t, nil), newSite(t, nil)
	from.makeCluster()
	whole := from.makeWhole()

	release := from.kubelet.hold(state.Create)
	from.makeMachine("cp", true)
	from.makeMachine("old", false)
	from.makePool(1)
	testkit.Eventually(t, patience, func() error { return from.inPhase(rkev1.PhaseCreating, 3) })
	out, err := from.move(to, io.Discard)
	require.Error(t, err, "a server is being made")
	require.Contains(t, out, "is still provisioning the node")
	require.False(t, from.paused(), "nothing was begun")
	release()
	testkit.Eventually(t, patience, func() error { return from.inPhase(rkev1.PhaseRunning, 3) })
	from.join(from)
	testkit.Eventually(t, patience, func() error { return from.joined(3) })
	require.NoError(t, from.Create(t.Context(), &managementv3.NodeDriver{ObjectMeta: named("", "acme"),
		Spec: managementv3.NodeDriverSpec{URL: "https://drivers.example.org/acme", Checksum: strings.Repeat("a", 64)}}))
	testkit.Eventually(t, patience, from.jobsEnded) // each writes into its machine's state to the last
	kept := from.states()

	// A move that stops half-way is taken back, and done again.
	ctx, stop := context.WithCancel(t.Context())
	out, err = from.moveUntil(ctx, to, writer(func(text []byte) {
		if bytes.Contains(text, []byte("Creating Secret=\"cp-machine-state\"")) {
			stop()
		}
	}))
	require.ErrorContains(t, err, "killed", out)
	require.True(t, from.paused())
	require.True(t, to.paused())
	to.runDocumented("## Back")
	from.runDocumented("## When it stops half-way")
	require.False(t, from.paused())
	require.Len(t, theCloud.Ledger.Live(ledger.KindDroplet), 3)

	// A server is being removed.
	release = from.kubelet.hold(state.Remove)
	require.NoError(t, from.Delete(t.Context(), &clusterv1.Machine{ObjectMeta: named(namespace, "old")}))
	testkit.Eventually(t, patience, func() error {
		return from.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: jobrunner.JobName("old", state.Remove, 1)}, &batchv1.Job{})
	})
	var once sync.Once
	out, err = from.move(to, writer(func(text []byte) {
		if bytes.Contains(text, []byte("Move blocked by clusterctl.cluster.x-k8s.io/block-move")) {
			once.Do(release)
		}
	}))
	require.NoError(t, err, out)
	require.Contains(t, out, "Move blocked by", "it waited for the Job")
	require.Contains(t, out, "old-machine-state")
	require.Len(t, theCloud.Ledger.Live(ledger.KindDroplet), 2)

	require.Empty(t, from.left(), "nothing stays behind")
	testkit.Eventually(t, patience, func() error { return to.inPhase(rkev1.PhaseRunning, 2) })
	for name, was := range kept {
		if name != "old-machine-state" {
			is := testkit.ExpectExists(t, to, &corev1.Secret{ObjectMeta: named(namespace, name)})
			require.Equal(t, was.Data, is.Data, "the state and its SSH key")
		}
	}
	testkit.ExpectExists(t, to, &managementv3.NodeDriver{ObjectMeta: named("", "acme")})
	testkit.ExpectNotFound(t, from, &provv1.Cluster{ObjectMeta: named(namespace, "whole")}, config("whole-workers"))
	require.Equal(t, whole, to.rendered(), "the provisioning Cluster renders the same objects")
	testkit.Eventually(t, patience, from.noManagement)
	jobs := &batchv1.JobList{}
	require.NoError(t, to.List(t.Context(), jobs, client.InNamespace(namespace)))
	require.Empty(t, jobs.Items, "nothing is made again")
	why, err := run(t.Context(), binary(t, "drover"), "why", "cp", "-n", namespace, "--kubeconfig", to.kubeconfig)
	require.NoError(t, err, why)
	require.Contains(t, why, "Running")

	// What the move forgot: that machine was to go.
	testkit.Eventually(t, patience, func() error { return to.says("old", rkev1.RemovalBegunReason) })
	require.NoError(t, to.Delete(t.Context(), &clusterv1.Machine{ObjectMeta: named(namespace, "old")}))

	// Life goes on.
	scale := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":2}}`))
	require.NoError(t, to.Patch(t.Context(), &clusterv1.MachineDeployment{ObjectMeta: named(namespace, "pool")}, scale))
	testkit.Eventually(t, patience, func() error { return to.inPhase(rkev1.PhaseRunning, 3) })
	require.Len(t, theCloud.Ledger.Live(ledger.KindDroplet), 3)
	require.NoError(t, to.Delete(t.Context(), &clusterv1.Cluster{ObjectMeta: named(namespace, "c1")}))
	require.NoError(t, to.Delete(t.Context(), &provv1.Cluster{ObjectMeta: named(namespace, "whole")}))
	testkit.Eventually(t, patience, func() error {
		return gone(to.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "whole"}, &provv1.Cluster{}))
	})
	testkit.Eventually(t, patience, to.noManagement)
	testkit.Eventually(t, patience, func() error {
		if left := len(theCloud.Ledger.Live(ledger.KindDroplet)); left > 0 {
			return fmt.Errorf("%d servers are left", left)
		}
		return to.inPhase("", 0)
	})
}

func (s *site) make(objs ...client.Object) {
	s.Helper()
	for _, obj := range objs {
		testkit.Eventually(s, patience, func() error { return s.Create(s.Context(), obj) })
	}
}

func (s *site) makeCluster() {
	s.Helper()
	s.make(&corev1.Namespace{ObjectMeta: named("", namespace)},
		&corev1.Secret{ObjectMeta: named(namespace, "bootstrap"), Type: clusterv1.ClusterSecretType, StringData: map[string]string{"value": "#!/bin/sh\n"}},
		&corev1.Secret{ObjectMeta: named(namespace, "credential"), StringData: map[string]string{"accessToken": theCloud.Token()}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"}},
			Type: clusterv1.ClusterSecretType, Data: map[string][]byte{"value": s.access()}},
		&rkev1.RKECluster{ObjectMeta: named(namespace, "c1")},
		&clusterv1.Cluster{ObjectMeta: named(namespace, "c1"), Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: rkev1.GroupVersion.Group, Kind: "RKECluster", Name: "c1"}}},
		s.infra("DigitaloceanMachineTemplate", "small", map[string]any{"clusterName": "c1", "template": map[string]any{"spec": droplet()}}))
}

// makeWhole makes a provisioning Cluster without machines, and returns what it renders.
func (s *site) makeWhole() string {
	s.Helper()
	s.make(config("whole-workers"), &provv1.Cluster{ObjectMeta: named(namespace, "whole"), Spec: provv1.ClusterSpec{KubernetesVersion: "v1.36.3+k3s1",
		RKEConfig: &provv1.RKEConfig{MachinePools: []provv1.MachinePool{{Name: "workers", WorkerRole: true, Quantity: new(int32(0)),
			MachineConfigRef: provv1.ConfigReference{Kind: "DigitaloceanConfig", Name: "whole-workers"}}}}}})
	rendered := s.rendered()
	// clusterctl moves only clusters whose API has answered once.
	controlPlane := &rkev1.RKEControlPlane{ObjectMeta: named(namespace, "whole")}
	require.NoError(s, s.Status().Patch(s.Context(), controlPlane, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"initialized":true,"initialization":{"controlPlaneInitialized":true}}}`))))
	testkit.Eventually(s, patience, func() error {
		cluster := &clusterv1.Cluster{}
		err := s.Get(s.Context(), client.ObjectKey{Namespace: namespace, Name: "whole"}, cluster)
		if known := cluster.Status.Initialization.ControlPlaneInitialized; err != nil || known != nil && *known {
			return err
		}
		return fmt.Errorf("the control plane is not initialized: %+v", cluster.Status)
	})
	return rendered
}

func config(name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"region": "nyc3"}}
	obj.SetGroupVersionKind(rkev1.MachineConfigGroupVersion.WithKind("DigitaloceanConfig"))
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

// rendered waits until the provisioning Cluster is rendered, and returns what a replacement of its machines would change, and
// the name of its management Cluster.
func (s *site) rendered() string {
	s.Helper()
	cluster := &provv1.Cluster{}
	testkit.Eventually(s, patience, func() error {
		if err := s.Get(s.Context(), client.ObjectKey{Namespace: namespace, Name: "whole"}, cluster); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(cluster.Status.Conditions, provv1.RKEClusterCondition) {
			return fmt.Errorf("it is not rendered: %+v", cluster.Status.Conditions)
		}
		if cluster.Status.ClusterName == "" {
			return fmt.Errorf("no management Cluster: %+v", cluster.Status.Conditions)
		}
		return nil
	})
	management := testkit.ExpectExists(s, s, &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: cluster.Status.ClusterName}})
	require.Equal(s, string(cluster.UID), management.Spec.ProvisioningCluster.UID)
	claimed := testkit.ExpectExists(s, s, config("whole-workers"))
	require.Equal(s, cluster.UID, metav1.GetControllerOf(claimed).UID)
	deployments := &clusterv1.MachineDeploymentList{}
	require.NoError(s, s.List(s.Context(), deployments, client.InNamespace(namespace), client.MatchingLabels{rkev1.ClusterNameLabel: "whole"}))
	require.Len(s, deployments.Items, 1)
	sets := &clusterv1.MachineSetList{}
	testkit.Eventually(s, patience, func() error {
		if err := s.List(s.Context(), sets, client.InNamespace(namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: "whole"}); err != nil || len(sets.Items) == 1 {
			return err
		}
		return fmt.Errorf("%d MachineSets", len(sets.Items))
	})
	return deployments.Items[0].Name + " " + deployments.Items[0].Spec.Template.Spec.InfrastructureRef.Name + " " + sets.Items[0].Name + " " + cluster.Status.ClusterName
}

// noManagement is nil if no management Cluster exists.
func (s *site) noManagement() error {
	list := &managementv3.ClusterList{}
	if err := s.List(s.Context(), list); err != nil || len(list.Items) == 0 {
		return err
	}
	return fmt.Errorf("%d management Clusters are left", len(list.Items))
}

// gone is nil for the error that an object does not exist.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("it is still there: %w", err)
}

func droplet() map[string]any {
	return map[string]any{"region": "nyc3", "common": map[string]any{"cloudCredentialSecretName": "credential"}}
}

func (s *site) infra(kind, name string, spec map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	obj.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind(kind))
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

func machineSpec(kind, name string) clusterv1.MachineSpec {
	return clusterv1.MachineSpec{ClusterName: "c1", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("bootstrap")},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: rkev1.MachineGroupVersion.Group, Kind: kind, Name: name}}
}

func (s *site) makeMachine(name string, controlPlane bool) {
	s.Helper()
	m := &clusterv1.Machine{ObjectMeta: named(namespace, name), Spec: machineSpec("DigitaloceanMachine", name)}
	m.Labels = map[string]string{clusterv1.ClusterNameLabel: "c1"}
	if controlPlane {
		m.Labels[clusterv1.MachineControlPlaneLabel] = ""
	}
	s.make(s.infra("DigitaloceanMachine", name, droplet()), m)
}

func (s *site) makePool(replicas int32) {
	s.Helper()
	labels := map[string]string{"pool": "pool", clusterv1.ClusterNameLabel: "c1"}
	s.make(&clusterv1.MachineDeployment{ObjectMeta: named(namespace, "pool"), Spec: clusterv1.MachineDeploymentSpec{
		ClusterName: "c1", Replicas: &replicas, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"pool": "pool"}},
		Template: clusterv1.MachineTemplateSpec{ObjectMeta: clusterv1.ObjectMeta{Labels: labels}, Spec: machineSpec("DigitaloceanMachineTemplate", "small")}}})
}

// inPhase expects a number of machines in a phase, any phase when it is empty.
func (s *site) inPhase(phase string, want int) error {
	list := machines()
	if err := s.List(s.Context(), list, client.InNamespace(namespace)); err != nil {
		return err
	}
	var phases []string
	for i := range list.Items {
		is, _, _ := unstructured.NestedString(list.Items[i].Object, "status", "phase")
		phases = append(phases, is)
	}
	got := len(slices.DeleteFunc(slices.Clone(phases), func(is string) bool { return phase != "" && is != phase }))
	if got != want {
		return fmt.Errorf("%d machines %s: %q", got, phase, phases)
	}
	return nil
}

// jobsEnded fails while a Job is under way.
func (s *site) jobsEnded() error {
	var jobs batchv1.JobList
	if err := s.List(s.Context(), &jobs, client.InNamespace(namespace)); err != nil {
		return err
	}
	for i := range jobs.Items {
		if job := &jobs.Items[i]; job.Status.CompletionTime == nil {
			return fmt.Errorf("%s is under way", job.Name)
		}
	}
	return nil
}

// says expects a reason of a machine's condition CreateJob.
func (s *site) says(name, reason string) error {
	obj := s.infra("DigitaloceanMachine", name, nil)
	if err := s.Get(s.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		return err
	}
	if text := fmt.Sprint(obj.Object["status"]); !strings.Contains(text, "reason:"+reason) {
		return fmt.Errorf("%s does not say %s: %s", name, reason, text)
	}
	return nil
}

// join makes the Nodes that the servers become, in the cluster that they form, which is played by another's API server.
func (s *site) join(workload *site) {
	s.Helper()
	list := machines()
	require.NoError(s, s.List(s.Context(), list, client.InNamespace(namespace)))
	for i := range list.Items {
		id, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "providerID")
		workload.make(&corev1.Node{ObjectMeta: named("", list.Items[i].GetName()), Spec: corev1.NodeSpec{ProviderID: id}})
	}
}

// joined expects that Cluster API has found the Nodes, and with the control plane's that the cluster is up. Before that it watches
// none, so the Machines are touched.
func (s *site) joined(want int) error {
	list := &clusterv1.MachineList{}
	if err := s.List(s.Context(), list, client.InNamespace(namespace)); err != nil {
		return err
	}
	got := 0
	for i := range list.Items {
		if list.Items[i].Status.NodeRef.IsDefined() {
			got++
			continue
		}
		touch := fmt.Appendf(nil, `{"metadata":{"annotations":{"test/touched":"%d"}}}`, time.Now().UnixNano())
		if err := s.Patch(s.Context(), &list.Items[i], client.RawPatch("application/merge-patch+json", touch)); err != nil {
			return err
		}
	}
	cluster := &clusterv1.Cluster{}
	if err := s.Get(s.Context(), client.ObjectKey{Namespace: namespace, Name: "c1"}, cluster); err != nil {
		return err
	}
	if got != want || !meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition) {
		return fmt.Errorf("%d Machines have Nodes; the Cluster: %+v", got, cluster.Status.Conditions)
	}
	return nil
}

func (s *site) paused() bool {
	s.Helper()
	cluster := testkit.ExpectExists(s, s, &clusterv1.Cluster{ObjectMeta: named(namespace, "c1")})
	return cluster.Spec.Paused != nil && *cluster.Spec.Paused
}

// states are the state Secrets and the credentials of last resort.
func (s *site) states() map[string]*corev1.Secret {
	s.Helper()
	list := &corev1.SecretList{}
	require.NoError(s, s.List(s.Context(), list, client.InNamespace(namespace), client.HasLabels{rkev1.MachineUIDLabel}))
	found := map[string]*corev1.Secret{}
	for i := range list.Items {
		found[list.Items[i].Name] = &list.Items[i]
	}
	require.Len(s, found, 6)
	return found
}

// left are the names of what is still in the namespace, but for what every namespace has.
func (s *site) left() (left []string) {
	s.Helper()
	secrets, infra, owners, jobs := &corev1.SecretList{}, machines(), &clusterv1.MachineList{}, &batchv1.JobList{}
	for _, list := range []client.ObjectList{secrets, infra, owners} {
		require.NoError(s, s.List(s.Context(), list, client.InNamespace(namespace)))
		require.NoError(s, meta.EachListItem(list, func(obj runtime.Object) error {
			accessor, err := meta.Accessor(obj)
			if err == nil {
				left = append(left, accessor.GetName())
			}
			return err
		}))
	}
	testkit.Eventually(s, patience, func() error { // the garbage collector takes its time
		if err := s.List(s.Context(), jobs, client.InNamespace(namespace)); err != nil || len(jobs.Items) == 0 {
			return err
		}
		return fmt.Errorf("%d Jobs are left", len(jobs.Items))
	})
	return left
}

// runDocumented runs the first command of each code block in a chapter of docs/moving.md, with us as the target and the source.
func (s *site) runDocumented(chapter string) {
	s.Helper()
	page, err := os.ReadFile("../../docs/moving.md")
	require.NoError(s, err)
	_, text, _ := strings.Cut(string(page), "\n"+chapter+"\n")
	_, text, _ = strings.Cut(text, "```sh\n")
	text, _, _ = strings.Cut(text, "```")
	text, _, _ = strings.Cut(strings.ReplaceAll(text, "NAME", "c1"), "clusterctl ") // what comes then is the move itself
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euxc", text)
	cmd.Dir = filepath.Dir(s.kubeconfig)
	require.NoError(s, os.WriteFile(filepath.Join(cmd.Dir, "target"), s.access(), 0o600))
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig)
	out, err := cmd.CombinedOutput()
	require.NoError(s, err, string(out))
}

// move runs clusterctl move; also is given what it prints while it runs.
func (s *site) move(to *site, also io.Writer) (string, error) {
	s.Helper()
	return s.moveUntil(s.Context(), to, also)
}

func (s *site) moveUntil(ctx context.Context, to *site, also io.Writer) (string, error) {
	s.Helper()
	out := &bytes.Buffer{}
	err := runTo(ctx, io.MultiWriter(out, also), binary(s.T, "clusterctl"), "move", "-v", "5", "--kubeconfig", s.kubeconfig, "--to-kubeconfig", to.kubeconfig, "-n", namespace)
	return out.String(), err
}

func runTo(ctx context.Context, out io.Writer, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "CLUSTERCTL_DISABLE_VERSIONCHECK=true")
	cmd.Stdout, cmd.Stderr = out, out
	return cmd.Run()
}

type writer func([]byte)

func (w writer) Write(text []byte) (int, error) {
	w(text)
	return len(text), nil
}
