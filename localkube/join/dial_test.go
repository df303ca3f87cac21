package join_test

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/join"
	"github.com/drover-project/drover/localkube/pki"
)

// listen serves a handler on loopback with a certificate of an authority.
func listen(t *testing.T, store *pki.Store, handler http.Handler) (url string) {
	t.Helper()
	pair, err := store.Issue(store.Cluster, "serving", pki.Subject{Name: "s", Addresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	require.NoError(t, err)
	cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// seen records the secrets that a server was sent.
type seen struct {
	mu      sync.Mutex
	secrets []string
	handler http.Handler
}

func (s *seen) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if secret := r.Header.Get("Authorization"); secret != "" {
		s.secrets = append(s.secrets, r.URL.Path+" "+secret)
	}
	s.mu.Unlock()
	s.handler.ServeHTTP(w, r)
}

// answer is a server that gives out the right authority and then says one thing.
func answer(store *pki.Store, code int, body string, header http.Header) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/ca" {
			_, _ = w.Write(store.Cluster.CertPEM())
			return
		}
		for name := range header {
			w.Header().Set(name, header.Get(name))
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	})
}

func agentRequest() join.AgentRequest {
	return join.AgentRequest{NodeName: "worker", Address: "198.18.0.2", Kubelet: []byte("k")}
}

func TestClient_says_what_it_was_told(t *testing.T) {
	expired := http.Header{"Www-Authenticate": {`Bearer error="invalid_token", error_description="expired"`}}
	for name, tc := range map[string]struct {
		code            int
		body            string
		header          http.Header
		want            string
		denied, expired bool
	}{
		"token of another role": {401, "not valid\n", nil, "401 Unauthorized: not valid", true, false},
		"expired token":         {401, "has expired", expired, "401 Unauthorized: has expired", true, true},
		"expired, but not told": {403, "has expired", expired, "403 Forbidden: has expired", true, false},
		"denied":                {403, "node name x is taken: denied\n", nil, "403 Forbidden: node name x is taken: denied", true, false},
		"bad request":           {400, `"X" is not a node name`, nil, `400 Bad Request: "X" is not a node name`, false, false},
		"trouble":               {503, "etcd is slow", nil, "503 Service Unavailable: etcd is slow", false, false},
		"silence":               {500, "", nil, "500 Internal Server Error: ", false, false},
		"a page":                {404, "<html>\n <body>\r\n\tNot\x00 found\x1b[31m</body>", nil, "404 Not Found: <html> <body> Not? found?[31m</body>", false, false},
		"bytes":                 {502, "\xff\xfe bad", nil, "502 Bad Gateway: ? bad", false, false},
		"a novel":               {500, strings.Repeat("word ", 1000), nil, "500 Internal Server Error: " + strings.Repeat("word ", 80) + " …", false, false},
		"no JSON":               {200, "hello", nil, "reading answer of URL/v1/agent: invalid character 'h' looking for beginning of value", false, false},
		"nothing":               {200, "", nil, "reading answer of URL/v1/agent: unexpected end of JSON input", false, false},
		"nothing, officially":   {204, "", nil, "204 No Content: ", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := pki.Open(t.TempDir())
			require.NoError(t, err)
			url := listen(t, store, answer(store, tc.code, tc.body, tc.header))
			client, err := join.Dial(t.Context(), url, token(t, store, pki.RoleAgent))
			require.NoError(t, err)
			_, err = client.AddAgent(t.Context(), agentRequest())
			want := strings.ReplaceAll(tc.want, "URL", url)
			if tc.code != http.StatusOK {
				want = "asking " + url + "/v1/agent: " + want
			}
			require.EqualError(t, err, want)
			require.Equal(t, tc.denied, isA(err, join.ErrDenied))
			require.Equal(t, tc.expired, isA(err, pki.ErrTokenExpired))
		})
	}
}

func TestClient_follows_nobody_elsewhere(t *testing.T) {
	store, err := pki.Open(t.TempDir())
	require.NoError(t, err)
	thief := &seen{handler: http.NotFoundHandler()}
	elsewhere := listen(t, store, thief) // even with a certificate of the same authority
	for _, code := range []int{301, 302, 303, 307, 308} {
		honest := &seen{handler: answer(store, code, "", http.Header{"Location": {elsewhere + "/v1/agent"}})}
		url := listen(t, store, honest)
		client, err := join.Dial(t.Context(), url, token(t, store, pki.RoleAgent))
		require.NoError(t, err)
		_, err = client.AddAgent(t.Context(), agentRequest())
		require.ErrorContains(t, err, fmt.Sprintf("asking %s/v1/agent: %d %s", url, code, http.StatusText(code)))
		require.Len(t, honest.secrets, 1)
	}
	require.Empty(t, thief.secrets)
}

