package access_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/agent/access"
	"github.com/drover-project/drover/api/connect"
)

const bootstrapToken = "bootstrap-0123456789"

// endpoint is a manager's endpoint for one agent: it registers it and passes its requests on to an API server.
type endpoint struct {
	*httptest.Server
	namespace, name string
	clock           *testingclock.FakeClock

	mu sync.Mutex
	// key is the one that the token is bound to; burned says that the token is worth nothing any more.
	key    string
	burned bool
	// token is the only one that is taken.
	token  string
	issued int
	// asked counts the requests to register or renew.
	asked int
	// loseAnswers is how many answers are lost, refuse how many requests get 503, ahead how much its clock is ahead.
	loseAnswers, refuse int
	ahead               time.Duration
	// busy is how many requests with a good token get 429; ticket is the one that came with the last request to register or renew.
	busy   int
	ticket string
	// unheard is how many connections are closed before their handshake.
	unheard int
	// extra is more certificates in answers, and instead of its own where another authority signs from then on.
	extra string
	other bool
}

func newEndpoint(t *testing.T, api *rest.Config, namespace, name string) *endpoint {
	t.Helper()
	e := &endpoint{namespace: namespace, name: name, clock: testingclock.NewFakeClock(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))}
	proxy := http.NotFoundHandler()
	if api != nil {
		transport, err := rest.TransportFor(api)
		require.NoError(t, err)
		host, err := url.Parse(api.Host)
		require.NoError(t, err)
		proxy = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(host)
			r.Out.Header.Del("Authorization")
		}, Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0)}
	}
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == connect.Path {
			e.connect(w, r)
			return
		}
		e.mu.Lock()
		known, busy := r.Header.Get("Authorization") == "Bearer "+e.token, e.busy > 0
		e.busy = max(0, e.busy-1)
		e.mu.Unlock()
		if busy {
			http.Error(w, "not heard", http.StatusTooManyRequests)
			return
		}
		if !known {
			http.Error(w, "unknown token", http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	e.Config.ErrorLog = log.New(io.Discard, "", 0)
	e.EnableHTTP2 = true
	e.Listener = hearing{Listener: e.Listener, e: e}
	e.StartTLS()
	t.Cleanup(func() {
		e.CloseClientConnections()
		e.Close()
	})
	return e
}

// hearing accepts whom the endpoint hears.
type hearing struct {
	net.Listener
	e *endpoint
}

func (h hearing) Accept() (net.Conn, error) {
	for {
		conn, err := h.Listener.Accept()
		if err != nil {
			return nil, err
		}
		h.e.mu.Lock()
		unheard := h.e.unheard > 0
		h.e.unheard = max(0, h.e.unheard-1)
		h.e.mu.Unlock()
		if !unheard {
			return conn, nil
		}
		_ = conn.Close()
	}
}

func (e *endpoint) connect(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	e.ticket = r.Header.Get(connect.TicketHeader)
	body, err := io.ReadAll(io.LimitReader(r.Body, connect.MaxRequestBytes+1))
	if err != nil {
		return
	}
	request, err := connect.DecodeRequest(body, r.Header.Get(connect.SignatureHeader))
	now := e.clock.Now().Add(e.ahead)
	w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
	switch {
	case e.refuse > 0:
		e.refuse--
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case request.Time.Sub(now).Abs() > connect.MaxSkew:
		w.WriteHeader(http.StatusConflict)
		return
	case e.key == "" && !e.burned && r.Header.Get("Authorization") == "Bearer "+bootstrapToken:
		e.key = string(request.PublicKey)
	case e.key != string(request.PublicKey):
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	e.issued++
	e.token = fmt.Sprintf("token-%d", e.issued)
	if e.loseAnswers > 0 {
		e.loseAnswers--
		panic(http.ErrAbortHandler)
	}
	expires := now.Add(time.Hour)
	_ = json.NewEncoder(w).Encode(connect.Answer{KubeConfig: e.kubeconfig(), Namespace: e.namespace, SecretName: e.name, IssuedAt: &now, ExpiresAt: &expires,
		Ticket: fmt.Sprintf("ticket-%d", e.issued)})
}

func (e *endpoint) ca() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.Certificate().Raw}))
}

func (e *endpoint) kubeconfig() string {
	ca := e.ca() + e.extra
	if e.other {
		ca = e.extra
	}
	content, _ := json.Marshal(map[string]any{
		"current-context": "x", "contexts": []any{map[string]any{"name": "x", "context": map[string]any{"cluster": "c", "user": "u"}}},
		"clusters": []any{map[string]any{"name": "c", "cluster": map[string]any{"server": e.URL, "certificate-authority-data": []byte(ca)}}},
		"users":    []any{map[string]any{"name": "u", "user": map[string]any{"token": e.token}}},
	})
	return string(content)
}

// set changes the endpoint while requests may come.
func (e *endpoint) set(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
}

// optionsOf are those of an agent in a folder that has the endpoint's certificate and a token.
func optionsOf(t *testing.T, e *endpoint) access.Options {
	t.Helper()
	folder := t.TempDir()
	o := access.Options{ConnectionFile: filepath.Join(folder, "info.json"), KeyFile: filepath.Join(folder, "drover", "agent.key"), Server: e.URL, CA: []byte(e.ca()),
		TokenFile: filepath.Join(folder, "token"), Clock: e.clock, Log: logr.Discard(), Hostname: "h", Version: "v1"}
	require.NoError(t, os.WriteFile(o.TokenFile, []byte(bootstrapToken+"\n"), 0o600))
	return o
}

// open registers, and lets the time pass that the agent waits.
func open(t *testing.T, o access.Options) *access.Access {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	clock := o.Clock.(*testingclock.FakeClock)
	go func() {
		for ctx.Err() == nil {
			if clock.HasWaiters() {
				clock.Step(time.Second)
			}
		}
	}()
	a, err := access.Open(ctx, o)
	require.NoError(t, err)
	return a
}

// ask is a request through the access, and the status it gets.
func ask(t *testing.T, a *access.Access) (int, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://anything/api", strings.NewReader("body"))
	require.NoError(t, err)
	answer, err := a.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}
