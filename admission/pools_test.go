package admission_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/testkit"
)

// pools is a namespace with a Cluster "one" of an RKEControlPlane that has made its cluster.
type pools struct {
	*cluster

	namespace string
}

func newPools(t *testing.T) *pools {
	t.Helper()
	applyClusterAPI(t)
	p := &pools{cluster: newCluster(t), namespace: testkit.Namespace(t)}
	p.clusterOf(t, "one", true)
	return p
}

// clusterOf creates a Cluster with an RKEControlPlane, which may have made its cluster.
func (p *pools) clusterOf(t *testing.T, name string, established bool) *clusterv1.Cluster {
	t.Helper()
	obj := &clusterv1.Cluster{ObjectMeta: p.meta(name, nil), Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKECluster", Name: name},
		ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKEControlPlane", Name: name}}}
	controlPlane := &rkev1.RKEControlPlane{ObjectMeta: p.meta(name, nil)}
	controlPlane.Spec.KubernetesVersion = "v1.36.3+k3s1"
	if established {
		controlPlane.Annotations = map[string]string{rkev1.BootstrappedAnnotation: name}
	}
	manager := p.as(t, managerName)
	require.NoError(t, manager.Create(t.Context(), obj))
	require.NoError(t, manager.Create(t.Context(), controlPlane))
	return obj
}

func (p *pools) meta(name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: p.namespace, Name: name, Labels: labels}
}

// template is a machine template with the label of the etcd role.
func template(cluster, infrastructure string) clusterv1.MachineTemplateSpec {
	return clusterv1.MachineTemplateSpec{
		ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"pool": "x", rkev1.EtcdRoleLabel: "true"}},
		Spec: clusterv1.MachineSpec{ClusterName: cluster,
			Bootstrap:         clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKEBootstrapTemplate", Name: "x"}},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke-machine.cattle.io", Kind: "AcmeMachineTemplate", Name: infrastructure}}}
}

var errNoWarning = errors.New("no warning yet")

var selector = metav1.LabelSelector{MatchLabels: map[string]string{"pool": "x"}}

// deployment creates a MachineDeployment of one etcd machine with its MachineSet and its Machine.
func (p *pools) deployment(t *testing.T, cluster, name string, hasNode bool, change func(*clusterv1.MachineDeployment)) *clusterv1.MachineDeployment {
	t.Helper()
	obj := &clusterv1.MachineDeployment{ObjectMeta: p.meta(name, nil), Spec: clusterv1.MachineDeploymentSpec{
		ClusterName: cluster, Replicas: new(int32(1)), Selector: selector, Template: template(cluster, "x")}}
	if change != nil {
		change(obj)
	}
	manager := p.as(t, managerName)
	require.NoError(t, manager.Create(t.Context(), obj))
	owner := metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineDeployment", Name: name, UID: obj.UID, Controller: new(true)}
	set := &clusterv1.MachineSet{ObjectMeta: p.meta(name, map[string]string{clusterv1.MachineDeploymentNameLabel: name}), Spec: clusterv1.MachineSetSpec{
		ClusterName: cluster, Replicas: new(int32(1)), Selector: selector, Template: obj.Spec.Template}}
	set.OwnerReferences = []metav1.OwnerReference{owner}
	require.NoError(t, manager.Create(t.Context(), set))
	p.machine(t, cluster, name, hasNode, map[string]string{clusterv1.MachineDeploymentNameLabel: name, clusterv1.MachineSetNameLabel: name})
	return obj
}

func (p *pools) machine(t *testing.T, cluster, name string, hasNode bool, labels map[string]string) *clusterv1.Machine {
	t.Helper()
	labels[clusterv1.ClusterNameLabel], labels[rkev1.EtcdRoleLabel] = cluster, "true"
	spec := template(cluster, "x").Spec
	spec.Bootstrap.ConfigRef.Kind, spec.InfrastructureRef.Kind = "RKEBootstrap", "AcmeMachine"
	obj := &clusterv1.Machine{ObjectMeta: p.meta(name, labels), Spec: spec}
	require.NoError(t, p.as(t, managerName).Create(t.Context(), obj))
	if hasNode {
		obj.Status.NodeRef.Name = name
		require.NoError(t, p.Status().Update(t.Context(), obj))
	}
	return obj
}

