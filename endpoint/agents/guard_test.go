package agents_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-project/drover/api/connect"
	"github.com/drover-project/drover/api/plan"
	"github.com/drover-project/drover/endpoint/agents"
)

// crowded is an endpoint before an API server that refuses every token but "good", and holds watches.
type crowded struct {
	*testing.T
	url     string
	handler http.Handler
	events  *events.FakeRecorder
	// asked are the requests that reached the API server, watching the watches that it holds.
	asked, watching atomic.Int64
	// silent has the API server not even begin to answer who watches.
	silent atomic.Bool
	// down has the API server answer each request with a long error.
	down atomic.Bool
	// skew is added to the clock of agents that register.
	skew time.Duration
}

var ticketSecret = []byte("all replicas have it")

func newCrowded(t *testing.T) *crowded {
	t.Helper()
	c := &crowded{T: t}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.asked.Add(1)
		switch {
		case c.down.Load():
			http.Error(w, strings.Repeat("the database does not answer ", 500), http.StatusInternalServerError)
		case r.Header.Get("Authorization") != "Bearer good":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Query().Has("watch"):
			c.watching.Add(1)
			defer c.watching.Add(-1)
			if !c.silent.Load() {
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		}
	}))
	t.Cleanup(api.Close)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "drover-agent-linux-amd64"), make([]byte, 16<<20), 0o600))
	assets, err := agents.LoadAssets(dir)
	require.NoError(t, err)
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	own, err := client.New(&rest.Config{Host: api.URL, BearerToken: "the manager's", QPS: -1}, client.Options{Scheme: clientgoscheme.Scheme, Mapper: mapper})
	require.NoError(t, err)
	c.events = events.NewFakeRecorder(100)
	c.handler, err = agents.New(agents.Options{Client: own, Recorder: c.events, API: &rest.Config{Host: api.URL}, Assets: assets, Authorities: func(string) []byte { return nil },
		TicketSecret: func() []byte { return ticketSecret }})
	require.NoError(t, err)
	server := httptest.NewServer(c.handler)
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// from is a client with an address of its own, that reads what comes when it is asked to.
func (c *crowded) from(address string) *http.Client {
	c.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	c.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// ask begins a request; with no token none is sent.
func (c *crowded) ask(ctx context.Context, by *http.Client, method, path, token string, body io.Reader) (*http.Response, error) {
	c.Helper()
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	require.NoError(c, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return by.Do(req)
}

// answer is the status of a whole request.
func (c *crowded) answer(by *http.Client, path, token string) (int, http.Header) {
	c.Helper()
	resp, err := c.ask(c.Context(), by, http.MethodGet, path, token, nil)
	require.NoError(c, err)
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(c, err)
	return resp.StatusCode, resp.Header
}

// register sends a request with a key, from 127.0.0.1, and returns the answer. Lines of the log go to a sink.
func (c *crowded) register(at client.ObjectKey, lines logr.Logger) (int, string) {
	c.Helper()
	key := newAgent(2, "").key
	body, err := json.Marshal(connect.Request{PublicKey: key.Public().(ed25519.PublicKey), Time: time.Now().Add(c.skew), Namespace: at.Namespace, SecretName: at.Name})
	require.NoError(c, err)
	w, req := httptest.NewRecorder(), httptest.NewRequestWithContext(log.IntoContext(c.Context(), lines), http.MethodPost, connect.Path, bytes.NewReader(body))
	req.Header.Set(connect.SignatureHeader, connect.Sign(key, body))
	req.RemoteAddr = "127.0.0.1:1"
	c.handler.ServeHTTP(w, req)
	return w.Code, w.Body.String()
}

// A request with names that the API server does not allow does not reach the API server. It is rejected with 400, and the throttle counts it.
func TestRegister_names(t *testing.T) {
	c := newCrowded(t)
	codes := map[int]int{}
	long := strings.Repeat("x/%2e", 2500)
	for _, bad := range []client.ObjectKey{{Namespace: "a/b", Name: "c"}, {Namespace: "a%2fb", Name: "c"}, {Namespace: "a", Name: "../b"}, {Namespace: long, Name: "c"}} {
		for range 10 {
			code, text := c.register(bad, logr.Discard())
			codes[code]++
			require.Less(t, len(text), 200)
		}
	}
	require.LessOrEqual(t, codes[http.StatusBadRequest], 25, "20, and one every two seconds: %v", codes)
	require.Equal(t, 40, codes[http.StatusBadRequest]+codes[http.StatusTooManyRequests], "%v", codes)
	require.Zero(t, c.asked.Load())
}

// The throttle counts every failure, also of the API server and of a clock. Lines of the log stay short.
func TestRegister_failuresCount(t *testing.T) {
	for name, tt := range map[string]struct {
		skew time.Duration
		want int
	}{
		"the API server fails": {0, http.StatusServiceUnavailable},
		"the clock is wrong":   {time.Hour, http.StatusConflict},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowded(t)
			c.down.Store(true)
			c.skew = tt.skew
			longest := 0
			lines := funcr.New(func(_, args string) { longest = max(longest, len(args)) }, funcr.Options{Verbosity: 1})
			codes := map[int]int{}
			for range 60 {
				code, _ := c.register(client.ObjectKey{Namespace: "a", Name: "one-machine-plan"}, lines)
				codes[code]++
			}
			require.LessOrEqual(t, codes[tt.want], 25, "20, and one every two seconds: %v", codes)
			require.Equal(t, 60, codes[tt.want]+codes[http.StatusTooManyRequests], "%v", codes)
			require.Less(t, longest, 1500)
			if tt.want == http.StatusServiceUnavailable {
				require.Positive(t, longest)
				require.Empty(t, c.events.Events, "a failure of the API server is not a guess")
			}
		})
	}
}

