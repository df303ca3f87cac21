package provisioningcluster_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v3 "github.com/drover-project/drover/api/management/v3"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/testkit"
)

// driverWorld is a world whose workers use a driver of its own, with these kinds.
func driverWorld(t *testing.T, driver string, withTemplate bool) *world {
	t.Helper()
	fields, err := crdgen.FieldsOf(driver, olderFlagsOf(driver), crdgen.Rules{})
	require.NoError(t, err)
	config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: driver, Fields: fields})
	require.NoError(t, err)
	testkit.ApplyCRDs(t, config, machine)
	if withTemplate {
		testkit.ApplyCRDs(t, template)
	}
	kind := crdgen.KindsOf(driver).Config
	w := newWorld(t, func(c *provv1.Cluster) {
		c.Spec.RKEConfig.MachinePools[1].MachineConfigRef = provv1.ConfigReference{Kind: kind, Name: "workers"}
	})
	obj := w.config("workers", "")
	obj.Object = map[string]any{"size": "small"}
	obj.SetGroupVersionKind(rkev1.MachineConfigGroupVersion.WithKind(kind))
	obj.SetNamespace(w.cluster.Namespace)
	obj.SetName("workers")
	require.NoError(t, w.client.Create(t.Context(), obj))
	return w
}

func olderFlagsOf(driver string) []crdgen.Flag {
	return []crdgen.Flag{{Name: driver + "-size", Type: crdgen.String, Default: "small"}}
}

// TestInput_kindWithoutTemplate: a pool whose Config has no kind of machine templates waits for it, and
// the others go on.
func TestInput_kindWithoutTemplate(t *testing.T) {
	w := driverWorld(t, "untemplated", false)
	w.reconcile(t)
	w.deployment(t, "one-server")
	testkit.ExpectNotFound(t, w.client, &clusterv1.MachineDeployment{ObjectMeta: w.named("one-workers")})
	updated := testkit.ExpectCondition(t, w.cluster, provv1.UpdatedCondition, metav1.ConditionFalse, provv1.ConfigMissingReason)
	require.Contains(t, updated.Message, "pool workers: UntemplatedConfig workers needs the kind UntemplatedMachineTemplate, which does not exist")
	driverWorld(t, "untemplated", true)
	w.reconcile(t)
	w.deployment(t, "one-workers")
}

// TestInput_inactive: a pool of an inactive driver waits, and one that exists keeps its options and can
// be resized.
func TestInput_inactive(t *testing.T) {
	w := driverWorld(t, "sleeping", true)
	driver := &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "sleeping-1"}, Spec: v3.NodeDriverSpec{DisplayName: "sleeping", Builtin: true, URL: "local://"}}
	require.NoError(t, w.client.Create(t.Context(), driver))
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(w.client.Delete(context.WithoutCancel(t.Context()), driver)))
	})
	set := func(active bool) {
		driver.Spec.Active = active
		require.NoError(t, w.client.Update(t.Context(), driver))
	}
	w.reconcile(t)
	w.deployment(t, "one-server")
	testkit.ExpectNotFound(t, w.client, &clusterv1.MachineDeployment{ObjectMeta: w.named("one-workers")})
	updated := testkit.ExpectCondition(t, w.cluster, provv1.UpdatedCondition, metav1.ConditionFalse, provv1.DriverInactiveReason)
	require.Contains(t, updated.Message, "pool workers: the NodeDriver sleeping-1 of SleepingConfig workers is inactive")
	set(true)
	w.reconcile(t)
	template := w.deployment(t, "one-workers").Spec.Template.Spec.InfrastructureRef

	set(false)
	w.reconcile(t)
	testkit.ExpectCondition(t, w.cluster, provv1.UpdatedCondition, metav1.ConditionFalse, provv1.WaitingForControlPlaneReason)
	config := w.config("workers", "")
	config.SetGroupVersionKind(rkev1.MachineConfigGroupVersion.WithKind("SleepingConfig"))
	testkit.ExpectExists(t, w.client, config)
	config.Object["size"] = "large"
	require.NoError(t, w.client.Update(t.Context(), config))
	w.cluster.Spec.RKEConfig.MachinePools[1].Quantity = new(int32(5))
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	w.reconcile(t)
	workers := w.deployment(t, "one-workers")
	require.Equal(t, int32(5), *workers.Spec.Replicas)
	require.Equal(t, template, workers.Spec.Template.Spec.InfrastructureRef)
	testkit.ExpectCondition(t, w.cluster, provv1.UpdatedCondition, metav1.ConditionFalse, provv1.DriverInactiveReason)
	set(true)
	w.reconcile(t)
	require.NotEqual(t, template, w.deployment(t, "one-workers").Spec.Template.Spec.InfrastructureRef)
}

// TestInput_roles: a Cluster without a pool for a role says so before a server is created.
func TestInput_roles(t *testing.T) {
	for reason, pools := range map[string][]provv1.MachinePool{
		rkev1.NoEtcdMachineReason:         {{Name: "workers", WorkerRole: true}, {Name: "server", ControlPlaneRole: true}},
		rkev1.NoControlPlaneMachineReason: {{Name: "workers", WorkerRole: true}, {Name: "server", EtcdRole: true}},
	} {
		w := newWorld(t, func(c *provv1.Cluster) {
			for i := range pools {
				pools[i].MachineConfigRef = provv1.ConfigReference{Kind: "DigitaloceanConfig", Name: pools[i].Name}
			}
			c.Spec.RKEConfig.MachinePools = pools
		})
		w.reconcile(t)
		testkit.ExpectCondition(t, w.cluster, provv1.UpdatedCondition, metav1.ConditionFalse, reason)
		testkit.ExpectNotFound(t, w.client, &clusterv1.MachineDeployment{ObjectMeta: w.named("one-server")})
	}
}

