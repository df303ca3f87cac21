package node

import (
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/kubelet/apis/config"
	kubeletscheme "k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	kubeletvalidation "k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	proxyconfig "k8s.io/kubernetes/pkg/proxy/apis/config"
	proxyscheme "k8s.io/kubernetes/pkg/proxy/apis/config/scheme"
	proxyvalidation "k8s.io/kubernetes/pkg/proxy/apis/config/validation"

	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/identity"
)

// The kubelet's own code reads and checks what we write for it.
func TestKubelet_accepts_its_configuration(t *testing.T) {
	n := &Node{Config: Config{
		Name: "n", Address: net.IPv4(198, 18, 0, 2), Dir: datadir.Dir(t.TempDir()), HealthPort: 10248,
		Files:     identity.NodeFiles{ClientCA: "/client-ca.crt", Serving: identity.Pair{Certificate: "/serving.crt", Key: "/serving.key"}},
		Arguments: map[string][]string{"kubelet": {"max-pods=60", "node-ip=198.18.0.3"}},
	}}
	spec, err := n.kubelet()
	require.NoError(t, err)
	raw, err := os.ReadFile(n.Dir.Path("kubelet.yaml"))
	require.NoError(t, err)
	_, codecs, err := kubeletscheme.NewSchemeAndCodecs()
	require.NoError(t, err)
	got := &config.KubeletConfiguration{}
	require.NoError(t, decodeInto(codecs.UniversalDecoder(), raw, got))
	require.NoError(t, kubeletvalidation.ValidateKubeletConfiguration(got, utilfeature.DefaultFeatureGate))

	require.False(t, got.Authentication.Anonymous.Enabled, "a kubelet runs whatever it is asked to")
	require.True(t, got.Authentication.Webhook.Enabled)
	require.Equal(t, "/client-ca.crt", got.Authentication.X509.ClientCAFile)
	require.Equal(t, []any{"/serving.crt", "/serving.key", int32(10248)}, []any{got.TLSCertFile, got.TLSPrivateKeyFile, got.HealthzPort})
	require.EqualValues(t, config.KubeletAuthorizationModeWebhook, got.Authorization.Mode)
	require.Zero(t, got.ReadOnlyPort)
	require.Equal(t, "198.18.0.2", got.Address)
	require.EqualValues(t, 100, got.ImageGCHighThresholdPercent, "images that were imported cannot be pulled again")
	require.False(t, got.FailSwapOn)
	require.False(t, got.FailCgroupV1)
	require.Subset(t, spec.Args, []string{"kubelet", "--hostname-override=n", "--max-pods=60", "--node-ip=198.18.0.3"})
	require.NotContains(t, spec.Args, "--node-ip=198.18.0.2", "the user's takes the place of ours")
}

func TestProxy_accepts_its_configuration(t *testing.T) {
	n := &Node{Config: Config{Name: "n", Address: net.IPv4(198, 18, 0, 2), Dir: datadir.Dir(t.TempDir()), Pods: "198.19.0.0/17"}}
	_, err := n.proxy()
	require.NoError(t, err)
	raw, err := os.ReadFile(n.Dir.Path("kube-proxy.yaml"))
	require.NoError(t, err)
	got := &proxyconfig.KubeProxyConfiguration{}
	require.NoError(t, decodeInto(proxyscheme.Codecs.UniversalDecoder(), raw, got))
	require.Empty(t, proxyvalidation.Validate(got))
	require.EqualValues(t, "iptables", got.Mode)
	require.Equal(t, []string{"198.19.0.0/17"}, got.DetectLocal.ClusterCIDRs)
	require.False(t, *got.IPTables.LocalhostNodePorts, "it would need a kernel setting that opens loopback")
}

// decodeInto reads a configuration as the component does.
func decodeInto(decoder runtime.Decoder, raw []byte, into runtime.Object) error {
	_, _, err := decoder.Decode(raw, nil, into)
	return err
}
