package command_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/cmd/drover/explain"
)

// subject is what drover took a name for.
func (c *cluster) subject(t *testing.T, name string) string {
	t.Helper()
	var report explain.Report
	require.NoError(t, json.Unmarshal([]byte(c.ok(t, "why", name, "-o", "json")), &report))
	return strings.ReplaceAll(report.Subject, c.namespace, "shop")
}

const poolTemplate = `
  clusterName: store
  replicas: 3
  selector: {matchLabels: {pool: x}}
  template: {metadata: {labels: {pool: x}}, spec: {clusterName: store, bootstrap: {dataSecretName: boot}, infrastructureRef: {apiGroup: rke-machine.cattle.io, kind: GenericMachineTemplate, name: x}}}
`

// TestWhyTakesNames: what a word means, in every form it may be written.
func TestWhyTakesNames(t *testing.T) {
	c := newCluster(t)
	c.apply(t, runningMachine)
	c.apply(t, capiMachine)
	c.apply(t, strings.Replace(waitingMachine, "name: db-1", "name: pool", 1))
	c.apply(t, "apiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineDeployment\nmetadata: {name: pool}\nspec:"+poolTemplate)
	c.apply(t, "apiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineSet\nmetadata: {name: pool-set}\nspec:"+poolTemplate)
	c.apply(t, `{apiVersion: management.cattle.io/v3, kind: NodeDriver, metadata: {name: why-nd}, spec: {displayName: whycloud, url: "https://d.example/1", active: false}}`)
	c.apply(t, `{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: one}, spec: {infrastructureRef: {apiGroup: rke.cattle.io, kind: RKECluster, name: one}}}`)
	c.apply(t, `{apiVersion: rke.cattle.io/v1, kind: RKEControlPlane, metadata: {name: one-cp}, spec: {kubernetesVersion: v1.36.3+k3s1}}`)
	for want, names := range map[string][]string{
		"Cluster shop/one":               {"cluster/one", "one", "clusters.cluster.x-k8s.io/one"},
		"RKEControlPlane shop/one-cp":    {"rkecontrolplane/one-cp", "one-cp", "rcp/one-cp", "RKEControlPlanes.rke.cattle.io/one-cp"},
		"DigitaloceanMachine shop/web-1": {"web-1", "pool-abc", "machine/pool-abc", "ma/pool-abc", "digitaloceanmachine/web-1", "digitaloceanmachines.rke-machine.cattle.io/web-1"},
		"GenericMachine shop/pool":       {"pool", "genericmachine/pool"},
		"MachineDeployment shop/pool":    {"md/pool", "MachineDeployment/pool", "machinedeployments/pool", "machinedeployment.cluster.x-k8s.io/pool"},
		"MachineSet shop/pool-set":       {"ms/pool-set", "pool-set", "machineset.cluster.x-k8s.io/pool-set"},
		"NodeDriver why-nd":              {"driver/why-nd", "why-nd", "whycloud", "nd/whycloud", "NodeDrivers.management.cattle.io/why-nd", "driver/WhyCloud"},
	} {
		for _, name := range names {
			require.Equal(t, want, c.subject(t, name), name)
		}
	}
	require.Contains(t, requireError(t, c.drover(t, "why", "cluster/none")), `no Cluster "none" in namespace "`+c.namespace+`" (see 'kubectl get clusters.cluster.x-k8s.io -A'), and nothing with its label is left`)
	unknown := c.drover(t, "why", "car/one")
	require.Equal(t, 2, unknown.code)
	require.Contains(t, unknown.errOut, "why also takes cluster, rkecontrolplane (rcp), machinedeployment (md), machineset (ms), driver; see 'drover why --help'\n")
	require.Contains(t, requireError(t, c.drover(t, "why", "rcp/none")), `no RKEControlPlane "none" in namespace`)
	require.Contains(t, c.ok(t, "__complete", "why", "cluster/o"), "cluster/one\n")
	for typed, offered := range map[string]string{"rkecontrolplane/o": "rkecontrolplane/one-cp\n:4\n", "rcp/o": "rcp/one-cp\n:4\n", "cl": "cluster/\n:6\n",
		"cluster.cluster.x-k8s.io/": "cluster.cluster.x-k8s.io/one\n:4\n", "md/": "md/pool\n:4\n", "ms/": "ms/pool-set\n:4\n"} {
		require.Equal(t, offered, c.ok(t, "__complete", "why", typed))
	}
}

