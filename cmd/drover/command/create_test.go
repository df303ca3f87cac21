package command_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/releases"
)

// activeDriver is the NodeDriver of the Configs that the tests install.
const activeDriver = `{apiVersion: management.cattle.io/v3, kind: NodeDriver, metadata: {name: digitalocean}, spec: {url: "local://", active: true},
  status: {machineKind: DigitaloceanMachine, fields: 14, conditions: [{type: Ready, status: "True", reason: Ready, message: "", lastTransitionTime: "2026-03-01T11:00:00Z"}]}}`

// there reports which objects of the Cluster shop exist.
func (c *cluster) there(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, kind := range []string{"rke-machine-config.cattle.io/v1/DigitaloceanConfig", "provisioning.cattle.io/v1/Cluster"} {
		parts := strings.Split(kind, "/")
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(parts[0] + "/" + parts[1])
		list.SetKind(parts[2] + "List")
		require.NoError(t, c.List(t.Context(), list, client.InNamespace(c.namespace)))
		for _, item := range list.Items {
			found = append(found, item.GetName())
		}
	}
	return found
}

func TestCreateCluster(t *testing.T) {
	c := newCluster(t)
	c.apply(t, activeDriver)
	args := []string{"create", "cluster", "shop", "--driver", "digitalocean", "--credential", "do-token", "--set", "region=fra1", "--set", "worker.size=s-4vcpu-8gb", "--pool", "server=server", "--pool", "worker=worker:3"}
	printed := c.drover(t, append(args, "--dry-run")...)
	require.Zero(t, printed.code, printed.errOut)
	require.Equal(t, "# the Secret do-token in namespace "+c.namespace+" does not exist yet; the cluster's machines wait for it\n", printed.errOut)
	require.Empty(t, c.there(t))
	c.secret(t, "do-token", map[string]string{"accessToken": canary})
	r := c.drover(t, args...)
	require.Zero(t, r.code, r.errOut)
	require.Equal(t, "digitaloceanconfig.rke-machine-config.cattle.io/shop-server: created\ndigitaloceanconfig.rke-machine-config.cattle.io/shop-worker: created\ncluster.provisioning.cattle.io/shop: created\n", r.out)
	require.Contains(t, r.errOut, "wait cluster/shop --for ready -n "+c.namespace)

	for text := range strings.SplitSeq(printed.out, "---\n") {
		want := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(text), &want.Object))
		got := c.read(t, want)
		require.Subset(t, got.Object["metadata"], want.Object["metadata"])
		if want.GetKind() == "Cluster" {
			require.Equal(t, "do-token", want.Object["spec"].(map[string]any)["cloudCredentialSecretName"])
			require.Equal(t, want.Object["spec"].(map[string]any)["kubernetesVersion"], got.Object["spec"].(map[string]any)["kubernetesVersion"])
		} else {
			require.Equal(t, "fra1", got.Object["region"])
		}
		t.Cleanup(func() { _ = c.Delete(t.Context(), got) })
	}
	catalogue, err := releases.Default()
	require.NoError(t, err)
	require.Contains(t, printed.out, "kubernetesVersion: "+catalogue.Newest(releases.K3s)+"\n")
	require.Contains(t, c.ok(t, append(args, "--dry-run", "--kubernetes-version", "rke2")...), "kubernetesVersion: "+catalogue.Newest(releases.RKE2)+"\n")

	require.Contains(t, requireError(t, c.drover(t, args...)), `nothing was created: creating DigitaloceanConfig `+c.namespace+`/shop-server: digitaloceanconfigs.rke-machine-config.cattle.io "shop-server" already exists`)
	require.Len(t, c.there(t), 3)
}