func (p *pools) scale(t *testing.T, obj client.Object, replicas int32) error {
	t.Helper()
	return p.SubResource("scale").Update(t.Context(), obj, client.WithSubResourceBody(&autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: obj.GetNamespace(), Name: obj.GetName()}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}), client.DryRunAll)
}

// change applies a change to a MachineDeployment, as a dry run.
func (p *pools) change(t *testing.T, obj *clusterv1.MachineDeployment, how func(*clusterv1.MachineDeployment)) error {
	t.Helper()
	changed := testkit.ExpectExists(t, p, obj)
	how(changed)
	return p.Update(t.Context(), changed, client.DryRunAll)
}

var (
	toZero      = func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = new(int32(0)) }
	restart     = func(d *clusterv1.MachineDeployment) { d.Spec.Rollout.After = metav1.Now() }
	toLarge     = func(d *clusterv1.MachineDeployment) { d.Spec.Template.Spec.InfrastructureRef.Name = "large" }
	toOther     = func(d *clusterv1.MachineDeployment) { d.Spec.Template.Spec.Bootstrap.ConfigRef.Name = "other" }
	toZone      = func(d *clusterv1.MachineDeployment) { d.Spec.Template.Spec.FailureDomain = "b" }
	toTwo       = func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = new(int32(2)) }
	toNoRollout = func(d *clusterv1.MachineDeployment) { d.Spec.Rollout.After = metav1.Time{} }
	unlabelled  = func(d *clusterv1.MachineDeployment) { delete(d.Spec.Template.Labels, rkev1.EtcdRoleLabel); toZero(d) }
	forced      = func(d *clusterv1.MachineDeployment) {
		d.Annotations = map[string]string{rkev1.EtcdForceRemoveAnnotation: "true"}
	}
)

// The server of a provisioning Cluster is changed through the Cluster.
func TestPools_rendered(t *testing.T) {
	p := newPools(t)
	rendered := p.deployment(t, "one", "one-server", true, func(d *clusterv1.MachineDeployment) {
		d.Labels, d.Annotations = map[string]string{rkev1.ClusterNameLabel: "one"}, map[string]string{apply.HashAnnotation: "x"}
	})
	require.ErrorContains(t, p.scale(t, rendered, 0), "Change the Cluster instead: kubectl edit clusters.provisioning.cattle.io one -n "+p.namespace)
}

// A change that would delete or replace the only server with the cluster's data is rejected.
func TestPools_onlyServer(t *testing.T) {
	p := newPools(t)
	server := p.deployment(t, "one", "one-server", true, nil)
	deletes := "replicas: 0 would delete the only server of Cluster one, with the cluster's data on it (etcd). Drover cannot restore the data. " +
		"To delete it, first run: kubectl annotate machinedeployments.cluster.x-k8s.io one-server -n " + p.namespace + " rke.cattle.io/etcd-force-remove=true"
	replaces := "this change would replace the only server of Cluster one: Cluster API would create a second server, which cannot join (TierUnsupported), because Drover supports one server with etcd. " +
		"Undo the change. To roll out nevertheless, first run: kubectl annotate machinedeployments.cluster.x-k8s.io one-server -n " + p.namespace + " rke.cattle.io/etcd-force-remove=true"
	require.ErrorContains(t, p.scale(t, server, 0), deletes)
	for what, tt := range map[string]struct {
		how  func(*clusterv1.MachineDeployment)
		says string
	}{
		"replicas":              {toZero, deletes},
		"without the label":     {unlabelled, deletes},
		"restart":               {restart, replaces},
		"a new machine":         {toLarge, replaces},
		"a new bootstrap":       {toOther, replaces},
		"another zone":          {toZone, replaces},
		"two":                   {toTwo, ""},
		"no rollout":            {toNoRollout, ""},
		"forced in one request": {func(d *clusterv1.MachineDeployment) { forced(d); toZero(d); toLarge(d) }, ""},
	} {
		t.Run(what, func(t *testing.T) {
			err := p.change(t, server, tt.how)
			if tt.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.says)
		})
	}
	require.NoError(t, p.scale(t, server, 1))
	require.NoError(t, p.scale(t, server, 2))
	set := &clusterv1.MachineSet{ObjectMeta: p.meta("one-server", nil)}
	require.NoError(t, p.scale(t, set, 0), "a MachineSet of a MachineDeployment belongs to Cluster API's controllers")
	require.NoError(t, p.as(t, managerName).Update(t.Context(), withReplicas(testkit.ExpectExists(t, p, server), 0), client.DryRunAll), "the manager")

	annotated := testkit.ExpectExists(t, p, server)
	forced(annotated)
	require.NoError(t, p.Update(t.Context(), annotated))
	require.NoError(t, p.scale(t, server, 0))
	require.NoError(t, p.change(t, server, restart))
}

