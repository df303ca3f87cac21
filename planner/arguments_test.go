package planner_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/planner"
)

// serverConfig is the distribution's configuration in the plan of server-1.
func (w *world) serverConfig(distribution string) map[string]any {
	w.t.Helper()
	return w.configOf("server-1", distribution)
}

// configOf is the distribution's configuration in a machine's plan.
func (w *world) configOf(machine, distribution string) map[string]any {
	w.t.Helper()
	p, err := plan.Decode(w.machines[machine].Secret.Data[plan.KeyPlan])
	require.NoError(w.t, err)
	lines := parts(w.t, p)["/etc/rancher/"+distribution+"/config.yaml.d/50-rancher.yaml"]
	require.NotEmpty(w.t, lines, "the plan has the configuration")
	config := map[string]any{}
	require.NoError(w.t, json.Unmarshal([]byte(strings.Join(lines[1:], "\n")), &config))
	return config
}

// verdictOf plans once without a delivery, and returns the verdict on a machine.
func (w *world) verdictOf(machine string) planner.Verdict {
	w.t.Helper()
	r := planner.Plan(w.snapshot())
	for _, v := range r.Machines {
		if v.Machine == machine {
			return v
		}
	}
	require.Fail(w.t, "no verdict", "%s: %s %s", machine, r.Reason, r.Message)
	return planner.Verdict{}
}

// An argument that cannot change after the cluster was created is held, and no server gets it. The
// same value in another form is the same value.
func TestFixedArguments(t *testing.T) {
	for name, tt := range map[string]struct {
		version, before, change, says string
		same                          []string
	}{
		"cluster-cidr": {"v1.36.3+k3s1", "cluster-cidr: 10.42.0.0/16", "cluster-cidr: 10.50.0.0/16", "set it to 10.42.0.0/16 again",
			[]string{"cluster-cidr: [10.42.0.0/16]", "cluster-cidr: ' 10.42.0.0/16 '"}},
		"service-cidr": {"v1.36.3+k3s1", "service-cidr: [10.43.0.0/16, 'fd01::/112']", "service-cidr: 10.43.0.0/16", "set it to 10.43.0.0/16,fd01::/112 again",
			[]string{"service-cidr: '10.43.0.0/16,fd01::/112'"}},
		"cluster-dns":     {"v1.36.3+k3s1", "debug: true", "cluster-dns: 10.43.0.11", "remove it", []string{"debug: false"}},
		"flannel-backend": {"v1.36.3+k3s1", "debug: true", "flannel-backend: wireguard-native", "set it to vxlan again", []string{"flannel-backend: vxlan"}},
		"cni":             {"v1.36.3+rke2r1", "debug: true", "cni: cilium", "set it to calico again", []string{"cni: [calico]"}},
		"cni ":            {"v1.36.3+rke2r1", "cni: null", "debug: true", "set it to canal again", []string{"cni: canal"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.spec("{kubernetesVersion: " + tt.version + ", machineGlobalConfig: {" + tt.before + "}}")
			w.machine("server-1", "{roles: etcd control-plane worker}")
			w.machine("worker-2", "{roles: worker}")
			w.plan()
			w.spec("machineGlobalConfig: {" + tt.change + "}")
			require.NotNil(t, w.verdictOf("server-1").Delivery, "the cluster does not exist yet")
			for range 2 {
				w.spec("machineGlobalConfig: {" + tt.before + "}")
				w.plan()
				w.do("well")
			}
			w.machine("server-1", "{roles: etcd control-plane worker, joined: true}")
			w.spec("machineGlobalConfig: {" + tt.change + "}")
			v := w.verdictOf("server-1")
			require.Nil(t, v.Delivery)
			require.Equal(t, rkev1.ConfigInvalidReason, v.Reason)
			require.Contains(t, v.Message, strings.TrimSpace(name)+" cannot change after the cluster was created")
			require.Contains(t, v.Message, tt.says)
			require.Nil(t, w.verdictOf("worker-2").Delivery)
			for _, same := range tt.same {
				w.spec("machineGlobalConfig: {" + same + "}")
				require.NotEqual(t, rkev1.ConfigInvalidReason, w.verdictOf("server-1").Reason, same)
			}
		})
	}
}

