package command_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/cmd/drover/forecast"
	"github.com/drover-project/drover/cmd/drover/listing"
	"github.com/drover-project/drover/controllers/provisioningcluster"
)

const shopManifest = `
apiVersion: rke-machine-config.cattle.io/v1
kind: DigitaloceanConfig
metadata: {name: server}
size: s-1vcpu-2gb
---
apiVersion: rke-machine-config.cattle.io/v1
kind: DigitaloceanConfig
metadata: {name: web}
size: s-1vcpu-1gb
accessToken: canary-token
---
apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata: {name: shop}
spec:
  kubernetesVersion: v1.36.3+k3s1
  rkeConfig:
    machineGlobalConfig: {kubelet-arg: [max-pods=110]}
    machinePools:
    - {name: pool1, etcdRole: true, controlPlaneRole: true, machineConfigRef: {kind: DigitaloceanConfig, name: server}}
    - {name: web, quantity: 2, workerRole: true, machineConfigRef: {kind: DigitaloceanConfig, name: web}}
`

// render reconciles the Cluster shop until its objects exist.
func (c *cluster) render(t *testing.T) {
	t.Helper()
	reconciler := provisioningcluster.New(provisioningcluster.Options{Client: c.Client, Reader: c.Client})
	for range 4 {
		_, err := reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: c.namespace, Name: "shop"}})
		require.NoError(t, err)
	}
}

// file writes a manifest.
func file(t *testing.T, manifest string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "shop.yaml")
	require.NoError(t, os.WriteFile(name, []byte(manifest), 0o600))
	return name
}

// withShop applies the manifest and renders it; two workers exist.
func withShop(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t)
	for document := range strings.SplitSeq(shopManifest, "---\n") {
		c.apply(t, document)
	}
	c.render(t)
	for _, pool := range []string{"pool1", "web"} {
		role := map[string]string{"pool1": "rke.cattle.io/etcd-role: 'true', rke.cattle.io/control-plane-role: 'true'", "web": "rke.cattle.io/worker-role: 'true'"}[pool]
		c.apply(t, "{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {name: shop-"+pool+"-a, labels: {cluster.x-k8s.io/cluster-name: shop, "+role+"}}, "+
			"spec: {clusterName: shop, bootstrap: {dataSecretName: boot}, infrastructureRef: {apiGroup: rke-machine.cattle.io, kind: DigitaloceanMachine, name: shop-"+pool+"-a}}}")
	}
	return c
}

func TestPlan_created(t *testing.T) {
	c := newCluster(t)
	r := c.drover(t, "plan", "-f", file(t, shopManifest), "--exit-code")
	require.Equal(t, 3, r.code, r.errOut)
	for _, line := range []string{"/shop (provisioning.cattle.io) does not exist yet\n", "  Pool web: 2 machines are created.\n", "  The API server accepts the change.\n"} {
		require.Contains(t, r.out, line)
	}
	require.Error(t, c.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: "shop"}, &provv1.Cluster{}), "a plan creates nothing")
}

func TestPlan(t *testing.T) {
	c := withShop(t)
	plan := func(t *testing.T, pairs ...string) result {
		t.Helper()
		return c.drover(t, "plan", "-f", file(t, strings.NewReplacer(pairs...).Replace(shopManifest)), "--exit-code")
	}
	t.Run("nothing", func(t *testing.T) {
		r := plan(t)
		require.Zero(t, r.code, r.errOut+r.out)
		require.Contains(t, r.out, "\nNothing changes.\n")
		r = c.drover(t, "plan", "cluster/shop", "--exit-code")
		require.Zero(t, r.code, r.errOut+r.out)
		require.Contains(t, r.out, "\nNothing changes.\n")
	})
	t.Run("a field written as its default", func(t *testing.T) {
		r := plan(t, "accessToken: canary-token", "accessToken: canary-token\nregion: nyc3")
		require.Zero(t, r.code, r.errOut+r.out)
	})
	t.Run("an option", func(t *testing.T) {
		r := plan(t, "s-1vcpu-1gb", "s-4vcpu-8gb", "canary-token", "canary-other")
		require.Equal(t, 4, r.code, r.errOut+r.out)
		require.Contains(t, r.out, "Pool web: 2 machines are replaced, because of: accessToken, size from s-1vcpu-1gb to s-4vcpu-8gb. ")
		require.NotContains(t, r.out+r.errOut, "canary")
	})
	t.Run("an option, in a file with a Config only", func(t *testing.T) {
		r := c.drover(t, "plan", "-f", file(t, strings.Replace(strings.Split(shopManifest, "---\n")[1], "s-1vcpu-1gb", "s-4vcpu-8gb", 1)))
		require.Zero(t, r.code, r.errOut)
		require.Contains(t, r.out, "Pool web: 2 machines are replaced, because of: size from s-1vcpu-1gb to s-4vcpu-8gb. ")
	})
	t.Run("the configuration, as JSON", func(t *testing.T) {
		out := c.ok(t, "plan", "-f", file(t, strings.Replace(shopManifest, "max-pods=110", "max-pods=220", 1)), "-o", "json")
		var list listing.List[forecast.Plan]
		require.NoError(t, json.Unmarshal([]byte(out), &list))
		require.Len(t, list.Items, 1)
		require.Equal(t, []string{"shop-pool1-a", "shop-web-a"}, list.Items[0].Restarted)
		require.Equal(t, forecast.InPlace, list.Items[0].Change)
	})
	t.Run("a pool renamed", func(t *testing.T) {
		r := plan(t, "name: web, quantity", "name: www, quantity")
		require.Equal(t, 4, r.code)
		require.Contains(t, r.out, "Pool www: 2 machines are created.\n  Pool web: 2 machines are deleted.\n")
	})
	t.Run("rejected", func(t *testing.T) {
		r := plan(t, "quantity: 2", "quantity: -1")
		require.Equal(t, 1, r.code)
		require.Contains(t, r.out, "  Rejected: Cluster shop: ")
	})
	t.Run("an unknown field", func(t *testing.T) {
		r := plan(t, "quantity: 2", "quantities: 2")
		require.Equal(t, 1, r.code)
		require.Contains(t, r.out+r.errOut, "quantities")
	})
}

