package provisioningcluster_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/controllers/provisioningcluster"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/testkit"
)

// TestReconcile_otherTenant: a Cluster reads and changes nothing in another namespace, also if it names it.
func TestReconcile_otherTenant(t *testing.T) {
	theirs := newWorld(t, nil)
	secret := theirs.config("theirs", "s-secret")
	require.NoError(t, theirs.client.Create(t.Context(), secret))
	w := newWorld(t, func(c *provv1.Cluster) {
		c.Spec.RKEConfig.MachinePools[1].MachineConfigRef = provv1.ConfigReference{APIVersion: rkev1.MachineConfigGroupVersion.String(), Kind: "DigitaloceanConfig",
			Name: "theirs", Namespace: theirs.cluster.Namespace, UID: string(secret.GetUID())}
		c.Spec.RKEConfig.MachinePools[0].CloudCredentialSecretName = theirs.cluster.Namespace + ":digitalocean"
	})
	w.reconcile(t)
	testkit.ExpectCondition(t, w.cluster, provv1.UpdatedCondition, metav1.ConditionFalse, provv1.ConfigMissingReason)
	require.Len(t, w.deployments(t), 1)
	require.Empty(t, testkit.ExpectExists(t, theirs.client, theirs.config("theirs", "")).GetOwnerReferences())
	// The machine's controller checks whether the credential is shared with the namespace.
	require.Equal(t, theirs.cluster.Namespace+":digitalocean", w.deployment(t, "one-server").Spec.Template.Annotations[rkev1.CredentialAnnotation])
}