// known is the token of an agent that has a ticket for a plan Secret.
func known(name string) string {
	return connect.WithTicket("good", connect.NewTicket("a", plan.SecretName(name), []byte(name)).Seal(ticketSecret, time.Now().Add(time.Hour)))
}

const (
	one      = "/api/v1/namespaces/a/secrets/one-machine-plan"
	watchOne = "/api/v1/namespaces/a/secrets?watch=1&fieldSelector=metadata.name%3Done-machine-plan"
	watchTwo = "/api/v1/namespaces/a/secrets?watch=1&fieldSelector=metadata.name%3Dtwo-machine-plan"
	download = "/assets/drover-agent-linux-amd64"
)

// Downloads that nobody reads are few, of one address and in all; they keep others out of nothing.
func TestGuard_downloads(t *testing.T) {
	c := newCrowded(t)
	here, there := c.from("127.0.0.1"), c.from("127.0.0.2")
	before := counted(t, "downloads")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	count := map[int]int{}
	for range 100 {
		resp, err := c.ask(ctx, here, http.MethodGet, download, "", nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		count[resp.StatusCode]++
		if resp.StatusCode == http.StatusTooManyRequests {
			require.NotEmpty(t, resp.Header.Get("Retry-After"))
		}
	}
	require.Equal(t, map[int]int{http.StatusOK: 64, http.StatusTooManyRequests: 36}, count)
	require.InDelta(t, 36, counted(t, "downloads")-before, 0)
	code, _ := c.answer(here, one, known("one"))
	require.Equal(t, http.StatusOK, code)
	code, _ = c.answer(there, download, "")
	require.Equal(t, http.StatusOK, code)
}

// An agent that watches its Secret again and again loses the oldest watch, and no other agent loses any.
func TestGuard_watches(t *testing.T) {
	c := newCrowded(t)
	by := c.from("127.0.0.1")
	quiet, err := c.ask(t.Context(), by, http.MethodGet, watchTwo, known("two"), nil)
	require.NoError(t, err)
	defer quiet.Body.Close()
	const all, most = 50, 4
	ended := make(chan struct{}, all)
	for range all {
		resp, err := c.ask(t.Context(), by, http.MethodGet, watchOne, known("one"), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		t.Cleanup(func() { _ = resp.Body.Close() })
		go func() {
			_, _ = io.Copy(io.Discard, resp.Body)
			ended <- struct{}{}
		}()
	}
	for range all - most {
		<-ended
	}
	require.GreaterOrEqual(t, c.watching.Load(), int64(most+1), "the other agent's is there")
	code, _ := c.answer(by, "/api/v1/namespaces/a/secrets/two-machine-plan", known("two"))
	require.Equal(t, http.StatusOK, code)
}

// An agent that asks without end is heard now and then, by the API server too, and no other agent is kept from it.
func TestGuard_pace(t *testing.T) {
	c := newCrowded(t)
	by, before := c.from("127.0.0.1"), counted(t, "requests of agents per second")
	const all, atOnce, perSecond = 1000, 200, 20
	begin, count := time.Now(), map[int]int{}
	for range all {
		code, header := c.answer(by, one, known("one"))
		count[code]++
		if code == http.StatusTooManyRequests {
			require.NotEmpty(t, header.Get("Retry-After"))
		}
	}
	most := atOnce + perSecond*(1+int(time.Since(begin).Seconds()))
	require.GreaterOrEqual(t, count[http.StatusOK], atOnce)
	require.LessOrEqual(t, count[http.StatusOK], most)
	require.EqualValues(t, count[http.StatusOK], c.asked.Load())
	require.InDelta(t, all-count[http.StatusOK], counted(t, "requests of agents per second")-before, 0)
	code, _ := c.answer(by, "/api/v1/namespaces/a/secrets/two-machine-plan", known("two"))
	require.Equal(t, http.StatusOK, code)
}

// Who has no ticket gets one answer by a connection, and so does who is not heard: how fast those may begin is bounded, how fast he writes requests is not.
func TestGuard_oneRequest(t *testing.T) {
	c := newCrowded(t)
	by := c.from("127.0.0.1")
	ends := func(path, token string) (int, bool) {
		resp, err := c.ask(t.Context(), by, http.MethodGet, path, token, nil)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, errors.Join(err, resp.Body.Close()))
		return resp.StatusCode, resp.Close
	}
	for _, path := range []string{"/cacerts", "/nothing", one} {
		_, ended := ends(path, "junk")
		require.True(t, ended, path)
	}
	code, ended := ends(one, known("one"))
	for range 1000 {
		if code != http.StatusOK {
			break
		}
		require.False(t, ended)
		code, ended = ends(one, known("one"))
	}
	require.Equal(t, http.StatusTooManyRequests, code)
	require.True(t, ended)
}

// late is the answer to a request whose place was taken before anything was written, and whose time to write is not over yet.
type late struct{ *httptest.ResponseRecorder }

func (late) SetReadDeadline(time.Time) error  { return nil }
func (late) SetWriteDeadline(time.Time) error { return nil }

// Whose place is taken before the API server has answered is told that, and not that the API server does not answer.
func TestGuard_replaced(t *testing.T) {
	c := newCrowded(t)
	c.silent.Store(true)
	const all, most = 10, 4
	answers := make(chan late, all)
	ctx, cancel := context.WithCancel(t.Context())
	var watches sync.WaitGroup
	for range all {
		watches.Go(func() {
			w := late{httptest.NewRecorder()}
			req := httptest.NewRequestWithContext(ctx, http.MethodGet, watchOne, nil)
			req.Header.Set("Authorization", "Bearer "+known("one"))
			c.handler.ServeHTTP(w, req)
			answers <- w
		})
	}
	for range all - most {
		w := <-answers
		require.Equal(t, http.StatusTooManyRequests, w.Code, w.Body)
		require.NotEmpty(t, w.Header().Get("Retry-After"))
	}
	cancel()
	watches.Wait()
}

// Whoever has no ticket is not passed on when the API server has refused tokens from his address; who has one is.
func TestGuard_junkTokens(t *testing.T) {
	c := newCrowded(t)
	by := c.from("127.0.0.1")
	before := counted(t, "too many rejected requests")
	count := map[int]int{}
	const all = 900 // more in a second would be too fast
	for range all {
		code, header := c.answer(by, one, "junk")
		if count[code]++; code == http.StatusTooManyRequests {
			require.NotEmpty(t, header.Get("Retry-After"))
		}
	}
	require.LessOrEqual(t, c.asked.Load(), int64(100), "20, and one every two seconds")
	require.Equal(t, all, count[http.StatusUnauthorized]+count[http.StatusTooManyRequests])
	require.InDelta(t, count[http.StatusTooManyRequests], counted(t, "too many rejected requests")-before, 0)
	code, _ := c.answer(by, one, known("one"))
	require.Equal(t, http.StatusOK, code)
	code, _ = c.answer(by, one, "good")
	require.Equal(t, http.StatusTooManyRequests, code, "nobody knows yet that it is")
	code, _ = c.answer(by, one, known("two"))
	require.Equal(t, http.StatusTooManyRequests, code, "a ticket is for one Secret")
	code, _ = c.answer(c.from("127.0.0.2"), one, "good")
	require.Equal(t, http.StatusOK, code)
}

// Requests whose bodies never end keep neither agents out, nor other strangers of the same address.
func TestGuard_unfinished(t *testing.T) {
	c := newCrowded(t)
	by := c.from("127.0.0.1")
	before := counted(t, "unauthenticated requests")
	const all, most = 400, 256
	ended := make(chan struct{}, all)
	for range all {
		conn, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = conn.Write([]byte("POST " + connect.Path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"))
		require.NoError(t, err)
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			ended <- struct{}{}
		}()
	}
	for range all - most {
		<-ended
	}
	require.GreaterOrEqual(t, counted(t, "unauthenticated requests")-before, float64(all-most))
	code, _ := c.answer(by, "/healthz", "")
	require.Equal(t, http.StatusOK, code)
	code, _ = c.answer(by, one, known("one"))
	require.Equal(t, http.StatusOK, code)
}

// counted is what the metrics have counted under a label of this value.
func counted(t *testing.T, label string) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, metric := range family.Metric {
			for _, found := range metric.Label {
				if strings.HasPrefix(family.GetName(), "drover_") && found.GetValue() == label {
					return metric.GetCounter().GetValue()
				}
			}
		}
	}
	return 0
}
