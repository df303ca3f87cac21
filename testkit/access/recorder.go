package access

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// maxRefusal is the part of a rejection's body that is read to determine its kind.
const maxRefusal = 64 << 10

// Recorder is a proxy in front of an API server that records requests. Each client has its own
// token, which is passed on: the API server's own RBAC decides.
type Recorder struct {
	server   *httptest.Server
	resolver request.RequestInfoResolver
	// certificate is the server's, PEM.
	certificate []byte

	mu      sync.Mutex
	uses    map[Grant]bool
	refused map[Grant]bool
}

// NewRecorder starts a recorder before the API server that config leads to; of config's identity
// nothing is used.
func NewRecorder(tb testing.TB, config *rest.Config) *Recorder {
	tb.Helper()
	r := &Recorder{uses: map[Grant]bool{}, refused: map[Grant]bool{},
		resolver: &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}}
	anonymous := rest.AnonymousClientConfig(config)
	transport, err := rest.TransportFor(anonymous)
	require.NoError(tb, err)
	target, err := url.Parse(anonymous.Host)
	require.NoError(tb, err)
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(p *httputil.ProxyRequest) { p.SetURL(target) },
		Transport:      transport,
		FlushInterval:  -1, // a watch is answered for ever
		ModifyResponse: r.note,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	// A request is read before it is passed on. An API server that rejects a request answers before
	// it has read its body; the client then stops sending, and a proxy that still reads would wait
	// forever (go.dev/issue/80085).
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		proxy.ServeHTTP(w, req)
	}))
	r.server.EnableHTTP2 = true
	r.server.StartTLS()
	r.certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw})
	tb.Cleanup(func() {
		r.server.CloseClientConnections()
		r.server.Close()
	})
	return r
}

// Kubeconfig writes a kubeconfig that leads through the recorder with that token.
func (r *Recorder) Kubeconfig(tb testing.TB, token string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "kubeconfig")
	require.NoError(tb, clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "recorded",
		Contexts:       map[string]*clientcmdapi.Context{"recorded": {Cluster: "recorded", AuthInfo: "recorded"}},
		Clusters:       map[string]*clientcmdapi.Cluster{"recorded": {Server: r.server.URL, CertificateAuthorityData: r.certificate}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"recorded": {Token: token}},
	}, path))
	return path
}

// Config leads through the recorder with that token.
func (r *Recorder) Config(token string) *rest.Config {
	return &rest.Config{Host: r.server.URL, BearerToken: token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: r.certificate}}
}

// note looks at an answer; one that an apply made needs the right to create as well.
func (r *Recorder) note(response *http.Response) error {
	asked := response.Request
	info, err := r.resolver.NewRequestInfo(asked)
	if err != nil {
		return err
	}
	refused, err := refusedByRBAC(response)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !info.IsResourceRequest {
		return nil
	}
	use := Grant{Verb: info.Verb, Group: info.APIGroup, Resource: info.Resource, Name: info.Name}
	if info.Subresource != "" {
		use.Resource += "/" + info.Subresource
	}
	r.uses[use] = true
	if refused {
		r.refused[use] = true
	}
	if info.Verb == "patch" && response.StatusCode == http.StatusCreated {
		use.Verb = "create"
		r.uses[use] = true
	}
	return nil
}

// refusedByRBAC reports whether RBAC, not admission, rejected a request.
func refusedByRBAC(response *http.Response) (bool, error) {
	if response.StatusCode != http.StatusForbidden {
		return false, nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
	if err != nil {
		return false, fmt.Errorf("reading a refusal: %w", err)
	}
	rest := response.Body
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), rest), rest}
	return bytes.Contains(body, []byte("is forbidden: User")) || bytes.Contains(body, []byte("attempting to grant RBAC")), nil
}

// Uses are the kinds of requests that were made so far.
func (r *Recorder) Uses() []Grant { return r.list(r.uses) }

// Refused are those that RBAC refused.
func (r *Recorder) Refused() []Grant { return r.list(r.refused) }

func (r *Recorder) list(from map[Grant]bool) []Grant {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Grant, 0, len(from))
	for use := range from {
		out = append(out, use)
	}
	return out
}