func withReplicas(d *clusterv1.MachineDeployment, replicas int32) *clusterv1.MachineDeployment {
	d.Spec.Replicas = &replicas
	return d
}

// After a rollout that has begun, the earlier template can be put back.
func TestPools_rollback(t *testing.T) {
	p := newPools(t)
	server := p.deployment(t, "one", "one-server", true, nil)
	rolling := testkit.ExpectExists(t, p, server)
	toLarge(rolling)
	restart(rolling)
	require.NoError(t, p.as(t, managerName).Update(t.Context(), rolling))
	p.machine(t, "one", "one-server-second", false, map[string]string{clusterv1.MachineDeploymentNameLabel: "one-server", clusterv1.MachineSetNameLabel: "second"})
	back := func(d *clusterv1.MachineDeployment) { d.Spec.Template.Spec.InfrastructureRef.Name = "x" }
	require.NoError(t, p.change(t, server, back))
	require.NoError(t, p.change(t, server, toNoRollout))
	require.NoError(t, p.change(t, server, func(d *clusterv1.MachineDeployment) { back(d); toNoRollout(d) }))
	require.Error(t, p.change(t, server, toOther))
	require.Error(t, p.change(t, server, toZero))
}

// Changes that cannot lose data are allowed.
func TestPools_withoutData(t *testing.T) {
	p := newPools(t)
	p.clusterOf(t, "new", false)
	gone := p.clusterOf(t, "gone", true)
	gone.Finalizers = []string{"example.com/wait"}
	require.NoError(t, p.Update(t.Context(), gone))
	require.NoError(t, p.Delete(t.Context(), gone))
	server := p.deployment(t, "one", "server", true, nil)
	for what, d := range map[string]*clusterv1.MachineDeployment{
		"a second pool, whose machine never joined": p.deployment(t, "one", "second", false, nil),
		"a worker": p.deployment(t, "one", "worker", false, func(d *clusterv1.MachineDeployment) {
			d.Spec.Template.Labels[rkev1.EtcdRoleLabel] = "false"
		}),
		"another bootstrap provider": p.deployment(t, "one", "kubeadm", false, func(d *clusterv1.MachineDeployment) {
			d.Spec.Template.Spec.Bootstrap.ConfigRef.APIGroup, d.Spec.Template.Spec.Bootstrap.ConfigRef.Kind = "bootstrap.cluster.x-k8s.io", "KubeadmConfigTemplate"
		}),
		"a cluster that does not exist yet": p.deployment(t, "new", "new", false, nil),
		"a cluster that is being deleted":   p.deployment(t, "gone", "gone", true, nil),
		"a Cluster that does not exist":     p.deployment(t, "none", "none", false, nil),
	} {
		t.Run(what, func(t *testing.T) {
			require.NoError(t, p.scale(t, d, 0))
			require.NoError(t, p.change(t, d, toZero))
			require.NoError(t, p.change(t, d, toLarge))
			require.NoError(t, p.change(t, d, restart))
		})
	}
	server.Finalizers = []string{"example.com/wait"}
	require.NoError(t, p.as(t, managerName).Update(t.Context(), server))
	require.NoError(t, p.Delete(t.Context(), server))
	require.NoError(t, p.scale(t, server, 0), "it is being deleted")
}