// A flag of a component with dashes gives the same plan, errors and warnings as without.
func TestDashes(t *testing.T) {
	plan := func(list string) (string, planner.Result) {
		w := newWorld(t)
		w.spec("{kubernetesVersion: v1.36.3+rke2r1, machineGlobalConfig: {" + list + "}}")
		w.machine("server-1", "{roles: etcd control-plane worker}")
		r := planner.Plan(w.snapshot())
		if len(r.Machines) == 0 || r.Machines[0].Delivery == nil {
			return "", r
		}
		return string(r.Machines[0].Delivery.Plan), r
	}
	for _, list := range []string{
		"kube-scheduler-arg: ['--secure-port=7443']",
		"kube-controller-manager-arg: ['--secure-port=7443', '--cert-dir=/etc/certificates']",
		"kube-scheduler-arg: '--tls-cert-file=/etc/scheduler.crt'",
		"kube-scheduler-arg+: ['--secure-port=7443']",
		"kubelet-arg: ['--healthz-port=10348', '--max-pods=60']",
		"kubelet-arg: ['--healthz-port=0']",
		"kubelet-arg: ['--provider-id=x', v=2]",
		"kubelet-arg+: ['--provider-id=x']",
		"kube-apiserver-arg: ['--secure-port=7443']",
	} {
		raw, r := plan(list)
		rawWithout, without := plan(strings.ReplaceAll(list, "--", ""))
		require.Equal(t, without, r, list)
		require.Equal(t, rawWithout, raw, list)
	}
	raw, _ := plan("kube-scheduler-arg: ['--secure-port=7443'], kubelet-arg: ['--healthz-port=10348']")
	require.Contains(t, raw, "https://127.0.0.1:7443/healthz")
	require.Contains(t, raw, "http://127.0.0.1:10348/healthz")
}

// The values of arguments with which a kubelet or k3s does not start are rejected at admission and
// before a plan is made, and the message says what to write.
func TestArguments_rejected(t *testing.T) {
	for config, says := range map[string]string{
		"node-label: [node-role.kubernetes.io/x=true]":                      `node-label has the label "node-role.kubernetes.io/x", which a kubelet cannot set: set it in the annotation rke.cattle.io/labels of the Machines`,
		"node-label: 'a=b,node-role.kubernetes.io/x=true'":                  "which a kubelet cannot set",
		"node-label+: [team=shop floor]":                                    `node-label+ has the label "team": a valid label must be`,
		"node-label: [team]":                                                "node-label must be name=value, and item 1 has no =",
		"kubelet-arg: ['--node-labels=a=b,node-role.kubernetes.io/x=true']": `kubelet-arg: node-labels has the label "node-role.kubernetes.io/x"`,
		"node-taint: [dedicated=shop]":                                      "node-taint must be name=value:effect or name:effect, and item 1 has no effect",
		"node-taint: ['a:NoSchedule', 'dedicated=shop:Never']":              `node-taint has the taint "dedicated": its effect is "Never"`,
		"kubelet-arg: [register-with-taints=dedicated=shop]":                "kubelet-arg: register-with-taints must be name=value:effect",
		"node-name: 'a b'":                                                  "node-name is not a valid name of a Node",
		"cluster-cidr: 10.42.0.0":                                           "cluster-cidr must be an IP range such as 10.42.0.0/16",
		"service-cidr: [10.43.0.0/16, 10.44.0.0/16]":                        "or two of different families",
		"cluster-dns: dns":                                                  "cluster-dns must be IP addresses",
	} {
		w := newWorld(t)
		w.spec("machineSelectorConfig: [{config: {" + config + "}}]")
		require.ErrorContains(t, planner.CheckSpec(&w.cluster.Spec), "spec.machineSelectorConfig[0].config: ", config)
		require.ErrorContains(t, planner.CheckSpec(&w.cluster.Spec), says, config)
		w.machine("server-1", "{roles: etcd control-plane worker}")
		v := w.verdictOf("server-1")
		require.Equal(t, rkev1.ConfigInvalidReason, v.Reason, config)
		require.Contains(t, v.Message, says)
		require.Nil(t, v.Delivery)
	}
	for _, config := range []string{
		"node-label: [team=shop, empty=, node.kubernetes.io/tier=x]", "node-label: 'a=b,c=d'", "node-label: null",
		"node-taint: ['dedicated=shop:NoSchedule', 'a:NoExecute', 'b=:PreferNoSchedule']", "node-name: Web-1",
		"kubelet-arg: [node-labels=a=b, '--register-with-taints=a=b:NoExecute', max-pods=60]",
		"cluster-cidr: '10.42.0.0/16,fd00::/56', service-cidr: ['fd01::/112', 10.43.0.0/16], cluster-dns: [10.43.0.10, 'fd01::a']",
	} {
		w := newWorld(t)
		w.spec("machineSelectorConfig: [{config: {" + config + "}}]")
		require.NoError(t, planner.CheckSpec(&w.cluster.Spec), config)
		w.machine("server-1", "{roles: etcd control-plane worker}")
		require.NotNil(t, w.verdictOf("server-1").Delivery, config)
	}
}