// TestReconcile_forged: objects of the needed names that claim to be the Cluster's by labels and
// annotations, with another owner, are not changed.
func TestReconcile_forged(t *testing.T) {
	forge := func(obj client.Object) {
		obj.SetLabels(map[string]string{rkev1.ClusterNameLabel: "one", clusterv1.ClusterNameLabel: "one", rkev1.MachinePoolLabel: "workers"})
		obj.SetAnnotations(map[string]string{apply.HashAnnotation: "0123"})
		obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: provv1.GroupVersion.String(), Kind: "Cluster", Name: "one", UID: "forged", Controller: new(true)}})
	}
	t.Run("a CAPI Cluster", func(t *testing.T) {
		w := newWorld(t, nil)
		forged := &clusterv1.Cluster{ObjectMeta: w.named("one"), Spec: clusterv1.ClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "api.test", Port: 6443}}}
		forge(forged)
		require.NoError(t, w.client.Create(t.Context(), forged))
		w.reconcile(t)
		testkit.ExpectCondition(t, w.cluster, provv1.RKEClusterCondition, metav1.ConditionFalse, provv1.NameTakenReason)
		require.Equal(t, forged.ResourceVersion, testkit.ExpectExists(t, w.client, &clusterv1.Cluster{ObjectMeta: w.named("one")}).ResourceVersion)
		require.Empty(t, w.deployments(t))
		// The deletion of the Cluster leaves it.
		require.NoError(t, w.client.Delete(t.Context(), w.cluster))
		testkit.ExpectReconciled(t, w.r, w.cluster)
		testkit.ExpectNotFound(t, w.client, w.cluster)
		require.Nil(t, testkit.ExpectExists(t, w.client, forged).DeletionTimestamp)
	})
	t.Run("a MachineDeployment", func(t *testing.T) {
		w := newWorld(t, nil)
		forged := &clusterv1.MachineDeployment{ObjectMeta: w.named("one-workers"), Spec: clusterv1.MachineDeploymentSpec{ClusterName: "other",
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Template: clusterv1.MachineTemplateSpec{ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{rkev1.EtcdRoleLabel: "true"}}, Spec: clusterv1.MachineSpec{ClusterName: "other",
				Bootstrap:         clusterv1.Bootstrap{DataSecretName: new("x")},
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "x.test", Kind: "Y", Name: "z"}}}}}
		forge(forged)
		require.NoError(t, w.client.Create(t.Context(), forged))
		w.reconcile(t)
		testkit.ExpectCondition(t, w.cluster, provv1.RKEClusterCondition, metav1.ConditionFalse, provv1.NameTakenReason)
		require.Equal(t, forged.ResourceVersion, w.deployment(t, "one-workers").ResourceVersion)
	})
	t.Run("a Config", func(t *testing.T) {
		w := newWorld(t, nil)
		config := testkit.ExpectExists(t, w.client, w.config("workers", ""))
		forge(config)
		require.NoError(t, w.client.Update(t.Context(), config))
		w.reconcile(t)
		testkit.ExpectCondition(t, w.cluster, provv1.UpdatedCondition, metav1.ConditionFalse, provv1.ConfigTakenReason)
		require.Equal(t, config.GetResourceVersion(), testkit.ExpectExists(t, w.client, config).GetResourceVersion())
		require.Len(t, w.deployments(t), 1)
	})
	t.Run("the annotation of the first rendering", func(t *testing.T) {
		w := newWorld(t, func(c *provv1.Cluster) { c.Annotations = map[string]string{provv1.RenderedAnnotation: "another"} })
		w.reconcile(t)
		require.Equal(t, "one", w.cluster.Annotations[provv1.RenderedAnnotation])
		w.cluster.Annotations = nil
		require.NoError(t, w.client.Update(t.Context(), w.cluster))
		before := w.machinesOf(t, "DigitaloceanMachineTemplate")
		w.reconcile(t)
		require.Equal(t, "one", w.cluster.Annotations[provv1.RenderedAnnotation])
		require.Equal(t, before, w.machinesOf(t, "DigitaloceanMachineTemplate"))
	})
	t.Run("an approval", func(t *testing.T) {
		w := newWorld(t, func(c *provv1.Cluster) {
			c.Spec.RKEConfig.MachineReplacement = provv1.ReplaceOnApproval
			c.Annotations = map[string]string{provv1.ApproveReplacementAnnotation: "*"}
		})
		w.reconcile(t)
		before := w.machinesOf(t, "DigitaloceanMachineTemplate")
		config := testkit.ExpectExists(t, w.client, w.config("workers", ""))
		config.Object["size"] = "s-4vcpu-8gb"
		require.NoError(t, w.client.Update(t.Context(), config))
		w.reconcile(t)
		// The right to edit Configs and MachineDeployments is not the right to approve.
		id := w.cluster.Status.PendingReplacement.ID
		config = testkit.ExpectExists(t, w.client, config)
		config.SetAnnotations(map[string]string{provv1.ApproveReplacementAnnotation: id})
		require.NoError(t, w.client.Update(t.Context(), config))
		deployment := w.deployment(t, "one-workers")
		deployment.Annotations[provv1.ApproveReplacementAnnotation] = id
		deployment.Spec.Template.Annotations[provv1.ApproveReplacementAnnotation] = id
		require.NoError(t, w.client.Update(t.Context(), deployment))
		w.reconcile(t)
		require.Equal(t, before, w.machinesOf(t, "DigitaloceanMachineTemplate"))
		require.Equal(t, id, w.cluster.Status.PendingReplacement.ID)
	})
}

// TestReconcile_manyPools: a Cluster of 1,000 pools is rendered in bounded time, and its status has a
// bounded size, with a next step at the end of each message.
func TestReconcile_manyPools(t *testing.T) {
	w := newWorld(t, func(c *provv1.Cluster) {
		for i := range 998 {
			c.Spec.RKEConfig.MachinePools = append(c.Spec.RKEConfig.MachinePools, provv1.MachinePool{Name: fmt.Sprintf("%s-%03d", strings.Repeat("p", 50), i),
				ControlPlaneRole: true, DisplayName: "pool", DynamicSchemaSpec: "{}", MachineConfigRef: provv1.ConfigReference{Kind: "DigitaloceanConfig", Name: "workers"}})
		}
	})
	w.reconcile(t)
	require.Len(t, w.deployments(t), 2)
	w.expectBounded(t)
	updated := testkit.ExpectCondition(t, w.cluster, provv1.UpdatedCondition, metav1.ConditionFalse, provv1.TierUnsupportedReason)
	require.Regexp(t, "; and [0-9]+ more\n", updated.Message)
	require.Len(t, w.cluster.Status.Pools, 1000)
}

