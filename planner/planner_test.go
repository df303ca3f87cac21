package planner_test

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/planner"
	"github.com/drover-project/drover/testkit/golden"
)

// everyOption uses all there is.
const everyOption = `
machineGlobalConfig: {cluster-cidr: 10.42.0.0/16, service-cidr: 10.43.0.0/16, kubelet-arg: [max-pods=200], tls-san: [api.example.org], profile: cis,
  audit-policy-file: "kind: Policy\n"}
machineSelectorConfig: [{machineLabelSelector: {matchLabels: {rke.cattle.io/worker-role: 'true'}}, config: {kubelet-arg: [max-pods=60]}}]
machineSelectorFiles: [{fileSources: [{configMap: {name: files, defaultPermissions: '0644', items: [{key: motd, path: /etc/motd, dynamic: true}, {key: conf, path: /etc/x.conf}]}}]}]
registries: {mirrors: {docker.io: {endpoint: [https://mirror.example.com]}}, configs: {mirror.example.com: {authConfigSecretName: login, caBundle: $CA_BUNDLE}}}
additionalManifest: "kind: Namespace\n"
etcd: {snapshotRetention: 3, snapshotScheduleCron: '0 */6 * * *', s3: {bucket: backups, cloudCredentialName: s3}}
agentEnvVars: [{name: HTTPS_PROXY, value: 'http://proxy.example.com:3128'}]
networking: {stackPreference: ipv4}
provisionGeneration: 2
`

// full is a cluster with every option; all its agents are well.
func full(t *testing.T, version string) *world {
	t.Helper()
	w := newWorld(t)
	w.spec(everyOption)
	w.spec("kubernetesVersion: " + version)
	w.object(planner.ConfigMapKind, "files", "{clusters: prod, data: {motd: hello, conf: x=1}}")
	w.object(planner.SecretKind, "login", "{type: kubernetes.io/basic-auth, data: {username: u, password: registry-password}}")
	w.object(planner.SecretKind, "s3", "{data: {accessKey: s3-access, secretKey: s3-password}}")
	w.cluster.Endpoint = "k8s.example.com"
	return w
}

// TestGoldenPlans has plans to the last field, by distribution and role. The goldens of a release stay: another plan restarts clusters.
func TestGoldenPlans(t *testing.T) {
	const charts = "{managementClusterName: c-m-abcdefgh, chartValues: {rke2-calico: {}, traefik: {replicas: 2}, metrics-server: {args: [--v=2]}}}"
	for name, tt := range map[string]struct{ version, server, other, shown, more string }{
		"k3s-all-roles":     {"v1.36.3+k3s1", "etcd control-plane worker", "worker", "server-1", ""},
		"k3s-server":        {"v1.36.3+k3s1", "etcd control-plane", "worker", "server-1", ""},
		"k3s-worker":        {"v1.36.3+k3s1", "etcd control-plane worker", "worker", "other-2", ""},
		"k3s-etcd":          {"v1.36.3+k3s1", "etcd", "control-plane", "server-1", ""},
		"k3s-older-worker":  {"v1.33.13+k3s1", "etcd control-plane worker", "worker", "other-2", ""},
		"rke2-all-roles":    {"v1.36.3+rke2r1", "etcd control-plane worker", "worker", "server-1", ""},
		"rke2-server":       {"v1.36.3+rke2r1", "etcd control-plane", "worker", "server-1", ""},
		"rke2-worker":       {"v1.36.3+rke2r1", "etcd control-plane worker", "worker", "other-2", ""},
		"rke2-etcd":         {"v1.36.3+rke2r1", "etcd", "control-plane", "server-1", ""},
		"rke2-older-server": {"v1.33.13+rke2r2", "etcd control-plane", "worker", "server-1", ""},
		"k3s-charts":        {"v1.36.3+k3s1", "etcd control-plane worker", "worker", "server-1", charts},
		"rke2-charts":       {"v1.36.3+rke2r1", "etcd control-plane", "worker", "server-1", charts},
		"rke2-charts-etcd":  {"v1.36.3+rke2r1", "etcd", "control-plane", "server-1", charts},
	} {
		t.Run(name, func(t *testing.T) {
			w := full(t, tt.version)
			w.spec(cmp.Or(tt.more, "{}"))
			w.machine("server-1", "{roles: "+tt.server+", external: [203.0.113.1], nodeLabels: {team: shop}}")
			w.machine("other-2", "{roles: "+tt.other+", external: [203.0.113.2]}")
			w.plan()
			w.do("agent server-1 is-well")
			w.plan()
			raw := w.machines[tt.shown].Secret.Data[plan.KeyPlan]
			p, err := plan.Decode(raw)
			require.NoError(t, err)
			require.Empty(t, p.PeriodicInstructions)
			text := &strings.Builder{}
			all := parts(t, p)
			for _, part := range append(all["files"], "install", "probes") {
				fmt.Fprintf(text, "== %s\n%s\n", part, strings.Join(all[part], "\n"))
			}
			fmt.Fprintf(text, "== checksum, by which agents know whether it is another\n%s\n", plan.Checksum(raw))
			golden.Require(t, "testdata/plans/"+name+".txt", text.String())
		})
	}
}