// TestWhyOfAGoneCluster: what has its label is told of, and no value of a Secret.
func TestWhyOfAGoneCluster(t *testing.T) {
	c := newCluster(t)
	c.apply(t, runningMachine)
	c.apply(t, strings.Replace(capiMachine, "name: pool-abc", "name: pool-abc, labels: {cluster.x-k8s.io/cluster-name: store}", 1))
	c.apply(t, `{apiVersion: v1, kind: Secret, metadata: {name: store-ca, labels: {cluster.x-k8s.io/cluster-name: store}}, stringData: {tls.key: `+canary+`}}`)
	for _, name := range []string{"cluster/store", "store"} {
		out := c.ok(t, "why", name)
		require.Regexp(t, `(?s)^Cluster `+c.namespace+`/store  Gone.*1 infra machines, 1 CAPI Machines, 1 Secrets.*DigitaloceanMachine +web-1 .*Machine +pool-abc.*Secret +store-ca`, out)
		require.Contains(t, out, "why web-1 -n "+c.namespace)
		require.NotContains(t, out, canary)
	}
	c.grant(t, "guest", `{apiGroups: [cluster.x-k8s.io], resources: [clusters], verbs: [get]}`)
	require.Contains(t, requireError(t, c.drover(t, "--as", "guest", "why", "cluster/store")), "its remains cannot be determined: ")
}

// TestWhyOfAControlPlane: with its Cluster and that one's machines, and of a machine of it.
func TestWhyOfAControlPlane(t *testing.T) {
	c := newCluster(t)
	c.apply(t, runningMachine)
	c.apply(t, strings.Replace(capiMachine, "name: pool-abc", "name: pool-abc, labels: {cluster.x-k8s.io/cluster-name: store}", 1))
	c.apply(t, `{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: store}, spec: {infrastructureRef: {apiGroup: rke.cattle.io, kind: RKECluster, name: store},
  controlPlaneRef: {apiGroup: rke.cattle.io, kind: RKEControlPlane, name: store-cp}}}`)
	const plane = `{apiVersion: rke.cattle.io/v1, kind: RKEControlPlane, metadata: {name: store-cp}, spec: {kubernetesVersion: v1.36.3+k3s1, clusterName: store}, status: {conditions: [
  {type: Reconciled, status: "False", reason: AuthorityInvalid, message: the Secret store-ca cannot be used, lastTransitionTime: "2026-03-01T11:00:00Z"}]}}`
	c.apply(t, plane)
	c.apply(t, strings.Replace(plane, "store-cp", "second", 1))
	require.Regexp(t, `(?s)WHY\n  the Secret store-ca cannot be used\n.* Cluster +store\n.* Machine +pool-abc`, c.ok(t, "why", "rcp/store-cp"))
	require.Contains(t, c.ok(t, "why", "web-1"), "the control plane store-cp: the Secret store-ca cannot be used")
	require.NotContains(t, c.ok(t, "why", "rcp/second"), "RELATED", "which the Cluster does not name")
}

// TestWhyOfAPoolThatIsGone: only what is said of it, and not what a machine of the name has left.
func TestWhyOfAPoolThatIsGone(t *testing.T) {
	c := newCluster(t)
	c.secret(t, "pool-machine-state", map[string]string{"journal.json": `{"operation":"create","attempt":1,"phase":"Created","instanceName":"pool"}`})
	require.Contains(t, requireError(t, c.drover(t, "why", "md/pool")), `no MachineDeployment or MachineSet "pool"`)
	for kind, says := range map[string]string{"MachineDeployment": "it is scaled", "Machine": "it is made"} {
		c.apply(t, `{apiVersion: v1, kind: Event, metadata: {name: `+strings.ToLower(kind)+`}, involvedObject: {apiVersion: cluster.x-k8s.io/v1beta2, kind: `+kind+
			`, name: pool, namespace: `+c.namespace+`}, reason: Told, message: `+says+`, type: Normal}`)
	}
	out := c.ok(t, "why", "md/pool")
	require.Contains(t, out, "No MachineDeployment of this name exists")
	require.Contains(t, out, "it is scaled")
	require.NotContains(t, out, "it is made")
	require.NotContains(t, out, "pool-machine-state")
}

// TestWhyOfOthers: a CAPI Machine of another provider is none of Drover's, and that is said.
func TestWhyOfOthers(t *testing.T) {
	c := newCluster(t)
	c.apply(t, strings.NewReplacer("pool-abc", "car", "rke-machine.cattle.io", "infrastructure.example", "DigitaloceanMachine", "CarMachine").Replace(capiMachine))
	require.Contains(t, c.ok(t, "why", "car"), "which Drover does not manage")
	require.Equal(t, "the CAPI Machine car has no machine of Drover (see 'drover why car')", requireError(t, c.drover(t, "logs", "car")))
	require.Equal(t, "the CAPI Machine car has no machine of Drover (see 'drover why machine/car')", requireError(t, c.drover(t, "retry", "machine/car")))
}

// TestWhyOfAMachineThatNeverWas: things of other kinds that have the name are no trace of a machine.
func TestWhyOfAMachineThatNeverWas(t *testing.T) {
	c := newCluster(t)
	c.apply(t, `{apiVersion: v1, kind: Event, metadata: {name: e}, involvedObject: {apiVersion: apps/v1, kind: Deployment, name: shop-front, namespace: `+c.namespace+`}, reason: Scaled, message: up, type: Normal}`)
	require.Equal(t, `no machine "shop-front" in namespace "`+c.namespace+`" (see 'drover get -A')`, requireError(t, c.drover(t, "why", "shop-front")))
	c.apply(t, `{apiVersion: v1, kind: Event, metadata: {name: f}, involvedObject: {apiVersion: rke-machine.cattle.io/v1, kind: GenericMachine, name: shop-front, namespace: `+c.namespace+`}, reason: Removed, message: the server is gone, type: Normal}`)
	out := c.ok(t, "why", "shop-front")
	require.Contains(t, out, "the server is gone")
	require.NotContains(t, out, "Scaled")
}