// Two Nodes cannot have one name: the machine that comes later gets no plan.
func TestNodeNames(t *testing.T) {
	w := newWorld(t)
	w.spec("machineGlobalConfig: {node-name: web}")
	require.ErrorContains(t, planner.CheckSpec(&w.cluster.Spec), "spec.machineGlobalConfig: node-name would be the same for all machines: remove it, or select one machine in spec.machineSelectorConfig")
	w.machine("server-1", "{roles: etcd control-plane}")
	w.machine("worker-2", "{roles: worker}")
	w.plan()
	w.do("well")
	require.Equal(t, rkev1.UpToDateReason, w.verdictOf("server-1").Reason)
	v := w.verdictOf("worker-2")
	require.Equal(t, rkev1.ConfigInvalidReason, v.Reason)
	require.Equal(t, "it has the same name for its Node as server-1, and a cluster cannot have two Nodes with one name: remove node-name, or select one machine in spec.machineSelectorConfig", v.Message)

	w.spec("machineGlobalConfig: null")
	w.machine("worker-2", "{roles: worker, nodeName: web}")
	w.machine("worker-3", "{roles: worker, nodeName: Web}")
	w.plan()
	w.do("well")
	require.Empty(t, w.verdictOf("worker-2").Object)
	require.NotEqual(t, rkev1.MachineInvalidReason, w.verdictOf("worker-2").Reason)
	v = w.verdictOf("worker-3")
	require.Equal(t, rkev1.MachineInvalidReason, v.Reason)
	require.Contains(t, v.Message, "set another value of the label rke.cattle.io/node-name, or remove the label")
	w.machine("worker-2", "{roles: worker, nodeName: web, deleting: true}")
	require.NotEqual(t, rkev1.MachineInvalidReason, w.verdictOf("worker-3").Reason)
}

// A storage's URL is used without https://. Other URLs and an invalid schedule are rejected at admission
// and before a plan is made.
func TestSnapshots_rejected(t *testing.T) {
	for etcd, says := range map[string]string{
		"s3: {bucket: b, endpoint: 'http://s3.example.com'}":    "spec.etcd.s3.endpoint must be a host name with an optional port: remove http://, and set etcd-s3-insecure: true",
		"s3: {bucket: b, endpoint: 'https://s3.example.com/b'}": "spec.etcd.s3.endpoint must be a host name with an optional port, such as s3.example.com:9000",
		"s3: {bucket: b, endpoint: 's3 example'}":               "spec.etcd.s3.endpoint must be a host name",
		"s3: {bucket: b, endpoint: 'https://'}":                 "spec.etcd.s3.endpoint must be a host name",
		"snapshotScheduleCron: every day":                       "spec.etcd.snapshotScheduleCron must be a cron schedule of five fields",
		"snapshotScheduleCron: '0 0 */6 * * *'":                 "spec.etcd.snapshotScheduleCron must be",
		"snapshotScheduleCron: '0 25 * * *'":                    "spec.etcd.snapshotScheduleCron must be",
		"snapshotScheduleCron: 'TZ=0'":                          "spec.etcd.snapshotScheduleCron must be",
		"snapshotScheduleCron: ' CRON_TZ=0'":                    "spec.etcd.snapshotScheduleCron must be",
		"snapshotScheduleCron: 'TZ=a TZ=b'":                     "spec.etcd.snapshotScheduleCron must be",
	} {
		w := newWorld(t)
		w.spec("etcd: {" + etcd + "}")
		require.ErrorContains(t, planner.CheckSpec(&w.cluster.Spec), says, etcd)
		w.machine("server-1", "{roles: etcd control-plane worker}")
		v := w.verdictOf("server-1")
		require.Equal(t, rkev1.ConfigInvalidReason, v.Reason, etcd)
		require.Contains(t, v.Message, says)
	}
	for _, schedule := range []string{"0 */6 * * *", "0,30 2-4 1,15 jan mon", "@daily", "@every 6h", "CRON_TZ=Europe/Berlin 0 3 * * *"} {
		w := newWorld(t)
		w.spec("etcd: {snapshotScheduleCron: '" + schedule + "'}")
		require.NoError(t, planner.CheckSpec(&w.cluster.Spec), schedule)
		w.machine("server-1", "{roles: etcd control-plane worker}")
		w.plan()
		require.Equal(t, schedule, w.serverConfig("k3s")["etcd-snapshot-schedule-cron"])
	}
	for _, spec := range []string{
		"etcd: {s3: {bucket: b, endpoint: 'https://s3.example.com:9000/'}}",
		"machineGlobalConfig: {etcd-s3-endpoint: 'https://s3.example.com:9000'}",
		"etcd: {s3: {cloudCredentialName: s3}}",
	} {
		w := newWorld(t)
		w.object(planner.SecretKind, "s3", "{data: {accessKey: a, secretKey: b, defaultBucket: b, defaultEndpoint: 'https://s3.example.com:9000'}}")
		w.spec(spec)
		require.NoError(t, planner.CheckSpec(&w.cluster.Spec), spec)
		w.machine("server-1", "{roles: etcd control-plane worker}")
		w.plan()
		require.Equal(t, "s3.example.com:9000", w.serverConfig("k3s")["etcd-s3-endpoint"], spec)
	}
	w := newWorld(t)
	w.object(planner.SecretKind, "s3", "{data: {accessKey: a, secretKey: b, defaultBucket: b, defaultEndpoint: 'http://s3.example.com'}}")
	w.spec("etcd: {s3: {cloudCredentialName: s3}}")
	w.machine("server-1", "{roles: etcd control-plane worker}")
	require.Equal(t, rkev1.SnapshotCredentialInvalidReason, w.verdictOf("server-1").Reason)
	w.spec("{etcd: null, machineGlobalConfig: {etcd-s3-endpoint: 'http://x', etcd-snapshot-schedule-cron: daily}}")
	require.ErrorContains(t, planner.CheckSpec(&w.cluster.Spec), "spec.machineGlobalConfig: etcd-s3-endpoint must be")
}