// expectBounded requires a status of bounded size.
func (w *world) expectBounded(t *testing.T) {
	t.Helper()
	for _, condition := range w.cluster.Status.Conditions {
		require.LessOrEqual(t, len(condition.Message), 4<<10, condition.Type)
	}
	text, err := json.Marshal(w.cluster.Status)
	require.NoError(t, err)
	require.Less(t, len(text), 512<<10)
}

// TestReconcile_canary: a secret in a Config or in a credential appears in no status, condition, event or
// metadata, also when its change replaces machines.
func TestReconcile_canary(t *testing.T) {
	const canary = "c4n4ry"
	rollingDriver(t, append([]crdgen.Flag{
		{Name: "rolling-token", Type: crdgen.String, EnvVar: "ROLLING_TOKEN"},
		{Name: "rolling-password", Type: crdgen.String},
		{Name: "rolling-userdata", Type: crdgen.String},
		{Name: "rolling-secret-list", Type: crdgen.StringSlice},
		{Name: "rolling-proxy", Type: crdgen.String},
	}, olderFlags...)...)
	w := newWorld(t, func(c *provv1.Cluster) {
		c.Spec.CloudCredentialSecretName = "cc"
		c.Spec.RKEConfig.MachineReplacement = provv1.ReplaceOnApproval
		for i := range c.Spec.RKEConfig.MachinePools {
			c.Spec.RKEConfig.MachinePools[i].MachineConfigRef = provv1.ConfigReference{Kind: "RollingConfig", Name: c.Spec.RKEConfig.MachinePools[i].Name}
		}
	})
	require.NoError(t, corev1.AddToScheme(w.client.Scheme()))
	require.NoError(t, w.client.Create(t.Context(), &corev1.Secret{ObjectMeta: w.named("cc"), Type: rkev1.CloudCredentialSecretType, StringData: map[string]string{"token": canary + "-0"}}))
	write := func(config map[string]any, generation string) {
		for _, option := range []string{"token", "password", "userdata"} {
			config[option] = canary + generation
		}
		config["secretList"], config["proxy"] = []any{canary + generation}, "http://u:"+canary+generation+"@proxy"
	}
	for _, name := range []string{"server", "workers"} {
		config := w.rolling("RollingConfig", name)
		write(config.Object, "-1")
		require.NoError(t, w.client.Create(t.Context(), config))
	}
	recorder := events.NewFakeRecorder(100)
	w.r = provisioningcluster.New(provisioningcluster.Options{Client: w.client, Reader: w.client, Recorder: recorder})
	clean := func() {
		w.reconcile(t)
		w.reconcile(t)
		for _, obj := range []client.Object{w.cluster, &clusterv1.Cluster{ObjectMeta: w.named("one")}, &rkev1.RKEControlPlane{ObjectMeta: w.named("one")},
			w.deployment(t, "one-server"), w.deployment(t, "one-workers")} {
			text, err := json.Marshal(testkit.ExpectExists(t, w.client, obj))
			require.NoError(t, err)
			require.NotContains(t, string(text), canary)
		}
		for len(recorder.Events) > 0 {
			require.NotContains(t, <-recorder.Events, canary)
		}
	}
	clean()
	w.editConfig(t, func(config map[string]any) { write(config, "-2") })
	clean()
	require.NotNil(t, w.cluster.Status.PendingReplacement)
	require.Equal(t, []string{"password", "proxy", "secretList", "token", "userdata"}, w.cluster.Status.PendingReplacement.Pools[0].Changes)
	testkit.ExpectCondition(t, w.cluster, provv1.UpdatedCondition, metav1.ConditionFalse, provv1.PoolHoldsEtcdReason)
	// An invalid specification is quoted in a condition, and a value in it may be a secret.
	w.cluster.Spec.AgentEnvVars = []rkev1.EnvVar{{Name: "A", Value: canary + strings.Repeat("x", 70<<10)}}
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	w.reconcile(t)
	status, err := json.Marshal(w.cluster.Status)
	require.NoError(t, err)
	require.NotContains(t, string(status), canary)
	testkit.ExpectCondition(t, w.cluster, provv1.RKEClusterCondition, metav1.ConditionFalse, rkev1.ConfigInvalidReason)
}