func TestDial_says_why_it_will_not_join(t *testing.T) {
	store, err := pki.Open(t.TempDir())
	require.NoError(t, err)
	other, err := pki.Open(t.TempDir())
	require.NoError(t, err)
	good := token(t, store, pki.RoleAgent)
	server := &seen{handler: join.NewHandler(store, &cluster{})}
	url := listen(t, store, server)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	for name, tc := range map[string]struct {
		url   string
		token pki.Token
		want  string
	}{
		"another cluster's token": {url, token(t, other, pki.RoleAgent), "joining " + url + ": the server's certificate authority is not the one the join token names: take the token from a server of that cluster, or correct the URL"},
		"nobody there":            {"https://" + closed.Addr().String(), good, "asking the cluster to join: Get \"https://" + closed.Addr().String() + "/v1/ca\": dial tcp " + closed.Addr().String() + ": connect: connection refused"},
		"not encrypted":           {strings.Replace(url, "https", "http", 1), good, "not the https URL at which a server says that machines can join"},
		"a path too much":         {url + "/v1", good, "asking " + url + "/v1/v1/ca: 404 Not Found: 404 page not found"},
		"no scheme":               {strings.TrimPrefix(url, "https://"), good, "not the https URL at which a server says that machines can join"},
		"no host":                 {"https://", good, `joining "https://": not the https URL at which a server says that machines can join`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := join.Dial(t.Context(), tc.url, tc.token)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), tc.token.Secret)
		})
	}
	require.Empty(t, server.secrets, "nobody was sent a secret")
}

func TestDial_says_that_the_clock_is_wrong(t *testing.T) {
	for name, shift := range map[string]time.Duration{"behind": 72 * time.Hour, "ahead": -72 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store, err := pki.Open(dir)
			require.NoError(t, err)
			from, until := time.Now().Add(shift-time.Hour).UTC(), time.Now().Add(shift+time.Hour).UTC()
			ca := authority(t, dir, from, until)
			url := listen(t, store, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(ca) }))
			pinned := pki.Token{Secret: "s", Fingerprint: fingerprint(t, ca)}
			_, err = join.Dial(t.Context(), url, pinned)
			require.ErrorContains(t, err, "joining "+url+": its certificate authority is valid from "+from.Format(time.RFC3339)+" to "+
				until.Format(time.RFC3339)+" and this machine's clock says ")
			require.ErrorContains(t, err, ": set the clock")
		})
	}
}

// authority is a certificate for the cluster's key that is valid at other times.
func authority(t *testing.T, dir string, from, until time.Time) []byte {
	t.Helper()
	key, err := pki.OpenKey(filepath.Join(dir, "ca.key"))
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localkube-ca"}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// fingerprint is what a token pins, as the store of such an authority tells it.
func fingerprint(t *testing.T, ca []byte) string {
	t.Helper()
	block, _ := pem.Decode(ca)
	return sum(block.Bytes)
}

func TestExpiredToken(t *testing.T) {
	c := &cluster{}
	url, store := serve(t, c)
	late, err := store.Temporary(pki.RoleAgent, time.Now().Add(-time.Minute))
	require.NoError(t, err)
	client, err := join.Dial(t.Context(), url, late)
	require.NoError(t, err, "the authority is public")
	_, err = client.AddAgent(t.Context(), agentRequest())
	require.EqualError(t, err, "asking "+url+"/v1/agent: 401 Unauthorized: the join token has expired: make a new one with localkube token")
	require.ErrorIs(t, err, pki.ErrTokenExpired)
	require.ErrorIs(t, err, join.ErrDenied)
	require.Empty(t, c.asked)

	soon, err := store.Temporary(pki.RoleAgent, time.Now().Add(time.Minute))
	require.NoError(t, err)
	client, err = join.Dial(t.Context(), url, soon)
	require.NoError(t, err)
	_, err = client.AddAgent(t.Context(), agentRequest())
	require.NoError(t, err)
	_, err = client.AddServer(t.Context(), join.ServerRequest{Name: "n", PeerURL: "https://198.18.0.2:2380"})
	require.EqualError(t, err, "asking "+url+"/v1/server: 401 Unauthorized: "+pki.ErrTokenUnknown.Error())
	require.NotErrorIs(t, err, pki.ErrTokenExpired)
}

func TestHandler_keeps_its_own_trouble_to_itself(t *testing.T) {
	dir := t.TempDir()
	store, err := pki.Open(dir)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "token-agent"), 0o700))
	res := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/agent", strings.NewReader("{}"))
	req.Header.Set("Authorization", "Bearer x")
	join.NewHandler(store, &cluster{}).ServeHTTP(res, req)
	require.Equal(t, http.StatusServiceUnavailable, res.Code)
	require.Equal(t, "the server cannot read its own join token\n", res.Body.String(), "its paths are nothing for strangers")
}

func TestHandler_lets_many_in_at_once(t *testing.T) {
	const many = 24
	url, store := serve(t, counting{})
	secret := token(t, store, pki.RoleAgent)
	failures := make(chan error, many)
	for range many {
		go func() {
			client, err := join.Dial(t.Context(), url, secret)
			if err == nil {
				_, err = client.AddAgent(t.Context(), agentRequest())
			}
			failures <- err
		}()
	}
	for range many {
		require.NoError(t, <-failures)
	}
}