// Another token of the servers is held: k3s and RKE2 do not start with it. The agents' token may change.
func TestServerToken(t *testing.T) {
	w := newWorld(t)
	w.cluster.Tokens.Secret = "cp-rke-state"
	w.machine("server-1", "{roles: etcd control-plane worker}")
	w.machine("worker-2", "{roles: worker}")
	for range 2 {
		w.plan()
		w.do("well")
	}
	w.cluster.Tokens.Server = "another-password"
	v := w.verdictOf("server-1")
	require.Nil(t, v.Delivery)
	require.Equal(t, rkev1.ServerTokenChangedReason, v.Reason)
	require.Equal(t, planner.ObjectKey{Kind: planner.SecretKind, Name: "cp-rke-state"}, v.Object)
	require.Contains(t, v.Message, `serverToken in Secret "cp-rke-state" is not the token that its server was started with`)
	require.NotContains(t, v.Message, "password")
	require.Equal(t, rkev1.ServerTokenChangedReason, planner.Plan(w.snapshot()).Reason)
	w.cluster.Tokens.Server = "server-password"
	require.Equal(t, rkev1.UpToDateReason, w.verdictOf("server-1").Reason)
	w.cluster.Tokens.Agent = "another-password"
	require.NotNil(t, w.verdictOf("server-1").Delivery)
}

// A machine is not done while its kubelet runs another version than its plan installed, and both are
// named. After some minutes that is a reason of its own.
func TestRunningVersion(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"server-1", "worker-2", "worker-3"} {
		w.machine(name, map[bool]string{true: "{roles: etcd control-plane}", false: "{roles: worker}"}[name == "server-1"])
	}
	for range 2 {
		w.plan()
		w.do("well")
	}
	for kubelet, same := range map[string]bool{"v1.36.3+k3s1": true, "v1.36.3": true, "v1.36.2+k3s1": false, "v1.36.3+k3s2": false, "v1.36.2": false} {
		w.machine("server-1", "{roles: etcd control-plane, kubelet: "+kubelet+"}")
		require.Equal(t, same, w.verdictOf("server-1").Done(), kubelet)
	}
	w.machine("server-1", "{roles: etcd control-plane, kubelet: v1.36.2+k3s1}")
	const says = "its plan is applied, but its kubelet runs v1.36.2+k3s1, and spec.kubernetesVersion is v1.36.3+k3s1"
	r := planner.Plan(w.snapshot())
	require.Equal(t, rkev1.WaitingForMachinesReason, r.Reason)
	require.Equal(t, "server-1: "+says, r.Message)
	w.do("late server-1")
	r = planner.Plan(w.snapshot())
	require.Equal(t, rkev1.KubernetesVersionDiffersReason, r.Reason)
	require.Equal(t, "server-1: "+says, r.Message)
	require.Equal(t, rkev1.UpToDateReason, w.verdictOf("server-1").Progress, "the plan is applied")

	// A worker with another version keeps its turn; a plan that may mend it is delivered.
	w.machine("server-1", "{roles: etcd control-plane, kubelet: v1.36.3+k3s1}")
	w.machine("worker-2", "{roles: worker, kubelet: v1.36.2+k3s1}")
	w.spec("machineSelectorConfig: [{machineLabelSelector: {matchLabels: {rke.cattle.io/worker-role: 'true'}}, config: {debug: true}}]")
	require.NotNil(t, w.verdictOf("worker-2").Delivery)
	w.plan()
	w.do("well")
	require.False(t, w.verdictOf("worker-2").Done())
	require.Equal(t, rkev1.WaitingForTurnReason, w.verdictOf("worker-3").Reason)
}

