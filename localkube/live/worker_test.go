package live_test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/join"
	"github.com/drover-project/drover/localkube/pki"
)

// worker is a machine that has joined: kubeconfigs of what it was given.
type worker struct {
	server                  *instance
	kubelet, serving, proxy string
}

// joinAs joins as an agent does and keeps the identities, but runs no node.
func joinAs(t *testing.T, server *instance, joinURL, name, address string) worker {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(server.dir, "pki", "token-agent"))
	require.NoError(t, err)
	token, err := pki.ParseToken(string(raw))
	require.NoError(t, err)
	client, err := join.Dial(t.Context(), joinURL, token)
	require.NoError(t, err)
	dir := t.TempDir()
	pair := func(name string) pki.Pair { return pki.PairAt(dir, name) }
	req := join.AgentRequest{
		NodeName: name, Address: address,
		Kubelet: public(t, pair("kubelet").Key), KubeletServing: public(t, pair("serving").Key), Proxy: public(t, pair("proxy").Key),
	}
	res, err := client.AddAgent(t.Context(), req)
	require.NoError(t, err)
	kubeconfig := func(name string, cert []byte) string {
		require.NoError(t, os.WriteFile(pair(name).Cert, cert, 0o600))
		path := filepath.Join(dir, name+".kubeconfig")
		require.NoError(t, pki.Kubeconfig{Server: res.APIServer, CA: client.CA(), User: name, Pair: pair(name)}.Write(path))
		return path
	}
	return worker{server, kubeconfig("kubelet", res.Kubelet), kubeconfig("serving", res.KubeletServing), kubeconfig("proxy", res.Proxy)}
}

