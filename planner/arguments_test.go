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
