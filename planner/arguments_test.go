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
