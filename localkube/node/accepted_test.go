package node

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/kubelet/apis/config"
	kubeletscheme "k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	kubeletvalidation "k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	proxyconfig "k8s.io/kubernetes/pkg/proxy/apis/config"
	proxyscheme "k8s.io/kubernetes/pkg/proxy/apis/config/scheme"
	proxyvalidation "k8s.io/kubernetes/pkg/proxy/apis/config/validation"
)

// The kubelet's own code reads and checks what we write for it.
func TestKubelet_accepts_its_configuration(t *testing.T) {
	n := newNode(t)
	n.opts.ResolvConf = resolvConf(t, "nameserver 198.18.0.53\n")
	_, err := n.kubelet()
	require.NoError(t, err)
	raw, err := os.ReadFile(n.dir.kubeletConfig())
	require.NoError(t, err)
	_, codecs, err := kubeletscheme.NewSchemeAndCodecs()
	require.NoError(t, err)
	got := &config.KubeletConfiguration{}
	require.NoError(t, decodeInto(codecs.UniversalDecoder(), raw, got))
	require.NoError(t, kubeletvalidation.ValidateKubeletConfiguration(got, utilfeature.DefaultFeatureGate))

	require.False(t, got.Authentication.Anonymous.Enabled, "a kubelet runs whatever it is asked to")
	require.True(t, got.Authentication.Webhook.Enabled)
	require.Equal(t, n.cluster.CAFile, got.Authentication.X509.ClientCAFile)
	require.EqualValues(t, config.KubeletAuthorizationModeWebhook, got.Authorization.Mode)
	require.Zero(t, got.ReadOnlyPort)
	require.Equal(t, "198.18.0.2", got.Address)
	require.EqualValues(t, 100, got.ImageGCHighThresholdPercent, "images that were imported cannot be pulled again")
	require.False(t, got.FailSwapOn)
	require.False(t, got.FailCgroupV1)
}

func TestProxy_accepts_its_configuration(t *testing.T) {
	n := newNode(t)
	_, err := n.proxy()
	require.NoError(t, err)
	raw, err := os.ReadFile(n.dir.proxyConfig())
	require.NoError(t, err)
	got := &proxyconfig.KubeProxyConfiguration{}
	require.NoError(t, decodeInto(proxyscheme.Codecs.UniversalDecoder(), raw, got))
	require.Empty(t, proxyvalidation.Validate(got))
	require.EqualValues(t, "iptables", got.Mode)
	require.Equal(t, []string{"198.19.0.0/17"}, got.DetectLocal.ClusterCIDRs)
	require.False(t, *got.IPTables.LocalhostNodePorts, "it would need a kernel setting that opens loopback")
}

// containerd itself reads its configuration, where it is installed.
func TestContainerd_accepts_its_configuration(t *testing.T) {
	if _, err := exec.LookPath("containerd"); err != nil {
		t.Skip("containerd is not installed")
	}
	l := newLayout(t)
	spec, err := l.containerd()
	require.NoError(t, err)
	out, err := exec.Command(spec.Path, append(spec.Args, "config", "dump")...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, want := range []string{
		`address = "` + l.containerdSocket() + `"`, `root = "` + l.Path("containerd", "root") + `"`, `sandbox_image = "` + PauseImage + `"`,
		`bin_dir = "/usr/lib/cni"`, `conf_dir = "` + l.cniConfig() + `"`, `restrict_oom_score_adj = true`, `SystemdCgroup = false`,
	} {
		require.Contains(t, string(out), want)
	}
}
