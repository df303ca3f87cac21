package pki_test

import (
	"crypto/tls"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-project/drover/localkube/pki"
)

var update = flag.Bool("update", false, "write the golden files anew")

// secured answers with the caller's name and lets in who has a certificate of an authority.
func secured(t *testing.T, store *pki.Store, clients *pki.Authority) string {
	t.Helper()
	pair, err := store.Issue(store.Cluster, "serving", pki.Subject{Name: "serving", Addresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	require.NoError(t, err)
	cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: clients.Pool(), ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// ask gets a page as the user of a kubeconfig.
func ask(t *testing.T, path string) (string, error) {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	client, err := rest.HTTPClientFor(cfg)
	require.NoError(t, err)
	res, err := client.Get(cfg.Host)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(raw), nil
}

func TestKubeconfig_speaks_over_real_TLS(t *testing.T) {
	store, dir := opened(t)
	stranger, _ := opened(t)
	for name, tc := range map[string]struct {
		trusts, clients *pki.Authority
		by              *pki.Authority
		want            string
		err             string
	}{
		"its own cluster":                  {store.Cluster, store.Cluster, store.Cluster, "alice", ""},
		"a user of etcd":                   {store.Cluster, store.Cluster, store.Etcd, "", "remote error: tls"},
		"a user of the front proxy":        {store.Cluster, store.Cluster, store.FrontProxy, "", "remote error: tls"},
		"a user of another cluster":        {store.Cluster, store.Cluster, stranger.Cluster, "", "remote error: tls"},
		"a server that is somebody else":   {stranger.Cluster, store.Cluster, store.Cluster, "", "certificate signed by unknown authority"},
		"etcd lets in its own users":       {store.Cluster, store.Etcd, store.Etcd, "alice", ""},
		"etcd lets in no user of the API":  {store.Cluster, store.Etcd, store.Cluster, "", "remote error: tls"},
		"front proxy lets in no such user": {store.Cluster, store.FrontProxy, store.Cluster, "", "remote error: tls"},
	} {
		t.Run(name, func(t *testing.T) {
			pair, err := store.Issue(tc.by, "alice", pki.Subject{Name: "alice"})
			require.NoError(t, err)
			path := filepath.Join(dir, "kubeconfig")
			cfg := pki.Kubeconfig{Server: secured(t, store, tc.clients), CA: tc.trusts.CertPEM(), User: "alice", Pair: pair}
			require.NoError(t, cfg.Write(path))
			got, err := ask(t, path)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestKubeconfig_golden(t *testing.T) {
	store, _ := opened(t)
	pair, err := store.Issue(store.Cluster, "admin", pki.Subject{Name: "admin"})
	require.NoError(t, err)
	raw, err := pki.Kubeconfig{Server: "https://198.18.0.1:6443", CA: store.Cluster.CertPEM(), User: "localkube-admin", Pair: pair}.Encode()
	require.NoError(t, err)
	got := regexp.MustCompile(`(-data): [A-Za-z0-9+/=]+`).ReplaceAllString(string(raw), "$1: BASE64")
	const file = "testdata/kubeconfig.golden"
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o700))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func kubeconfigs() map[string]struct {
	text string
	own  bool
	url  string
	err  string
} {
	const users = "users: [{name: u, user: {}}]\n"
	own := "clusters: [{name: localkube, cluster: {server: 'https://x'}}]\ncontexts: [{name: localkube, context: {cluster: localkube, user: u}}]\n" + users
	const unnamed = "reading kubeconfig FILE: it does not name localkube's cluster"
	return map[string]struct {
		text string
		own  bool
		url  string
		err  string
	}{
		"ours":              {own, true, "https://x", ""},
		"empty":             {"", false, "", unnamed},
		"another cluster":   {"clusters: [{name: prod, cluster: {server: 'https://p'}}]\ncontexts: [{name: prod, context: {cluster: prod, user: u}}]\n" + users, false, "", unnamed},
		"ours and another":  {"clusters: [{name: localkube, cluster: {server: 'https://x'}}, {name: prod, cluster: {}}]\ncontexts: [{name: localkube, context: {}}]\n" + users, false, "https://x", ""},
		"a second context":  {own + "current-context: prod\n", true, "https://x", ""},
		"a user of his own": {"clusters: [{name: localkube, cluster: {server: 'https://x'}}]\ncontexts: [{name: localkube, context: {}}]\nusers: [{name: a, user: {}}, {name: b, user: {}}]\n", false, "https://x", ""},
		"a letter":          {"Dear Sir or Madam", false, "", "reading kubeconfig: "},
	}
}

func TestOwnKubeconfig_knows_what_others_would_miss(t *testing.T) {
	for name, tc := range kubeconfigs() {
		require.Equal(t, tc.own, pki.OwnKubeconfig([]byte(tc.text)), name)
	}
	store, _ := opened(t)
	pair, err := store.Issue(store.Cluster, "admin", pki.Subject{Name: "admin"})
	require.NoError(t, err)
	raw, err := pki.Kubeconfig{Server: "https://x", CA: store.Cluster.CertPEM(), User: "u", Pair: pair}.Encode()
	require.NoError(t, err)
	require.True(t, pki.OwnKubeconfig(raw), "what is written may be written over")
}

func TestServerOf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	_, err := pki.ServerOf(file)
	require.ErrorContains(t, err, "reading kubeconfig: open "+file)
	for name, tc := range kubeconfigs() {
		require.NoError(t, os.WriteFile(file, []byte(tc.text), 0o600))
		url, err := pki.ServerOf(file)
		require.Equal(t, tc.url, url, name)
		if tc.err != "" {
			require.ErrorContains(t, err, regexp.MustCompile("FILE").ReplaceAllString(tc.err, file), name)
		}
	}
}