// The only server is protected also if its Node is not known, for example after a restore, and in a MachineSet of its own.
func TestPools_unknownNode(t *testing.T) {
	p := newPools(t)
	server := p.deployment(t, "one", "server", false, nil)
	require.ErrorContains(t, p.scale(t, server, 0), "would delete the only server of Cluster one")
	moved := testkit.ExpectExists(t, p, &rkev1.RKEControlPlane{ObjectMeta: p.meta("one", nil)})
	moved.Annotations["clusterctl.cluster.x-k8s.io/delete-for-move"] = ""
	require.NoError(t, p.Update(t.Context(), moved))
	require.NoError(t, p.Delete(t.Context(), moved))
	require.ErrorContains(t, p.scale(t, server, 0), "would delete the only server of Cluster one", "its control plane is not restored yet")

	p.clusterOf(t, "two", true)
	set := &clusterv1.MachineSet{ObjectMeta: p.meta("set", nil), Spec: clusterv1.MachineSetSpec{ClusterName: "two", Replicas: new(int32(1)), Selector: selector, Template: template("two", "x")}}
	require.NoError(t, p.Create(t.Context(), set))
	p.machine(t, "two", "set", true, map[string]string{clusterv1.MachineSetNameLabel: "set"})
	require.ErrorContains(t, p.scale(t, set, 0), "kubectl annotate machinesets.cluster.x-k8s.io set -n")
	set.Spec.Template.Spec.InfrastructureRef.Name = "large"
	require.NoError(t, p.Update(t.Context(), set), "a MachineSet replaces nothing")
}

// While no manager runs, a change of a pool with the etcd role is rejected, and others are not.
func TestPools_withoutUs(t *testing.T) {
	p := newPools(t)
	server := p.deployment(t, "one", "server", true, nil)
	worker := p.deployment(t, "one", "worker", false, func(d *clusterv1.MachineDeployment) { delete(d.Spec.Template.Labels, rkev1.EtcdRoleLabel) })
	p.stop()
	require.ErrorContains(t, p.scale(t, server, 0), `failed calling webhook "pools.drover.cattle.io"`)
	require.ErrorContains(t, p.change(t, server, restart), `failed calling webhook "pools.drover.cattle.io"`)
	require.NoError(t, p.scale(t, server, 1))
	set := testkit.ExpectExists(t, p, &clusterv1.MachineSet{ObjectMeta: p.meta("server", nil)})
	set.Spec.Replicas = new(int32(0))
	require.NoError(t, p.Update(t.Context(), set, client.DryRunAll), "a MachineSet of a MachineDeployment belongs to Cluster API's controllers")
	require.NoError(t, p.change(t, server, func(d *clusterv1.MachineDeployment) { d.Labels = map[string]string{"a": "b"} }))
	require.NoError(t, p.change(t, worker, toZero))
	require.NoError(t, p.scale(t, worker, 3))
	require.NoError(t, p.Delete(t.Context(), server))
}

// A user who deletes a machine with the cluster's data gets a warning.
func TestDeletionOfEtcdIsAnnounced(t *testing.T) {
	p := newPools(t)
	deployment := p.deployment(t, "one", "server", true, nil)
	machine := &clusterv1.Machine{ObjectMeta: p.meta("server", nil)}
	worker := p.machine(t, "one", "worker", true, map[string]string{})
	delete(worker.Labels, rkev1.EtcdRoleLabel)
	require.NoError(t, p.Update(t.Context(), worker))
	warned := func(obj client.Object) string {
		p.told(nil)
		return p.told(p.Delete(t.Context(), obj, client.DryRunAll))
	}
	testkit.Eventually(t, time.Minute, func() error { // policies are known one by one
		if warned(machine) == "  taken\n" {
			return errNoWarning
		}
		return nil
	})
	for _, obj := range []client.Object{machine, deployment, &clusterv1.MachineSet{ObjectMeta: p.meta("server", nil)}} {
		require.Contains(t, warned(obj), "this deletes a server with the role etcd and the cluster's data on it, which Drover cannot restore. docs/clusters.md describes how to back the data up")
	}
	require.Equal(t, "  taken\n", warned(worker))
	require.Empty(t, p.told(p.as(t, "system:serviceaccount:capi-system:capi-manager").Delete(t.Context(), machine, client.DryRunAll))[len("  taken\n"):])
}
