package node

import (
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-project/drover/localkube/pki"
	"github.com/drover-project/drover/localkube/process"
)

// newNode is a node that was never started: enough to render its files.
func newNode(t *testing.T) *Node {
	t.Helper()
	l := newLayout(t)
	return &Node{
		dir: l, opts: Options{Name: "worker"}, address: net.IPv4(198, 18, 0, 2),
		cluster: Cluster{
			APIServer: "https://198.18.0.1:6443", CA: []byte("authority"), CAFile: l.Path("pki", "ca.crt"),
			PodCIDR: "198.19.0.0/17", ServiceCIDR: "198.19.128.0/17",
		},
		identities: Identities{
			Kubelet: pki.PairAt(l.Path("pki"), "kubelet"), KubeletServing: pki.PairAt(l.Path("pki"), "kubelet-serving"),
			Proxy: pki.PairAt(l.Path("pki"), "kube-proxy"),
		},
	}
}

// command is how a component is run, one argument a line.
func command(l layout, spec process.Spec) string {
	lines := append([]string{spec.Path}, spec.Args...)
	return strings.ReplaceAll(strings.Join(lines, "\n")+"\n", l.Root(), "DATA")
}

func TestContainerd(t *testing.T) {
	l := newLayout(t)
	require.NoError(t, l.Write([]byte("stale"), "containerd", "containerd.sock"))
	spec, err := l.containerd()
	require.NoError(t, err)
	golden(t, l, "containerd", "config.toml")
	goldenText(t, "containerd.args", command(l, spec))
	require.Equal(t, l.Log("containerd"), spec.Log)
	require.False(t, spec.Restart, "its pods' shims belong to the run that made them")
	require.DirExists(t, l.cniConfig(), "containerd watches it from the start")
	require.NoFileExists(t, l.containerdSocket(), "nobody may wait on an earlier run's socket")
}

func TestKubelet(t *testing.T) {
	n := newNode(t)
	spec, err := n.kubelet()
	require.NoError(t, err)
	golden(t, n.dir, "kubelet.yaml")
	goldenText(t, "kubelet.args", command(n.dir, spec))
	require.True(t, spec.Restart)
	require.Equal(t, n.dir.Log("kubelet"), spec.Log)
}

func TestKubelet_takes_the_users_wishes(t *testing.T) {
	n := newNode(t)
	n.opts.Labels = []string{"a=b", "c=d"}
	n.opts.KubeletArgs = []string{"v=4", "max-pods=9"}
	n.opts.ResolvConf = resolvConf(t, "nameserver 198.18.0.53\n")
	spec, err := n.kubelet()
	require.NoError(t, err)
	require.Contains(t, spec.Args, "--node-labels=a=b,c=d")
	require.Equal(t, []string{"--v=4", "--max-pods=9"}, spec.Args[len(spec.Args)-2:], "the user's flags come last and win")
	raw, err := os.ReadFile(n.dir.kubeletConfig())
	require.NoError(t, err)
	require.Contains(t, string(raw), "resolvConf: "+n.opts.ResolvConf+"\n")
}

func TestProxy(t *testing.T) {
	n := newNode(t)
	spec, err := n.proxy()
	require.NoError(t, err)
	golden(t, n.dir, "kube-proxy.yaml")
	goldenText(t, "kube-proxy.args", command(n.dir, spec))
	require.True(t, spec.Restart)
}

func TestWriteCNI(t *testing.T) {
	n := newNode(t)
	require.NoError(t, n.writeCNI("198.19.1.0/24"))
	golden(t, n.dir, "cni", "conf", "10-localkube.conflist")
}

func TestWriteKubeconfigs(t *testing.T) {
	n := newNode(t)
	require.ErrorContains(t, n.writeKubeconfigs(t.Context()), "reading certificate of system:", "certificates come first")

	store, err := pki.Open(n.dir.Path("pki"))
	require.NoError(t, err)
	for name, subject := range map[string]pki.Subject{"kubelet": KubeletSubject("worker"), "kube-proxy": ProxySubject()} {
		_, err := store.Issue(store.Cluster, name, subject)
		require.NoError(t, err)
	}
	require.NoError(t, n.writeKubeconfigs(t.Context()))
	for name, user := range map[string]string{KubeletName: "system:node:worker", ProxyName: "system:kube-proxy"} {
		cfg, err := clientcmd.LoadFromFile(n.dir.kubeconfig(name))
		require.NoError(t, err)
		require.Equal(t, user, cfg.Contexts[cfg.CurrentContext].AuthInfo)
		require.Equal(t, n.cluster.APIServer, cfg.Clusters[cfg.Contexts[cfg.CurrentContext].Cluster].Server)
		info, err := os.Stat(n.dir.kubeconfig(name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	raw, err := os.ReadFile(n.resolvConf())
	require.NoError(t, err)
	require.NotContains(t, string(raw), "nameserver", "pods ask nobody unless told to")
}

func TestClient_without_kubeconfig(t *testing.T) {
	n := newNode(t)
	_, err := n.client(KubeletName)
	require.ErrorContains(t, err, "reading kubeconfig of kubelet")
	require.Error(t, n.startRoutes())
	require.Error(t, n.followPodRange(t.Context()))
}

func TestSubjects(t *testing.T) {
	require.Equal(t, pki.Subject{Name: "system:node:n", Groups: []string{"system:nodes"}}, KubeletSubject("n"))
	serving := KubeletServingSubject("n", net.IPv4(198, 18, 0, 2))
	require.Equal(t, []string{"n"}, serving.DNSNames)
	require.Equal(t, "198.18.0.2", serving.Addresses[0].String())
	require.NotContains(t, serving.Name, "system:", "a serving certificate must not speak for a node")
	require.Empty(t, ProxySubject().Groups)
}

func TestNew_names_every_missing_program(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := New(t.Context(), Config{})
	for _, want := range []string{
		"containerd (package containerd)", "runc (package runc)", "iptables (package iptables)", "conntrack (package conntrack)",
	} {
		require.ErrorContains(t, err, want)
	}
	require.Equal(t, 1, strings.Count(err.Error(), "ctr ("))
}

func TestImportImages_names_the_archive(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	l := newLayout(t)
	require.NoError(t, ImportImages(t.Context(), l.Dir), "no archives, nothing to do")
	require.ErrorContains(t, ImportImages(t.Context(), l.Dir, "a.tar", "b.tar"), "importing image a.tar")
}

func TestImportImages_asks_ctr(t *testing.T) {
	bin := t.TempDir()
	script := "#!/bin/sh\necho \"$@\" >>" + bin + "/calls\ncase \"$*\" in *bad.tar) echo broken archive; exit 1;; esac\n"
	require.NoError(t, os.WriteFile(bin+"/ctr", []byte(script), 0o700))
	t.Setenv("PATH", bin)
	l := newLayout(t)
	require.NoError(t, ImportImages(t.Context(), l.Dir, "a.tar", "b.tar"))
	err := ImportImages(t.Context(), l.Dir, "bad.tar", "never.tar")
	require.ErrorContains(t, err, "importing image bad.tar: exit status 1: broken archive")
	raw, err := os.ReadFile(bin + "/calls")
	require.NoError(t, err)
	calls := slices.Collect(strings.Lines(string(raw)))
	require.Len(t, calls, 3, "it stops at the first that fails")
	for _, call := range calls {
		require.Contains(t, call, "--address "+l.containerdSocket()+" --namespace k8s.io images import")
	}
}