// A cluster of two families has one address of each on each Node, in the order of its ranges. A global
// address is the Node's own if there is no internal one of its family.
func TestAddresses_dualStack(t *testing.T) {
	const four, six = "10.42.0.0/16", "2001:db8:42::/56"
	for name, tt := range map[string]struct {
		ranges, internal, external string
		own, outer                 []any
	}{
		"IPv4 first":       {four + "," + six, "10.0.0.1", "203.0.113.1, '2001:db8::1'", []any{"10.0.0.1", "2001:db8::1"}, []any{"203.0.113.1"}},
		"IPv6 first":       {six + "," + four, "10.0.0.1", "203.0.113.1, '2001:db8::1'", []any{"2001:db8::1", "10.0.0.1"}, []any{"203.0.113.1"}},
		"only global ones": {six + "," + four, "", "203.0.113.1, '2001:db8::1'", []any{"2001:db8::1", "203.0.113.1"}, nil},
		"internal IPv6":    {four + "," + six, "10.0.0.1, 'fd00::1'", "203.0.113.1, '2001:db8::1'", []any{"10.0.0.1", "fd00::1"}, []any{"203.0.113.1", "2001:db8::1"}},
		"no IPv6 address":  {four + "," + six, "10.0.0.1", "203.0.113.1", []any{"10.0.0.1"}, []any{"203.0.113.1"}},
		"IPv4 only":        {four, "10.0.0.1", "203.0.113.1, '2001:db8::1'", []any{"10.0.0.1"}, []any{"203.0.113.1"}},
		"IPv6 only":        {six, "10.0.0.1", "203.0.113.1, '2001:db8::1'", []any{"2001:db8::1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.spec("machineGlobalConfig: {cluster-cidr: '" + tt.ranges + "'}")
			addresses := ", internal: [" + tt.internal + "], external: [" + tt.external + "]}"
			w.machine("server-1", "{roles: etcd control-plane"+addresses)
			w.machine("worker-2", "{roles: worker"+addresses)
			w.plan()
			w.do("well")
			w.plan()
			for _, machine := range []string{"server-1", "worker-2"} {
				config := w.configOf(machine, "k3s")
				require.Equal(t, tt.own, config["node-ip"], machine)
				if tt.outer == nil {
					require.NotContains(t, config, "node-external-ip")
				} else {
					require.Equal(t, tt.outer, config["node-external-ip"], machine)
				}
			}
		})
	}
}

// A changed policy for the audit restarts only servers that run an API server.
func TestAuditPolicy(t *testing.T) {
	w := newWorld(t)
	w.spec("{kubernetesVersion: v1.36.3+rke2r1, machineGlobalConfig: {audit-policy-file: \"kind: Policy\\n\"}}")
	w.machine("server-1", "{roles: etcd control-plane}")
	w.machine("worker-2", "{roles: worker}")
	for range 2 {
		w.plan()
		w.do("well")
	}
	require.Contains(t, w.configOf("server-1", "rke2"), "audit-policy-file")
	require.NotContains(t, w.configOf("worker-2", "rke2"), "audit-policy-file")
	w.spec("machineGlobalConfig: {audit-policy-file: \"kind: Policy\\nrules: []\\n\", pod-security-admission-config-file: /etc/psa.yaml, kube-apiserver-extra-env: [A=b], etcd-extra-env: [A=b]}")
	require.NotNil(t, w.verdictOf("server-1").Delivery)
	require.Equal(t, rkev1.UpToDateReason, w.verdictOf("worker-2").Reason)
	w.plan()
	require.Contains(t, w.configOf("server-1", "rke2"), "kube-apiserver-extra-env")
	w.spec("machineGlobalConfig: {cloud-provider-config: /etc/cloud.conf, kube-proxy-arg: [v=2]}")
	w.do("well")
	w.plan()
	w.do("well")
	require.NotNil(t, w.verdictOf("worker-2").Delivery, "a worker reads them")
}