// TestCreateCluster_wrong: nothing is created.
func TestCreateCluster_wrong(t *testing.T) {
	c := newCluster(t)
	c.apply(t, activeDriver)
	c.apply(t, `{apiVersion: management.cattle.io/v3, kind: NodeDriver, metadata: {name: idle}, spec: {url: "local://", active: false}}`)
	c.apply(t, `{apiVersion: management.cattle.io/v3, kind: NodeDriver, metadata: {name: fresh}, spec: {url: "local://", active: true}}`)
	for _, args := range [][]string{
		{"shop"}, {"--driver", "digitalocean"}, {"shop", "--driver", "digitalocean", "--kubernetes-version", "1.36"}, {"shop", "--driver", "digitalocean", "--pool", "x"},
	} {
		r := c.drover(t, append([]string{"create", "cluster"}, args...)...)
		require.Equal(t, 2, r.code, args)
	}
	require.Equal(t, 2, c.drover(t, "create", "machine").code)
	for args, want := range map[string]string{
		"shop --driver none": `no driver is called "none" (see 'drover drivers')`,
		"shop --driver idle": `driver idle is not active: see 'drover why driver/idle'`, "shop --driver fresh": `driver fresh is not ready`,
		"shop --driver digitalocean --set regoin=a":              `driver digitalocean has no option "regoin" (did you mean "region"?)`,
		"shop --driver digitalocean --set accessToken=" + canary: "option accessToken is secret and is not taken from a flag",
		"shop --driver digitalocean --set sshPort=x":             "option sshPort takes a whole number",
		"a.b --driver digitalocean":                              "nothing was created: creating Cluster " + c.namespace + "/a.b: ",
		"shop --driver digitalocean --credential a:b:c":          "nothing was created: ",
		"shop --driver digitalocean --credential a/b":            "--credential: ",
		"sh/op --driver digitalocean":                            `"sh/op" is not a valid name`,
	} {
		r := c.drover(t, append([]string{"create", "cluster"}, strings.Fields(args)...)...)
		require.NotContains(t, r.errOut+r.out, canary)
		require.Equal(t, 1, r.code, args)
		require.Contains(t, r.errOut, want)
		require.Empty(t, c.there(t), args)
	}
	r := c.drover(t, "create", "cluster", "shop", "--driver", "digitalocean", "--kubernetes-version", "v1.99.0+k3s1", "--dry-run")
	require.Zero(t, r.code)
	require.Contains(t, r.errOut, "unknown release")
	require.Contains(t, r.errOut, "driver digitalocean usually needs a credential: name its Secret with --credential")
}

// TestCreateCluster_half: if the Cluster cannot be created after its Configs, they are deleted again.
func TestCreateCluster_half(t *testing.T) {
	c := newCluster(t)
	c.apply(t, activeDriver)
	fails := c.through(t, func(out http.ResponseWriter, r *http.Request) bool {
		return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/clusters") && r.URL.Query().Get("dryRun") == "" && status(out, http.StatusForbidden, "Forbidden", "quota")
	})
	require.Equal(t, "nothing was created: creating Cluster "+c.namespace+"/shop: quota", lastLine(t, fails.drover(t, "create", "cluster", "shop", "--driver", "digitalocean")))
	require.Empty(t, c.there(t))

	stuck := c.through(t, func(out http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete {
			return status(out, http.StatusForbidden, "Forbidden", "no")
		}
		return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/clusters") && r.URL.Query().Get("dryRun") == "" && status(out, http.StatusForbidden, "Forbidden", "quota")
	})
	require.Equal(t, "creating Cluster "+c.namespace+"/shop: quota; these objects were created before and could not be deleted: "+
		"digitaloceanconfig.rke-machine-config.cattle.io/shop-worker, digitaloceanconfig.rke-machine-config.cattle.io/shop-server", lastLine(t, stuck.drover(t, "create", "cluster", "shop", "--driver", "digitalocean")))
	require.Len(t, c.there(t), 2)
}

// TestCreateCluster_tenant: a user without access to NodeDrivers, schemas of kinds and Secrets can create a Cluster.
func TestCreateCluster_tenant(t *testing.T) {
	c := newCluster(t)
	c.grant(t, "tenant", `{apiGroups: [provisioning.cattle.io], resources: [clusters], verbs: [create]}`, `{apiGroups: [rke-machine-config.cattle.io], resources: ["*"], verbs: [create]}`)
	r := c.drover(t, "create", "cluster", "shop", "--driver", "digitalocean", "--credential", "team:do-token", "--as", "tenant")
	require.Zero(t, r.code, r.errOut)
	require.Len(t, c.there(t), 3)
	require.Equal(t, `no active driver is called "none"`, requireError(t, c.drover(t, "create", "cluster", "shop2", "--driver", "none", "--as", "tenant")))
}

func TestCreateCluster_completion(t *testing.T) {
	c := newCluster(t)
	offered, _ := completions(c.drover(t, "__complete", "create", "cluster", "shop", "--driver", ""))
	require.Equal(t, []string{"digitalocean", "generic"}, offered)
	offered, _ = completions(c.drover(t, "__complete", "create", "cluster", "shop", "--driver", "digitalocean", "--set", "reg"))
	require.Equal(t, []string{"region="}, offered)
	offered, _ = completions(c.drover(t, "__complete", "create", "cluster", "shop", "--kubernetes-version", "v1.36.3+k"))
	require.Equal(t, []string{"v1.36.3+k3s1"}, offered)
}
