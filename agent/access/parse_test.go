package access

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const kubeconfig = `current-context: x
contexts: [{name: x, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://drover.example", certificate-authority-data: eA==}}]
users: [{name: u, user: {token: t}}]`

func TestParseKubeconfig(t *testing.T) {
	server, ca, token, err := parseKubeconfig(kubeconfig)
	require.NoError(t, err)
	require.Equal(t, []string{"https://drover.example", "x", "t"}, []string{server, string(ca), token})
	for name, content := range map[string]string{
		"no YAML":              "{",
		"a file of ours":       `{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: "https://a", certificate-authority: /etc/passwd}}], users: [{name: u, user: {token: t}}]}`,
		"no TLS":               `{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: "https://a", insecure-skip-tls-verify: true}}], users: [{name: u, user: {token: t}}]}`,
		"a program":            `{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: "https://a"}}], users: [{name: u, user: {exec: {command: evil, apiVersion: v1}}}]}`,
		"a token in two lines": `{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: "https://a"}}], users: [{name: u, user: {token: "a\nb"}}]}`,
		"nothing":              "",
	} {
		t.Run(name, func(t *testing.T) {
			_, _, _, err := parseKubeconfig(content)
			require.Error(t, err)
		})
	}
}

// FuzzConnection: a connection file and its kubeconfig are refused, or an address with TLS and a token that is one line.
func FuzzConnection(f *testing.F) {
	f.Add([]byte(kubeconfig))
	f.Add([]byte(`{"kubeConfig":"k","namespace":"n","secretName":"s","receivedAt":"2026-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		_, _ = parseSaved(content)
		server, ca, token, err := parseKubeconfig(string(content))
		if err != nil {
			return
		}
		require.NotContains(t, token, "\n")
		if to, err := newTarget(server, ca, token, nil); err == nil {
			require.Equal(t, "https", to.server.Scheme)
			require.NotEmpty(t, to.server.Host)
		}
	})
}