// TestInput_version: a version that admission could not judge is reported before any machine exists.
func TestInput_version(t *testing.T) {
	w := newWorld(t, func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "v1.99.1+k3s1" })
	w.reconcile(t)
	controlPlane := testkit.ExpectExists(t, w.client, &rkev1.RKEControlPlane{ObjectMeta: w.named("one")})
	before := controlPlane.DeepCopy()
	controlPlane.Status.ObservedGeneration = controlPlane.Generation
	controlPlane.Status.Conditions = []metav1.Condition{{Type: rkev1.ReconciledCondition, Status: metav1.ConditionFalse, Reason: rkev1.KubernetesVersionUnknownReason,
		Message: "spec.kubernetesVersion: unknown release", LastTransitionTime: metav1.Now()}}
	require.NoError(t, w.client.Status().Patch(t.Context(), controlPlane, client.MergeFrom(before)))
	w.reconcile(t)
	updated := testkit.ExpectCondition(t, w.cluster, provv1.UpdatedCondition, metav1.ConditionFalse, rkev1.KubernetesVersionUnknownReason)
	require.Contains(t, updated.Message, "unknown release")
}

// TestInput_credential: a credential that does not exist holds no pool here: the machines of the pool
// wait for it, and report it. It reaches machines without replacing one.
func TestInput_credential(t *testing.T) {
	w := newWorld(t, nil)
	w.reconcile(t)
	server, workers := w.deployment(t, "one-server"), w.deployment(t, "one-workers")
	w.cluster.Spec.RKEConfig.MachinePools[1].CloudCredentialSecretName = "elsewhere:missing"
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	w.reconcile(t)
	testkit.ExpectCondition(t, w.cluster, provv1.RKEClusterCondition, metav1.ConditionTrue, provv1.RenderedReason)
	now := w.deployment(t, "one-workers")
	require.Equal(t, "elsewhere:missing", now.Spec.Template.Annotations[rkev1.CredentialAnnotation])
	require.Equal(t, workers.Spec.Template.Spec, now.Spec.Template.Spec)
	require.Equal(t, server.Generation, w.deployment(t, "one-server").Generation)
}

// TestInput_deletion: a deletion begins at once, whatever the Cluster waits for.
func TestInput_deletion(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, w *world){
		"before anything is rendered": func(*testing.T, *world) {},
		"during the creation":         func(t *testing.T, w *world) { w.reconcile(t) },
		"during an update": func(t *testing.T, w *world) {
			w.reconcile(t)
			config := testkit.ExpectExists(t, w.client, w.config("workers", ""))
			config.Object["size"] = "s-4vcpu-8gb"
			require.NoError(t, w.client.Update(t.Context(), config))
			w.reconcile(t)
		},
		"while a replacement waits": func(t *testing.T, w *world) {
			w.reconcile(t)
			w.cluster.Spec.RKEConfig.MachineReplacement = provv1.ReplaceNever
			require.NoError(t, w.client.Update(t.Context(), w.cluster))
			w.reconcile(t)
		},
		"while a change is held": func(t *testing.T, w *world) {
			w.reconcile(t)
			w.cluster.Spec.RKEConfig.MachinePools = w.cluster.Spec.RKEConfig.MachinePools[1:]
			require.NoError(t, w.client.Update(t.Context(), w.cluster))
			w.reconcile(t)
		},
		"while the specification is invalid": func(t *testing.T, w *world) {
			w.reconcile(t)
			w.cluster.Spec.RKEConfig.ChartValues = rkev1.Config{"Not a name": {Raw: []byte("{}")}}
			require.NoError(t, w.client.Update(t.Context(), w.cluster))
			w.reconcile(t)
			testkit.ExpectCondition(t, w.cluster, provv1.RKEClusterCondition, metav1.ConditionFalse, rkev1.ConfigInvalidReason)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *provv1.Cluster) { c.Finalizers = []string{provv1.ClusterFinalizer} })
			before(t, w)
			cluster := &clusterv1.Cluster{ObjectMeta: w.named("one")}
			created := w.client.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster) == nil
			if created {
				cluster.Finalizers = []string{"test/held"}
				require.NoError(t, w.client.Update(t.Context(), cluster))
			}
			require.NoError(t, w.client.Delete(t.Context(), w.cluster))
			testkit.ExpectReconciled(t, w.r, w.cluster)
			if !created {
				testkit.ExpectNotFound(t, w.client, w.cluster)
				return
			}
			require.NotNil(t, testkit.ExpectExists(t, w.client, cluster).DeletionTimestamp)
			testkit.ExpectCondition(t, testkit.ExpectExists(t, w.client, w.cluster), provv1.ReadyCondition, metav1.ConditionFalse, provv1.DeletingReason)
		})
	}
}