// TestPlan_stable: the same cluster gives the same bytes, in whatever order it is read, and looking changes nothing of what was looked at.
func TestPlan_stable(t *testing.T) {
	deliveries := func(c planner.Cluster) []string {
		var all []string
		for _, v := range planner.Plan(c).Machines {
			if v.Delivery != nil {
				all = append(all, v.Machine+" "+string(v.Delivery.Plan))
			}
		}
		return all
	}
	w := full(t, "v1.36.3+k3s1")
	for _, name := range []string{"server-1", "worker-2", "worker-3", "worker-4"} {
		w.machine(name, map[bool]string{true: "{roles: etcd control-plane}", false: "{roles: worker}"}[name == "server-1"])
	}
	first := deliveries(w.snapshot())
	require.Len(t, first, 1)
	w.plan()
	w.do("well")
	c := w.snapshot()
	before := marshal(t, c.Machines) + marshal(t, c.Spec)
	want := deliveries(c)
	require.Len(t, want, 3, "the workers")
	for range 20 {
		slices.Reverse(c.Machines)
		c.Machines = append(c.Machines[1:], c.Machines[0])
		require.Equal(t, want, deliveries(c))
	}
	again := w.snapshot()
	require.Equal(t, want, deliveries(again))
	require.Equal(t, before, marshal(t, again.Machines)+marshal(t, again.Spec))
	w.plan()
	require.Empty(t, deliveries(w.snapshot()), "what was delivered is not delivered again")
	w.spec("managementClusterName: c-m-abcdefgh")
	require.Empty(t, deliveries(w.snapshot()), "the name of the management Cluster changes no plan without chart values")
	w.do("well")
	require.Empty(t, deliveries(w.snapshot()))
	require.True(t, planner.Plan(w.snapshot()).ControlPlaneReady)
}

// TestPlan_keepsSecrets: reasons, words and warnings go where everybody reads them.
func TestPlan_keepsSecrets(t *testing.T) {
	secrets := []string{"server-password", "agent-password", "registry-password", "s3-access", "s3-password", "server key", "canary"}
	for _, spec := range []string{
		"machineGlobalConfig: {}",
		"machineGlobalConfig: {token: canary, etcd-s3-secret-key: [canary, [canary]], debug: canary, unknown: canary, kubelet-arg: {canary: canary}}",
		"machineSelectorConfig: [{config: {node-name: {a: canary}}}]",
		"registries: {configs: {x: {tlsSecretName: login}}}",
		"machineSelectorFiles: [{fileSources: [{configMap: {name: files, items: [{key: conf, path: /etc/x.conf, hash: x}]}}]}]",
		"agentEnvVars: [{name: '=', value: canary}]",
		"etcd: {s3: {cloudCredentialName: login}}",
	} {
		w := full(t, "v1.36.3+k3s1")
		w.spec(spec)
		w.machine("server-1", "{roles: etcd control-plane worker, nodeLabels: {a: b}}")
		r := planner.Plan(w.snapshot())
		for i := range r.Machines {
			r.Machines[i].Delivery = nil
		}
		for _, secret := range secrets {
			require.NotContains(t, marshal(t, r), secret, spec)
		}
	}
}