func TestPlan_approve(t *testing.T) {
	c := withShop(t)
	r := c.drover(t, "plan", "cluster/shop", "--approve")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "no replacement of machines of cluster shop waits for an approval")

	cluster := &provv1.Cluster{}
	key := client.ObjectKey{Namespace: c.namespace, Name: "shop"}
	require.NoError(t, c.Get(t.Context(), key, cluster))
	cluster.Spec.RKEConfig.MachineReplacement = provv1.ReplaceOnApproval
	require.NoError(t, c.Update(t.Context(), cluster))
	config := &unstructured.Unstructured{}
	config.SetAPIVersion("rke-machine-config.cattle.io/v1")
	config.SetKind("DigitaloceanConfig")
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: "web"}, config))
	config.Object["size"] = "s-4vcpu-8gb"
	require.NoError(t, c.Update(t.Context(), config))
	c.render(t)
	r = c.drover(t, "plan", "cluster/shop", "--exit-code")
	require.Equal(t, 3, r.code, "nothing is replaced before the approval")
	require.Contains(t, r.out, "2 machines are replaced after your approval")
	require.NoError(t, c.Get(t.Context(), key, cluster))
	require.Contains(t, r.out, "--approve (ID "+cluster.Status.PendingReplacement.ID+")")

	c.ok(t, "plan", "cluster/shop", "--approve")
	c.render(t)
	require.NoError(t, c.Get(t.Context(), key, cluster))
	require.Nil(t, cluster.Status.PendingReplacement)
}

// TestPlan_rights: a user who may only read the objects of the namespace gets the same plan.
func TestPlan_rights(t *testing.T) {
	c := withShop(t)
	read := `resources: ["*"], verbs: [get, list]}`
	c.grant(t, "reader", `{apiGroups: [provisioning.cattle.io], `+read, `{apiGroups: [rke-machine-config.cattle.io], `+read, `{apiGroups: [rke-machine.cattle.io], `+read,
		`{apiGroups: [cluster.x-k8s.io], `+read, `{apiGroups: [rke.cattle.io], `+read)
	for name, change := range map[string][]string{
		"a default": {"accessToken: canary-token", "accessToken: canary-token\nregion: nyc3"}, "an option": {"s-1vcpu-1gb", "s-4vcpu-8gb"}, "the configuration": {"max-pods=110", "max-pods=220"},
	} {
		t.Run(name, func(t *testing.T) {
			manifest := file(t, strings.NewReplacer(change...).Replace(shopManifest))
			all, few := c.drover(t, "plan", "-f", manifest, "--exit-code"), c.drover(t, "plan", "-f", manifest, "--exit-code", "--as", "reader")
			require.Equal(t, all.code, few.code, few.errOut)
			whole, _, _ := strings.Cut(all.out, "\nAdmission\n")
			part, rest, _ := strings.Cut(few.out, "\nAdmission\n")
			require.Equal(t, whole, part)
			require.Contains(t, rest, "Not checked: you lack the right to update digitaloceanconfigs.rke-machine-config.cattle.io in namespace "+c.namespace)
		})
	}
}
