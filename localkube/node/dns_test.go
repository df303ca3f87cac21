package node

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/kubelet/network/dns"
	"sigs.k8s.io/yaml"
)

// resolvConf writes a resolver configuration.
func resolvConf(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "resolv.conf")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// names is what the kubelet's configuration says of names.
type names struct {
	ClusterDNS    []string `json:"clusterDNS"`
	ClusterDomain string   `json:"clusterDomain"`
	ResolvConf    string   `json:"resolvConf"`
}

// writtenNames reads them from the file the kubelet is started with.
func writtenNames(t *testing.T, n *Node) names {
	t.Helper()
	_, err := n.kubelet()
	require.NoError(t, err)
	raw, err := os.ReadFile(n.dir.kubeletConfig())
	require.NoError(t, err)
	var got names
	require.NoError(t, yaml.Unmarshal(raw, &got))
	return got
}

func TestNameServers(t *testing.T) {
	for name, tc := range map[string]struct {
		conf string
		want []string
	}{
		"empty":                 {"", nil},
		"comments":              {"# nameserver 198.18.0.1\n; nameserver 198.18.0.2\n", nil},
		"no address":            {"nameserver\nnameserver dns.example\n", nil},
		"other keywords":        {"search example.com\noptions ndots:2\nnameservers 198.18.0.1\n", nil},
		"one":                   {"nameserver 198.18.0.53\n", []string{"198.18.0.53"}},
		"no newline at the end": {"nameserver 198.18.0.53", []string{"198.18.0.53"}},
		"tabs and more words":   {"\tnameserver\t198.18.0.53  # office\r\n", []string{"198.18.0.53"}},
		"order":                 {"nameserver 198.18.0.9\nnameserver 198.18.0.1\n", []string{"198.18.0.9", "198.18.0.1"}},
		"twice the same":        {"nameserver 198.18.0.9\nnameserver 198.18.0.9\n", []string{"198.18.0.9"}},
		"IPv6, once with zone":  {"nameserver fe80::1%eth0\nnameserver 2001:db8::0:1\n", []string{"2001:db8::1"}},
		"four": {
			"nameserver 198.18.0.1\nnameserver 198.18.0.2\nnameserver 198.18.0.3\nnameserver 198.18.0.4\n",
			[]string{"198.18.0.1", "198.18.0.2", "198.18.0.3"},
		},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, nameServers(tc.conf)) })
	}
}

func TestDNS(t *testing.T) {
	office := resolvConf(t, "search example.com\nnameserver 198.18.0.53\n")
	silent := resolvConf(t, "search example.com\n")
	for name, tc := range map[string]struct {
		file string
		args []string
		want names
	}{
		"named":  {file: office, want: names{ClusterDNS: []string{"198.18.0.53"}, ResolvConf: office}},
		"silent": {file: silent, want: names{ClusterDNS: []string{"127.0.0.1"}, ResolvConf: silent}},
		"own":    {file: office, args: []string{"cluster-dns=198.19.128.10"}, want: names{ClusterDomain: "cluster.local", ResolvConf: office}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.opts.ResolvConf, n.opts.KubeletArgs = tc.file, tc.args
			require.Equal(t, tc.want, writtenNames(t, n))
		})
	}
}

func TestKubelet_names_a_missing_resolver_configuration(t *testing.T) {
	n := newNode(t)
	n.opts.ResolvConf = filepath.Join(t.TempDir(), "gone")
	_, err := n.kubelet()
	require.EqualError(t, err, "reading resolver configuration for pods: open "+n.opts.ResolvConf+": no such file or directory")
	require.NoFileExists(t, n.dir.kubeletConfig())
}

// The kubelet's own code decides what a pod gets and whether it warns.
func TestPods_get_name_servers_without_a_warning(t *testing.T) {
	file := resolvConf(t, "search example.com\nnameserver 198.18.0.53\n")
	for policy, want := range map[corev1.DNSPolicy][]string{
		corev1.DNSClusterFirst: {"198.18.0.53"}, corev1.DNSDefault: {"198.18.0.53"}, corev1.DNSNone: nil,
	} {
		n := newNode(t)
		n.opts.ResolvConf = file
		got := writtenNames(t, n)
		var servers []net.IP
		for _, server := range got.ClusterDNS {
			servers = append(servers, net.ParseIP(server))
		}
		events := record.NewFakeRecorder(9)
		kubelet := dns.NewConfigurer(events, &corev1.ObjectReference{}, []net.IP{n.address}, servers, got.ClusterDomain, got.ResolvConf)
		conf, err := kubelet.GetPodDNS(t.Context(), &corev1.Pod{Spec: corev1.PodSpec{DNSPolicy: policy}})
		require.NoError(t, err)
		require.ElementsMatch(t, want, conf.Servers, policy)
		require.Empty(t, events.Events, policy)
		if policy != corev1.DNSNone {
			require.Equal(t, []string{"example.com"}, conf.Searches, "names of Services are asked of nobody elsewhere")
		}
	}
}

func FuzzNameServers(f *testing.F) {
	f.Add("nameserver 198.18.0.53\nnameserver ::1\n")
	f.Add("nameserver fe80::1%lo\x00")
	f.Fuzz(func(t *testing.T, conf string) {
		servers := nameServers(conf)
		require.LessOrEqual(t, len(servers), maxNameServers)
		for _, server := range servers {
			require.NotNil(t, net.ParseIP(server), "the kubelet drops what is no address")
		}
	})
}
