package bench

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-project/drover/testkit"
)

// requests counts by verb and resource, such as "patch secrets"; a subresource is part of the resource.
type requests map[string]int

// writes are those that change something. Events are counted apart, for they are neither awaited nor tried again.
func (r requests) writes() (objects, events int) {
	for key, n := range r {
		verb, resource, _ := strings.Cut(key, " ")
		switch {
		case !isWrite(verb):
		case strings.HasPrefix(resource, "events"):
			events += n
		default:
			objects += n
		}
	}
	return objects, events
}

func isWrite(verb string) bool {
	return slices.Contains([]string{"create", "update", "patch", "delete"}, verb)
}

// since is what was counted after an earlier look.
func (r requests) since(earlier requests) requests {
	grown := requests{}
	for key, n := range r {
		if n > earlier[key] {
			grown[key] = n - earlier[key]
		}
	}
	return grown
}

// keys are sorted.
func (r requests) keys() []string { return slices.Sorted(maps.Keys(r)) }

// requestKey names a request as RBAC would: verb, resource and subresource; and who applies, if somebody does. Clusters have their group, unless they are
// Cluster API's.
func requestKey(method string, target *url.URL) string {
	parts, group := strings.Split(strings.Trim(target.Path, "/"), "/"), ""
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		group, parts = parts[1], parts[3:]
	default:
		return "get /" + parts[0]
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	resource, named := parts[0], len(parts) > 1
	if resource == "clusters" && group != clusterv1.GroupVersion.Group {
		resource += "." + group
	}
	if len(parts) > 2 {
		resource += "/" + parts[2]
	}
	key := verbOf(method, named, target.Query().Get("watch")) + " " + resource
	if manager := target.Query().Get("fieldManager"); manager != "" {
		key += " as " + manager
	}
	return key
}

func verbOf(method string, named bool, watch string) string {
	switch {
	case watch == "true" || watch == "1":
		return "watch"
	case method == http.MethodGet && !named:
		return "list"
	case method == http.MethodPost:
		return "create"
	case method == http.MethodPut:
		return "update"
	}
	return strings.ToLower(method)
}

// counter is a proxy before the API server.
type counter struct {
	mu     sync.Mutex
	counts requests
}

func (c *counter) look() requests {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

// start serves an API server through the counter and returns the path of a kubeconfig for it.
func (c *counter) start(tb testing.TB, config *rest.Config) string {
	tb.Helper()
	through, err := rest.TransportFor(config)
	require.NoError(tb, err)
	target, err := url.Parse(config.Host)
	require.NoError(tb, err)
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: through, FlushInterval: -1, ErrorLog: log.New(discard{}, "", 0),
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.counts[requestKey(r.Method, r.URL)]++
		c.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = proxy.ErrorLog
	server.StartTLS()
	tb.Cleanup(server.Close)
	path := filepath.Join(tb.TempDir(), "kubeconfig")
	require.NoError(tb, clientcmd.WriteToFile(kubeconfigOf(server.URL, server.Certificate()), path))
	return path
}

// discard takes what proxy and server say about connections that a manager left open when it ended.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func kubeconfigOf(server string, ca *x509.Certificate) clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters["bench"] = &clientcmdapi.Cluster{
		Server: server, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}),
	}
	config.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench"}
	config.CurrentContext = "bench"
	return *config
}

func TestRequestKey(t *testing.T) {
	for _, c := range []struct{ method, target, want string }{
		{"GET", "/api/v1/namespaces/a/secrets/b", "get secrets"},
		{"GET", "/api/v1/secrets?limit=500", "list secrets"},
		{"GET", "/api/v1/secrets?watch=true", "watch secrets"},
		{"POST", "/api/v1/namespaces/a/secrets", "create secrets"},
		{"GET", "/api/v1/namespaces/a", "get namespaces"},
		{"GET", "/api/v1/namespaces", "list namespaces"},
		{"PATCH", "/apis/rke-machine.cattle.io/v1/namespaces/a/digitaloceanmachines/b/status", "patch digitaloceanmachines/status"},
		{"PATCH", "/apis/cluster.x-k8s.io/v1beta2/namespaces/a/machines/b?fieldManager=capi-machineset&force=true", "patch machines as capi-machineset"},
		{"PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/b", "update leases"},
		{"DELETE", "/apis/batch/v1/namespaces/a/jobs/b", "delete jobs"},
		{"DELETE", "/apis/management.cattle.io/v3/nodedrivers/b", "delete nodedrivers"},
		{"PATCH", "/apis/provisioning.cattle.io/v1/namespaces/a/clusters/b/status", "patch clusters.provisioning.cattle.io/status"},
		{"PATCH", "/apis/cluster.x-k8s.io/v1beta2/namespaces/a/clusters/b/status", "patch clusters/status"},
		{"GET", "/apis", "get /apis"},
		{"GET", "/apis/batch/v1", "get /apis"},
		{"GET", "/version", "get /version"},
	} {
		target, err := url.Parse(c.target)
		require.NoError(t, err)
		require.Equal(t, c.want, requestKey(c.method, target), "%s %s", c.method, c.target)
	}
}

func TestRequests(t *testing.T) {
	before := requests{"get secrets": 3, "patch secrets": 1}
	after := requests{"get secrets": 5, "patch secrets": 1, "create events": 2, "delete jobs": 4, "watch jobs": 1, "update leases": 1}
	grown := after.since(before)
	require.Equal(t, requests{"get secrets": 2, "create events": 2, "delete jobs": 4, "watch jobs": 1, "update leases": 1}, grown)
	objects, events := grown.writes()
	require.Equal(t, 5, objects)
	require.Equal(t, 2, events)
	require.Equal(t, []string{"create events", "delete jobs", "get secrets", "update leases", "watch jobs"}, grown.keys())
}

// TestCounter_countsAndForwards would fail if the proxy hid an answer or an error of the API server.
func TestCounter_countsAndForwards(t *testing.T) {
	c := &counter{counts: requests{}}
	path := c.start(t, testkit.Config(t))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	for target, want := range map[string]int{"/api/v1/namespaces": 200, "/api/v1/namespaces/no-such": 404, "/version": 200} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+target, nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, resp.StatusCode, fmt.Sprint(target))
		require.Equal(t, 2, resp.ProtoMajor, "HTTP/2, as the API server itself speaks")
	}
	require.Equal(t, requests{"list namespaces": 1, "get namespaces": 1, "get /version": 1}, c.look())
}