// TestWhyOfAnotherKind: what is left of a machine that goes on is not told of as if it were gone.
func TestWhyOfAnotherKind(t *testing.T) {
	c := newCluster(t)
	c.apply(t, runningMachine)
	c.apply(t, `{apiVersion: v1, kind: Secret, metadata: {name: web-1-machine-state}, type: Opaque}`)
	require.Equal(t, `no machine "genericmachine/web-1" in namespace "`+c.namespace+`"; the name belongs to digitaloceanmachine.rke-machine.cattle.io/web-1`,
		requireError(t, c.drover(t, "why", "genericmachine/web-1")))
}

// TestWhyWithoutRights: what may not be read is not said to be gone.
func TestWhyWithoutRights(t *testing.T) {
	c := newCluster(t)
	c.apply(t, runningMachine)
	c.secret(t, "web-1-machine-state", map[string]string{"journal.json": `{"operation":"create","attempt":1,"phase":"Created","instanceName":"web-1"}`})
	c.grant(t, "clerk", `{apiGroups: [""], resources: [secrets, events], verbs: [get, list]}`)
	r := c.drover(t, "--as", "clerk", "why", "web-1")
	require.Zero(t, r.code, r.errOut)
	require.NotContains(t, r.out, "Gone")
	require.NotContains(t, r.out, "No machine of this name exists")
	require.Contains(t, strings.Join(strings.Fields(r.out), " "), `Drover cannot find out whether a machine of this name exists: you may not get or list: `)

	c.apply(t, strings.Replace(capiMachine, "name: web-1", "name: web-9", 1))
	c.grant(t, "owner", `{apiGroups: [cluster.x-k8s.io], resources: [machines], verbs: [get]}`, `{apiGroups: [rke-machine.cattle.io], resources: [digitaloceanmachines, genericmachines], verbs: [get]}`)
	r = c.drover(t, "--as", "owner", "why", "pool-abc")
	require.Zero(t, r.code, r.errOut)
	require.NotContains(t, r.out, "no active driver")
	require.Contains(t, strings.Join(strings.Fields(r.out), " "), "you may not read NodeDrivers")
}

// TestWhyOfABrokenState: a Secret that cannot be read is told in the report, and the report stands.
func TestWhyOfABrokenState(t *testing.T) {
	c := newCluster(t)
	c.apply(t, waitingMachine)
	c.secret(t, "db-1-machine-state", map[string]string{"journal.json": "\x1b[31m{", "result.json": "[]"})
	out := c.ok(t, "why", "db-1")
	require.NotContains(t, out, "\x1b")
	require.Contains(t, out, "COULD NOT BE READ")
	require.Contains(t, out, "Secret db-1-machine-state")
}

func TestRetryTellsWhatItDid(t *testing.T) {
	c := newCluster(t)
	c.apply(t, waitingMachine)
	require.Equal(t, "genericmachine.rke-machine.cattle.io/db-1: another attempt was asked for; follow it with 'drover logs db-1 -n "+c.namespace+" -f'\n", c.ok(t, "retry", "genericm/db-1"))
	c.grant(t, "viewer", `{apiGroups: [rke-machine.cattle.io], resources: ["*"], verbs: [get]}`)
	require.Equal(t, "annotating GenericMachine "+c.namespace+`/db-1: genericmachines.rke-machine.cattle.io "db-1" is forbidden: User "viewer" cannot patch resource "genericmachines" in API group "rke-machine.cattle.io" in the namespace "`+c.namespace+`"`,
		requireError(t, c.drover(t, "--as", "viewer", "retry", "db-1")))
}

// TestVersionWithoutACluster: drover's own version is printed all the same, and the document stays valid.
func TestVersionWithoutACluster(t *testing.T) {
	path := kubeconfig(t, "http://127.0.0.1:1", "")
	r := execute(t, emptyOptions, "", "--kubeconfig", path, "version", "-o", "json")
	require.Zero(t, r.code)
	require.Equal(t, "# the version of Kubernetes is unknown: asking the API: the API server http://127.0.0.1:1 cannot be reached: connection refused\n", r.errOut)
	var v map[string]string
	require.NoError(t, json.Unmarshal([]byte(r.out), &v))
	require.NotContains(t, v, "kubernetes")
}

// TestWhyNamesTheCluster: what is copied from the advice must not reach another cluster than the one that was asked.
func TestWhyNamesTheCluster(t *testing.T) {
	c := newCluster(t)
	c.apply(t, waitingMachine)
	at := " --kubeconfig " + c.kubeconfig
	out := c.ok(t, "why", "db-1")
	require.Contains(t, out, "kubectl"+at+" -n ")
	require.NotContains(t, strings.ReplaceAll(out, "kubectl"+at, ""), "kubectl")
}