func TestDelivery(t *testing.T) {
	old := map[string][]byte{plan.KeyPlan: []byte("old"), plan.KeyState: []byte("failed"), plan.KeyProbeStatuses: []byte("{}"),
		plan.KeyAgentPublicKey: []byte("key")}
	data := planner.Delivery{Plan: []byte("new"), MaxFailures: plan.Unlimited}.Data(old)
	require.Equal(t, map[string][]byte{plan.KeyPlan: []byte("new"), plan.KeyState: []byte("pending"), plan.KeyMaxFailures: []byte("-1"), plan.KeyAgentPublicKey: []byte("key")}, data)
	require.Equal(t, plan.Unlimited, plan.Attempts(data))
	require.NoError(t, plan.MayWrite(plan.Planner, old, data))
	require.Equal(t, "old", string(old[plan.KeyPlan]))
}

func TestReferences(t *testing.T) {
	w := full(t, "v1.36.3+k3s1")
	w.spec("registries: {configs: {a: {authConfigSecretName: login, tlsSecretName: tls}, b: {authConfigSecretName: login}}}")
	w.spec("machineSelectorConfig: [{config: {cloud-provider-config: 'secret://shop:cloud'}}]")
	require.Equal(t, []planner.ObjectKey{{Kind: "ConfigMap", Name: "files"}, {Kind: "Secret", Name: "cloud"}, {Kind: "Secret", Name: "login"}, {Kind: "Secret", Name: "s3"},
		{Kind: "Secret", Name: "tls"}}, planner.References(w.cluster.Spec))
	data := map[string][]byte{"accessKey": []byte("a"), "s3credentialConfig-secretKey": []byte("b"), "other-key": []byte("c")}
	used := planner.NewUses(w.cluster.Spec).Of(planner.ObjectKey{Kind: "Secret", Name: "s3"}, data)
	require.ElementsMatch(t, []string{"accessKey", "s3credentialConfig-secretKey"}, slices.Collect(maps.Keys(used)))
}

func TestKubeletMaySet(t *testing.T) {
	for label, may := range map[string]bool{
		"team": true, "example.com/team": true, "mykubernetes.io/x": true, "kubernetes.io/hostname": true, "node.kubernetes.io/tier": true,
		"sub.node.kubernetes.io/tier": true, "kubelet.kubernetes.io/x": true, "topology.kubernetes.io/zone": true, "topology.kubernetes.io/rack": false,
		"kubernetes.io/x": false, "node-role.kubernetes.io/worker": false, "k8s.io/x": false, "x.k8s.io/y": false, "kubernetes.io": true,
	} {
		require.Equal(t, may, planner.KubeletMaySet(label), label)
	}
}

func TestCheckLabelsAndTaints(t *testing.T) {
	taint := func(key, value, effect string) corev1.Taint {
		return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
	}
	require.NoError(t, planner.CheckLabels(map[string]string{"team": "shop", "node-role.kubernetes.io/web": ""}))
	require.ErrorContains(t, planner.CheckLabels(map[string]string{"team": "not a value"}), `label "team": a valid label must be`)
	require.ErrorContains(t, planner.CheckLabels(map[string]string{"not a label": "x"}), `label "not a label": `)
	require.NoError(t, planner.CheckTaints([]corev1.Taint{taint("only", "db", "NoExecute"), taint("a", "", "PreferNoSchedule")}))
	require.EqualError(t, planner.CheckTaints([]corev1.Taint{taint("dedicated", "", "Nonsense")}),
		`taint "dedicated": its effect is "Nonsense"; it must be NoSchedule, PreferNoSchedule or NoExecute`)
	require.ErrorContains(t, planner.CheckTaints([]corev1.Taint{taint("", "", "NoSchedule")}), `taint "": `)
}

// TestToken: a join token names the authority as k3s' clients work it out: one certificate by its bytes, a chain by its root.
func TestToken(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	sign := func(name string, parent *x509.Certificate) (*x509.Certificate, []byte) {
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
		if parent == nil {
			parent = template
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, key)
		require.NoError(t, err)
		certificate, err := x509.ParseCertificate(der)
		require.NoError(t, err)
		return certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	root, rootPEM := sign("root", nil)
	middle, middlePEM := sign("middle", root)
	_, leafPEM := sign("leaf", middle)
	for name, tt := range map[string]struct{ authority, hashed []byte }{
		"one":                {rootPEM, rootPEM},
		"a chain":            {slices.Concat(leafPEM, middlePEM, rootPEM), root.Raw},
		"in another order":   {slices.Concat(leafPEM, rootPEM, middlePEM), root.Raw},
		"without its root":   {slices.Concat(leafPEM, middlePEM), middle.Raw},
		"twice the same one": {slices.Concat(rootPEM, rootPEM), root.Raw},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.cluster.Authorities.Server.Certificate = tt.authority
			w.machine("server-1", "{roles: etcd control-plane}")
			w.machine("worker-2", "{roles: worker}")
			w.plan()
			w.do("well")
			w.plan()
			var config map[string]any
			p, err := plan.Decode(w.machines["worker-2"].Secret.Data[plan.KeyPlan])
			require.NoError(t, err)
			content, err := p.Files[0].Bytes()
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(content, &config))
			sum := sha256.Sum256(tt.hashed)
			require.Equal(t, "K10"+hex.EncodeToString(sum[:])+"::node:agent-password", config["token"])
		})
	}
}