func public(t *testing.T, keyFile string) []byte {
	t.Helper()
	key, err := pki.OpenKey(keyFile)
	require.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

const nodes = `
apiVersion: v1
kind: Node
metadata: {name: other}
---
apiVersion: v1
kind: Secret
metadata: {name: foreign}
---
apiVersion: v1
kind: Pod
metadata: {name: foreign}
spec: {nodeName: other, automountServiceAccountToken: false, containers: [{name: a, image: a, env: [{name: A, valueFrom: {secretKeyRef: {name: foreign, key: a}}}]}]}
---
apiVersion: v1
kind: Secret
metadata: {name: mine}
---
apiVersion: v1
kind: Pod
metadata: {name: mine}
spec: {nodeName: worker, automountServiceAccountToken: false, containers: [{name: a, image: a, env: [{name: A, valueFrom: {secretKeyRef: {name: mine, key: a}}}]}]}
`

// asNode is a manifest with which a kubelet registers.
func asNode(name, more string) string {
	return "apiVersion: v1\nkind: Node\nmetadata: {name: " + name + more + "}\n"
}

const mirror = `
apiVersion: v1
kind: Pod
metadata: {name: escape, namespace: default}
spec: {nodeName: worker, containers: [{name: a, image: a}]}
`

// workersMayDoWhatNodesMay joins a worker and tries what its credentials are good for.
func workersMayDoWhatNodesMay(t *testing.T, server *instance) {
	t.Helper()
	w := joinAs(t, server, server.logged(t, `join at (https://\S+)`), "worker", "198.18.0.2")
	created, err := w.as(t, w.kubelet, asNode("worker", ""), "create", "-f", "FILE")
	require.NoError(t, err, created)
	server.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
	server.apply(nodes)

	for name, tc := range workerCases(w) {
		t.Run(name, func(t *testing.T) {
			out, err := w.as(t, tc.who, tc.manifest, tc.args...)
			if tc.refused == "" {
				require.NoError(t, err, out)
				return
			}
			require.Error(t, err)
			require.Contains(t, out, tc.refused)
		})
	}
}

// as runs kubectl with a kubeconfig; FILE stands for the manifest.
func (w worker) as(t *testing.T, kubeconfig, manifest string, args ...string) (string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifest.yaml")
	require.NoError(t, os.WriteFile(path, []byte(manifest), 0o600))
	line := strings.ReplaceAll(strings.Join(args, "\x00"), "FILE", path)
	return run(t, append([]string{"kubectl", "--kubeconfig", kubeconfig}, strings.Split(line, "\x00")...)...)
}

type workerCase struct {
	who      string
	manifest string
	args     []string
	refused  string
}

func workerCases(w worker) map[string]workerCase {
	const forbidden = "is forbidden"
	return map[string]workerCase{
		"own node":                        {w.kubelet, "", []string{"get", "node", "worker"}, ""},
		"label on the own node":           {w.kubelet, "", []string{"label", "node", "worker", "zone=a"}, ""},
		"Secret of the own pod":           {w.kubelet, "", []string{"get", "secret", "mine"}, ""},
		"own lease":                       {w.kubelet, "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: worker, namespace: kube-node-lease}\n", []string{"create", "-f", "FILE"}, ""},
		"every Secret":                    {w.kubelet, "", []string{"get", "secrets", "-A"}, forbidden},
		"Secret of another's pod":         {w.kubelet, "", []string{"get", "secret", "foreign"}, forbidden},
		"another node's labels":           {w.kubelet, "", []string{"label", "node", "other", "zone=a"}, forbidden},
		"a restricted label":              {w.kubelet, "", []string{"label", "node", "worker", "node-restriction.kubernetes.io/team=a"}, "is not allowed to modify labels"},
		"the label of a control plane":    {w.kubelet, "", []string{"label", "node", "worker", "node-role.kubernetes.io/control-plane="}, "is not allowed to modify labels"},
		"a taint taken off":               {w.kubelet, "", []string{"taint", "node", "worker", "a=b:NoSchedule"}, "is not allowed to modify taints"},
		"another node":                    {w.kubelet, asNode("more", ""), []string{"create", "-f", "FILE"}, "is not allowed to modify node"},
		"a pod":                           {w.kubelet, mirror, []string{"create", "-f", "FILE"}, "can only create mirror pods"},
		"another's pod deleted":           {w.kubelet, "", []string{"delete", "pod", "foreign"}, "can only delete pods with spec.nodeName set to itself"},
		"a role":                          {w.kubelet, "", []string{"create", "clusterrolebinding", "x", "--clusterrole=cluster-admin", "--user=x"}, forbidden},
		"a token of an account":           {w.kubelet, "", []string{"create", "token", "default"}, forbidden},
		"somebody else":                   {w.kubelet, "", []string{"get", "secrets", "--as=localkube-admin"}, "cannot impersonate"},
		"a command in a pod":              {w.kubelet, "", []string{"exec", "mine", "--", "sh"}, forbidden},
		"services, as kube-proxy":         {w.proxy, "", []string{"get", "services", "-A"}, ""},
		"nodes, as kube-proxy":            {w.proxy, "", []string{"get", "nodes"}, ""},
		"Secrets, as kube-proxy":          {w.proxy, "", []string{"get", "secrets", "-A"}, forbidden},
		"pods, as kube-proxy":             {w.proxy, "", []string{"get", "pods", "-A"}, forbidden},
		"nodes, with a serving identity":  {w.serving, "", []string{"get", "nodes"}, forbidden},
		"secrets with a serving identity": {w.serving, "", []string{"get", "secrets"}, forbidden},
	}
}

// refusedJoins says what a user reads whose agent is not let in.
func refusedJoins(t *testing.T, server *instance) {
	t.Helper()
	url := server.logged(t, `join at (https://\S+)`)
	dir := filepath.Join(server.dir, "pki")
	stranger, err := pki.Open(t.TempDir())
	require.NoError(t, err)
	other, err := stranger.Token(pki.RoleAgent)
	require.NoError(t, err)
	raw, err := os.ReadFile(filepath.Join(dir, "token-agent"))
	require.NoError(t, err)
	good := strings.TrimSpace(string(raw))
	late := strings.TrimSpace(must(t, "token", "--data-dir", server.dir, "--ttl", "1ns"))
	further := strings.TrimSpace(must(t, "token", "--data-dir", server.dir, "--role", "server"))
	const notValid = "/v1/agent: 401 Unauthorized: the join token is not valid for this: " +
		"a node needs the content of a server's DATA/pki/token-agent, a further server that of token-server\n"
	for name, tc := range map[string]struct{ token, name, want string }{
		"another cluster's token": {other.String(), "w2", "localkube: joining " + url + ": the server's certificate authority is not the one the join token names: take the token from a server of that cluster, or correct the URL\n"},
		"a wrong secret":          {good[:len(good)-4] + "0000", "w2", notValid},
		"a server's token":        {further, "w2", notValid},
		"an expired token":        {late, "w2", "/v1/agent: 401 Unauthorized: the join token has expired: make a new one with localkube token\n"},
		"the server's name":       {good, "boss", "/v1/agent: 403 Forbidden: node name boss is this server's: set another --node-name: denied\n"},
		"another machine's name":  {good, "worker", "/v1/agent: 403 Forbidden: node name worker belongs to another machine: set another --node-name, or remove " + filepath.Join(server.dir, "join", "worker") + " if that machine is gone: denied\n"},
		"the API server's name":   {good, "kubernetes.default", "/v1/agent: 403 Forbidden: node name kubernetes.default is the API server's: set another --node-name: denied\n"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "token")
			require.NoError(t, os.WriteFile(file, []byte(tc.token+"\n"), 0o600))
			out, err := run(t, "agent", "--data-dir", filepath.Join(filepath.Dir(server.dir), "agent"), "--server", url, "--token-file", file,
				"--node-name", tc.name, "--node-ip", "198.18.0.3")
			require.Error(t, err)
			require.Contains(t, out, tc.want)
			require.NotContains(t, out, strings.Split(tc.token, ".")[2], "a token is no part of a message")
		})
	}
}
