package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// folder has files, whose names are given with slashes, and returns the path of config.yaml in it.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return filepath.Join(dir, "config.yaml")
}

func TestLoad(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  values
	}{
		"nothing is there": {nil, values{}},
		"one file":         {map[string]string{"config.yaml": "token: a\ncluster-init: true\nv: 1000000\n"}, values{"token": {"a"}, "cluster-init": {"true"}, "v": {"1000000"}}},
		"the later one counts": {map[string]string{
			"config.yaml": "token: a\nnode-label: [a=1, b=2]\n", "config.yaml.d/50-rancher.yaml": `{"token": "b", "node-label": ["c=3"]}`,
		}, values{"token": {"b"}, "node-label": {"c=3"}}},
		"files by their names": {map[string]string{
			"config.yaml.d/90-last.yml": "token: c\n", "config.yaml.d/50-rancher.yaml": "token: b\n", "config.yaml.d/99-other.txt": "token: d\n",
		}, values{"token": {"c"}}},
		"a plus adds": {map[string]string{
			"config.yaml": "kubelet-arg: max-pods=60\n", "config.yaml.d/50-rancher.yaml": `{"kubelet-arg+": ["v=2", "v=3"]}`,
			"config.yaml.d/60-user.yaml": "tls-san+: x\n",
		}, values{"kubelet-arg": {"max-pods=60", "v=2", "v=3"}, "tls-san": {"x"}}},
		"a plus beside the name itself": {map[string]string{"config.yaml": "tls-san+: [b]\ntls-san: [a]\n"}, values{"tls-san": {"a", "b"}}},
		"what is said without a plus later takes all away": {map[string]string{
			"config.yaml": "tls-san: a\n", "config.yaml.d/1.yaml": "tls-san+: b\n", "config.yaml.d/2.yaml": "tls-san: c\n",
		}, values{"tls-san": {"c"}}},
		"null says nothing": {map[string]string{"config.yaml": "tls-san: null\n"}, values{"tls-san": nil}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := load(folder(t, tt.files))
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

const token = "token: secret\n"

func TestRead(t *testing.T) {
	c, err := Read(folder(t, map[string]string{"config.yaml.d/50-rancher.yaml": `{
  "advertise-address": "198.18.0.2", "agent-token": "agent-password", "cluster-init": true,
  "etcd-arg": ["quota-backend-bytes=1"], "etcd-snapshot-retention": 3,
  "kube-controller-manager-arg": ["cert-dir=/var/lib/rancher/k3s/server/tls/kube-controller-manager", "secure-port=10257"],
  "kubelet-arg": ["max-pods=60", "provider-id=digitalocean://1"], "node-external-ip": ["203.0.113.1"], "node-ip": ["198.18.0.2"],
  "node-label": ["disk=ssd"], "tls-san": ["api.example.org", "198.18.0.2"], "token": "server-password"
}`, "config.yaml.d/51-rancher-node.yaml": `{"node-label+": ["team=shop"], "node-taint+": ["a=b:NoSchedule"]}`}), Server, "Web-1")
	require.NoError(t, err)
	require.Equal(t, "198.18.0.2", c.NodeIP.String())
	require.Equal(t, "198.18.0.2", c.Advertise.String())
	require.Equal(t, "198.18.128.0/18", c.Pods.String())
	require.Equal(t, "198.18.192.0/19", c.Services.String())
	require.Equal(t, []string{"etcd-arg", "etcd-snapshot-retention"}, c.Unused)
	require.Equal(t, []string{"max-pods=60", "provider-id=digitalocean://1"}, c.Arguments["kubelet"])
	require.Equal(t, []string{"cert-dir=/var/lib/rancher/k3s/server/tls/kube-controller-manager", "secure-port=10257"}, c.Arguments["kube-controller-manager"])
	require.Equal(t, []string{"api.example.org", "198.18.0.2", "203.0.113.1"}, c.Names)
	require.Equal(t, []any{"web-1", "/var/lib/rancher/k3s", "server-password", "agent-password", "/etc/rancher/k3s/registries.yaml"},
		[]any{c.NodeName, c.DataDir, c.Token, c.AgentToken, c.Registries})
	require.Equal(t, []any{[]string{"disk=ssd", "team=shop"}, []string{"a=b:NoSchedule"}}, []any{c.NodeLabels, c.NodeTaints})
}

func TestRead_of_an_agent(t *testing.T) {
	file := folder(t, map[string]string{"token": " K10abc::node:p\n"})
	path := filepath.Join(filepath.Dir(file), "token")
	require.NoError(t, os.WriteFile(file, []byte("server: https://198.18.0.2:6443\ntoken-file: "+path+"\n"), 0o600))
	c, err := Read(file, Agent, "web-2")
	require.NoError(t, err)
	require.Equal(t, []string{"https://198.18.0.2:6443", "K10abc::node:p"}, []string{c.Server, c.Token})
}

func TestRead_refuses(t *testing.T) {
	for name, tt := range map[string]struct {
		role          Role
		content, says string
	}{
		"an unknown key":            {Server, token + "no-such-key: 1\n", "no-such-key is not an argument of k3s server"},
		"a key of the other role":   {Agent, token + "server: https://a:6443\ncluster-cidr: 198.18.128.0/18\n", "cluster-cidr is not an argument of k3s agent"},
		"a map":                     {Server, token + "kubelet-arg: {a: b}\n", "kubelet-arg: it is neither"},
		"a list of lists":           {Server, token + "kubelet-arg: [[a]]\n", "kubelet-arg: it is a list of lists"},
		"no YAML":                   {Server, "a: [", "reading"},
		"a key twice":               {Server, token + token, `key "token" already set`},
		"no token":                  {Server, "", "token is not set"},
		"no file of the token":      {Server, "token-file: /none\n", "token-file: open /none"},
		"a second server":           {Server, token + "server: https://a:6443\n", "localkube has one server"},
		"a server in parts":         {Server, token + "disable-etcd: true\n", "disable-etcd is not an argument"},
		"an agent of nobody":        {Agent, token, "server is not set"},
		"an agent of a wrong place": {Agent, token + "server: a:6443\n", "not of the form"},
		"an address of IPv6":        {Server, token + "node-ip: 2001:db8::1\n", "one address, of IPv4"},
		"two addresses":             {Server, token + "node-ip: 198.18.0.2,198.18.0.3\n", "one address, of IPv4"},
		"two ranges":                {Server, token + "cluster-cidr: [198.18.128.0/18, 2001:db8::/56]\n", "not one range of IPv4"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(folder(t, map[string]string{"config.yaml": tt.content}), tt.role, "h")
			require.ErrorContains(t, err, tt.says)
		})
	}
}