// TestPlan_tooLarge: a plan that no Secret holds is told before it is written.
func TestPlan_tooLarge(t *testing.T) {
	w := newWorld(t)
	w.machine("server-1", "{roles: etcd control-plane}")
	w.cluster.Spec.AdditionalManifest = strings.Repeat("x", 200<<10)
	w.object(planner.SecretKind, "files", "{clusters: prod, data: {k: "+strings.Repeat("x", 400<<10)+"}}")
	w.spec("machineSelectorFiles: [{fileSources: [{secret: {name: files, items: [{key: k, path: /etc/k}]}}]}]")
	v := planner.Plan(w.snapshot()).Machines[0]
	require.Equal(t, rkev1.ConfigInvalidReason, v.Reason)
	require.Contains(t, v.Message, "a Secret holds at most")
	require.Nil(t, v.Delivery)
}

// A key that is named a thousand times is not in memory a thousand times before that is found out.
func TestPlan_oneKeyManyTimes(t *testing.T) {
	w := newWorld(t)
	w.machine("server-1", "{roles: etcd control-plane}")
	c := w.snapshot()
	source := rkev1.K8sObjectFileSource{Name: "files"}
	for i := range 500 {
		source.Items = append(source.Items, rkev1.KeyToPath{Key: "k", Path: fmt.Sprintf("/etc/f%d", i)})
	}
	c.Spec.MachineSelectorFiles = []rkev1.RKEProvisioningFiles{{FileSources: []rkev1.ProvisioningFileSource{{Secret: source}}}}
	c.Objects = map[planner.ObjectKey]planner.Object{{Kind: planner.SecretKind, Name: "files"}: {AuthorizedClusters: c.Name,
		Data: map[string][]byte{"k": bytes.Repeat([]byte("x"), 1<<20)}}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	v := planner.Plan(c).Machines[0]
	runtime.ReadMemStats(&after)
	require.Equal(t, rkev1.ConfigInvalidReason, v.Reason)
	require.Contains(t, v.Message, "use fewer or smaller files")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
}

// The planner compiles no pattern of a rewrite: nine control planes with a pattern of 440 MB each ended the manager.
func TestPlan_largePattern(t *testing.T) {
	w := newWorld(t)
	w.machine("server-1", "{roles: etcd control-plane}")
	for _, length := range []int{200, 3000} {
		c := w.snapshot()
		c.Spec.Registries = &rkev1.Registry{Mirrors: map[string]rkev1.Mirror{"docker.io": {Rewrites: map[string]string{
			"(?:" + strings.Repeat("a", length) + "){1000}": "x"}}}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		v := planner.Plan(c).Machines[0]
		runtime.ReadMemStats(&after)
		require.Equal(t, rkev1.ConfigInvalidReason, v.Reason)
		require.Contains(t, v.Message, "spec.registries.mirrors[\"docker.io\"].rewrite: the pattern")
		require.Nil(t, v.Delivery)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
	}
}

// A specification that would be looked at for ever is refused as a whole: each machine is looked at with all of it.
func TestPlan_bounds(t *testing.T) {
	named := func(n int) (spec rkev1.RKEControlPlaneSpec) {
		for i := range n {
			spec.MachineSelectorFiles = append(spec.MachineSelectorFiles, rkev1.RKEProvisioningFiles{FileSources: []rkev1.ProvisioningFileSource{
				{Secret: rkev1.K8sObjectFileSource{Name: fmt.Sprint("s", i)}, ConfigMap: rkev1.K8sObjectFileSource{Name: fmt.Sprint("c", i)}}}})
		}
		return spec
	}
	selecting := func(n int) (spec rkev1.RKEControlPlaneSpec) {
		all := map[string]string{}
		for i := range n {
			all[fmt.Sprint("l", i)] = "x"
		}
		spec.MachineSelectorConfig = []rkev1.RKESystemConfig{{MachineLabelSelector: &metav1.LabelSelector{MatchLabels: all}}}
		return spec
	}
	arguments := func(n int) (spec rkev1.RKEControlPlaneSpec) {
		spec.MachineGlobalConfig = rkev1.Config{}
		for i := range n {
			spec.MachineGlobalConfig[fmt.Sprint("a", i)] = apiextensionsv1.JSON{Raw: []byte("1")}
		}
		return spec
	}
	for name, tt := range map[string]struct {
		spec         func(int) rkev1.RKEControlPlaneSpec
		enough       int
		reason, says string
	}{
		"references":      {named, 50, rkev1.ReferencesExceededReason, "spec names more than 100 Secrets and ConfigMaps"},
		"labels selected": {selecting, 2000, rkev1.ConfigInvalidReason, "require 2001 labels, more than 2000"},
		"arguments":       {arguments, 2000, rkev1.ConfigInvalidReason, "have 2001 arguments, more than 2000"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.machine("server-1", "{roles: etcd control-plane}")
			plan := func(n int) planner.Result {
				c := w.snapshot()
				c.Spec = tt.spec(n)
				c.Spec.KubernetesVersion = w.cluster.Spec.KubernetesVersion
				return planner.Plan(c)
			}
			require.NotContains(t, plan(tt.enough).Message, "more than")
			require.NotEqual(t, rkev1.ReferencesExceededReason, plan(tt.enough).Reason)
			r := plan(tt.enough + 1)
			require.Equal(t, tt.reason, r.Reason)
			require.Contains(t, r.Message, tt.says)
			require.Empty(t, r.Machines)
		})
	}
	require.Empty(t, planner.References(named(51)), "none of them is read")
}

// Large plans for many machines are given out a part at each look, so that few are in memory at a time; all are in the end.
func TestPlan_largePlansOfMany(t *testing.T) {
	w := newWorld(t)
	w.machine("server-1", "{roles: etcd control-plane}")
	w.object(planner.SecretKind, "files", "{clusters: prod, data: {k: "+strings.Repeat("x", 400<<10)+"}}")
	w.spec("machineSelectorFiles: [{machineLabelSelector: {matchLabels: {rke.cattle.io/worker-role: 'true'}}, fileSources: [{secret: {name: files, items: [{key: k, path: /etc/k}]}}]}]")
	for i := 2; i <= 15; i++ {
		w.machine(fmt.Sprintf("worker-%d", i), "{roles: worker}")
	}
	w.plan()
	w.do("well")
	looks := 0
	for ; looks < 10; looks++ {
		size := 0
		for _, v := range planner.Plan(w.snapshot()).Machines {
			if v.Delivery != nil {
				size += len(v.Delivery.Plan)
			}
		}
		if size == 0 {
			break
		}
		require.LessOrEqual(t, size, 5<<20)
		w.plan()
	}
	require.Equal(t, 2, looks)
	w.do("well")
	require.Equal(t, rkev1.ReconciledReason, planner.Plan(w.snapshot()).Reason)
}

// What is known of a plan is bounded, whoever wrote it.
func TestNewDelivered(t *testing.T) {
	require.Nil(t, planner.NewDelivered(nil))
	many := plan.Plan{}
	for i := range plan.MaxFiles + 1 {
		many.Files = append(many.Files, plan.File{Path: fmt.Sprint("/", i)})
	}
	long := plan.Plan{Files: []plan.File{{Path: "/" + strings.Repeat("x", 33<<10)}}}
	probes := plan.Plan{Probes: map[string]plan.Probe{}}
	for i := range plan.MaxProbes + 1 {
		probes.Probes[fmt.Sprint(i)] = plan.Probe{}
	}
	many.Files = many.Files[:plan.MaxFiles]
	many.Files[0] = plan.File{Path: "/a", Content: "eA==", UID: 1, GID: 1, Permissions: "0600", Dynamic: true, Minor: true}
	require.Empty(t, planner.NewDelivered([]byte(marshal(t, many))).Broken)
	many.Files = append(many.Files, plan.File{Path: "/b"})
	instructions := plan.Plan{Instructions: make([]plan.Instruction, plan.MaxInstructions+1)}
	name := plan.Plan{Probes: map[string]plan.Probe{strings.Repeat("x", 5<<10): {}}}
	for says, raw := range map[string]string{"unexpected end": `{"files":[`, "too many files": marshal(t, many), "it has too many files": marshal(t, long), "too many probes": marshal(t, probes),
		"it has too many probes": marshal(t, name), "too many instructions": marshal(t, instructions), "more than 24576 elements": `{"instructions":[` + strings.Repeat("{},", 130_000) + "{}]}",
		"more than 655360 bytes": `{"error":"` + strings.Repeat("x", 640<<10) + `"}`, "more than 8 levels deep": `{"x":` + strings.Repeat("[", 9) + strings.Repeat("]", 9) + "}"} {
		d := planner.NewDelivered([]byte(raw))
		require.Contains(t, d.Broken, says)
		require.Less(t, len(marshal(t, d)), 1<<10)
	}
}

// A plan of many empty instructions is not decoded: its 130,000 elements would take 20 MB.
func TestNewDelivered_cost(t *testing.T) {
	raw := []byte(`{"instructions":[` + strings.Repeat("{},", 130_000) + "{}]}")
	result := testing.Benchmark(func(b *testing.B) {
		b.Helper()
		for b.Loop() {
			planner.NewDelivered(raw)
		}
	})
	require.Less(t, result.AllocedBytesPerOp(), int64(4<<10))
}

// hundred is a cluster of 100 nodes at rest.
func hundred(tb testing.TB) planner.Cluster {
	tb.Helper()
	w := newWorld(&testing.T{})
	w.spec("{machineGlobalConfig: {kubelet-arg: [max-pods=200]}, registries: {mirrors: {docker.io: {endpoint: [https://mirror.example.com]}}}}")
	w.machine("server-1", "{roles: etcd control-plane}")
	for i := 2; i <= 100; i++ {
		w.machine(fmt.Sprintf("worker-%d", i), "{roles: worker}")
	}
	for range 2 {
		w.plan()
		w.do("well")
	}
	c := w.snapshot()
	r := planner.Plan(c)
	require.Equal(tb, rkev1.ReconciledReason, r.Reason, r.Message)
	require.Len(tb, r.Machines, 100)
	return c
}

// TestPlan_cost: what a look at 100 nodes allocates, for time depends on the machine. BenchmarkPlan prints both.
func TestPlan_cost(t *testing.T) {
	c := hundred(t)
	require.Less(t, testing.AllocsPerRun(10, func() { planner.Plan(c) }), 25000.0)
}

func BenchmarkPlan(b *testing.B) {
	c := hundred(b)
	before := processor(b)
	for b.Loop() {
		planner.Plan(c)
	}
	each := (processor(b) - before) / time.Duration(b.N)
	b.ReportMetric(float64(each.Microseconds())/1000, "cpu-ms/op")
	require.LessOrEqual(b, each, allowedPlan, "computing for a look at 100 nodes")
}

// allowedPlan is twice what a look at 100 nodes may take, for a busy machine computes more slowly.
const allowedPlan = 10 * time.Millisecond

// processor is the time that this process has computed, which others on the machine lengthen less than the time that passes.
func processor(tb testing.TB) time.Duration {
	tb.Helper()
	var usage unix.Rusage
	require.NoError(tb, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// FuzzSpec: whatever a user configures is refused with a reason, or gives plans that an agent takes and that are the same the next time.
func FuzzSpec(f *testing.F) {
	for _, text := range []string{
		`{"machineGlobalConfig":{"kubelet-arg":"x","debug":"true","tls-san":[1,true],"a":{"b":[null]}}}`,
		`{"kubernetesVersion":"v1.36.3+rke2r1","machineGlobalConfig":{"cni":["multus,calico"],"cluster-cidr":["::/0"],"audit-policy-file":"\n"}}`,
		`{"machineSelectorConfig":[{"machineLabelSelector":{"matchExpressions":[{"key":"","operator":"In"}]}}],"upgradeStrategy":{"workerConcurrency":"99999999999999999999%"}}`,
		`{"registries":{"configs":{"..":{"caBundle":"AA=="}}},"additionalManifest":"\u0000","agentEnvVars":[{"name":"A\u0000"}]}`,
		`{"dataDirectories":{"k8sDistro":"../x"},"networking":{"stackPreference":"?"},"etcd":{"s3":{"bucket":"b","retention":-1}}}`,
		`{"machineSelectorFiles":[{"fileSources":[{"secret":{"name":"x","items":[{"key":"a","path":"/a"}]}}]}]}`,
	} {
		f.Add([]byte(text), []byte(`{"checksum":"x"}`), "10.0.0.1", "kubelet-arg", []byte(`["a=b",1,true]`))
	}
	f.Fuzz(func(t *testing.T, text, status []byte, address, key string, value []byte) {
		w := newWorld(t)
		version := w.cluster.Spec.KubernetesVersion
		if json.Unmarshal(text, &w.cluster.Spec) != nil {
			return
		}
		if w.cluster.Spec.KubernetesVersion == "" {
			w.cluster.Spec.KubernetesVersion = version
		}
		if json.Valid(value) {
			w.cluster.Spec.MachineSelectorConfig = append(w.cluster.Spec.MachineSelectorConfig, rkev1.RKESystemConfig{Config: rkev1.Config{key: {Raw: value}}})
		}
		w.object(planner.SecretKind, "x", "{clusters: prod, data: {a: '1'}}")
		w.machine("server-1", "{roles: etcd control-plane}")
		w.machine("worker-2", "{roles: worker}")
		w.machines["server-1"].ExternalIPs = []string{address}
		for range 2 {
			r := planner.Plan(w.snapshot())
			require.NotEmpty(t, r.Reason)
			require.NotEmpty(t, r.Message)
			require.Less(t, len(r.Message), 32<<10, "a condition has room for it")
			for _, v := range r.Machines {
				if v.Delivery == nil {
					continue
				}
				w.deliver(w.machines[v.Machine].Secret, *v.Delivery)
				p, err := plan.Decode(v.Delivery.Plan)
				require.NoError(t, err)
				require.NotEmpty(t, p.Files)
			}
			for _, v := range planner.Plan(w.snapshot()).Machines {
				require.Nil(t, v.Delivery, "%s: nothing has changed", v.Machine)
			}
			for _, m := range w.machines {
				if len(m.Secret.Data[plan.KeyPlan]) > 0 {
					w.agent(m.Name, "is-well", "")
				}
			}
		}
		w.machines["server-1"].Secret.Data[plan.KeyAgentStatus] = status
		w.machines["server-1"].Secret.Data[plan.KeyState] = bytes.TrimSpace(status)
		require.NotEmpty(t, planner.Plan(w.snapshot()).Reason)
	})
}

// Planning a machine allocates at most what Footprint estimates, for a small specification and for the largest.
func TestFootprint(t *testing.T) {
	lists := func(n int) apiextensionsv1.JSON {
		list := strings.Repeat("[", 30) + strings.Repeat("]", 30)
		return apiextensionsv1.JSON{Raw: []byte("[" + strings.Repeat(list+",", n) + "[]]")}
	}
	for name, change := range map[string]func(*rkev1.RKEControlPlaneSpec){
		"small":   func(*rkev1.RKEControlPlaneSpec) {},
		"lists":   func(s *rkev1.RKEControlPlaneSpec) { s.MachineGlobalConfig = rkev1.Config{"tls-san": lists(250)} },
		"charts":  func(s *rkev1.RKEControlPlaneSpec) { s.ChartValues = rkev1.Config{"rke2-coredns": lists(500)} },
		"one key": func(s *rkev1.RKEControlPlaneSpec) { s.AdditionalManifest = strings.Repeat("x", 255<<10) },
	} {
		t.Run(name, func(t *testing.T) {
			c := hundred(t)
			c.Machines = c.Machines[:1]
			change(&c.Spec)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			planner.Plan(c)
			runtime.ReadMemStats(&after)
			require.Less(t, int64(after.TotalAlloc-before.TotalAlloc), planner.Footprint(&c.Spec))
			require.Less(t, planner.Footprint(&c.Spec), int64(32<<20))
		})
	}
	s := rkev1.RKEControlPlaneSpec{}
	without := planner.Footprint(&s)
	s.Registries = &rkev1.Registry{Configs: map[string]rkev1.RegistryConfig{"a": {AuthConfigSecretName: "login"}}}
	require.Greater(t, planner.Footprint(&s), without+planner.MaxObjectBytes)
}
