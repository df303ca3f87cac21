package join_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/join"
	"github.com/drover-project/drover/localkube/pki"
)

func TestHandler(t *testing.T) {
	store, err := pki.Open(t.TempDir())
	require.NoError(t, err)
	agent, server := token(t, store, pki.RoleAgent).Secret, token(t, store, pki.RoleServer).Secret
	good := `{"name":"n","peerURL":"https://198.18.0.2:2380"}`
	for name, tt := range map[string]struct {
		method, path, authorization, body string
		fail                              error
		code                              int
		want                              string
	}{
		"authority is public":    {method: "GET", path: "/v1/ca", code: 200, want: "BEGIN CERTIFICATE"},
		"no token":               {method: "POST", path: "/v1/server", body: good, code: 401, want: "the join token is not valid for this"},
		"empty token":            {method: "POST", path: "/v1/server", authorization: "Bearer ", body: good, code: 401},
		"no bearer":              {method: "POST", path: "/v1/server", authorization: server, body: good, code: 401},
		"agent is no server":     {method: "POST", path: "/v1/server", authorization: "Bearer " + agent, body: good, code: 401},
		"agent promotes nobody":  {method: "POST", path: "/v1/server/promote", authorization: "Bearer " + agent, body: good, code: 401},
		"server":                 {method: "POST", path: "/v1/server", authorization: "Bearer " + server, body: good, code: 200, want: "n=https://198.18.0.2:2380"},
		"promotion":              {method: "POST", path: "/v1/server/promote", authorization: "Bearer " + server, body: `{"name":"n"}`, code: 200},
		"no peer URL":            {method: "POST", path: "/v1/server", authorization: "Bearer " + server, body: `{"name":"n"}`, code: 400, want: "peer URL is missing"},
		"no node name":           {method: "POST", path: "/v1/server", authorization: "Bearer " + server, body: `{"name":"a/b","peerURL":"https://198.18.0.2:2380"}`, code: 400, want: `"a/b" is not a node name`},
		"no JSON":                {method: "POST", path: "/v1/server", authorization: "Bearer " + server, body: "x", code: 400, want: "reading request"},
		"no body":                {method: "POST", path: "/v1/server", authorization: "Bearer " + server, code: 400, want: "reading request"},
		"too large":              {method: "POST", path: "/v1/server", authorization: "Bearer " + server, body: `{"name":"` + strings.Repeat("n", 1<<20), code: 400, want: "too large"},
		"denied":                 {method: "POST", path: "/v1/server", authorization: "Bearer " + server, body: good, fail: join.ErrDenied, code: 403, want: "denied"},
		"trouble":                {method: "POST", path: "/v1/server", authorization: "Bearer " + server, body: good, fail: errors.New("etcd is slow"), code: 503, want: "etcd is slow"},
		"identities are no page": {method: "GET", path: "/v1/server", authorization: "Bearer " + server, code: 405},
		"nothing else is served": {method: "GET", path: "/", authorization: "Bearer " + server, code: 404},
	} {
		t.Run(name, func(t *testing.T) {
			c := &failing{cluster: cluster{}, fail: tt.fail}
			req := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, strings.NewReader(tt.body))
			req.Header.Set("Authorization", tt.authorization)
			res := httptest.NewRecorder()
			join.NewHandler(store, c).ServeHTTP(res, req)
			require.Equal(t, tt.code, res.Code, res.Body)
			require.Contains(t, res.Body.String(), tt.want)
			if tt.code == http.StatusUnauthorized || tt.code == http.StatusBadRequest {
				require.Empty(t, c.asked, "the cluster is not asked")
			}
		})
	}
}

// failing is a cluster that fails every time, not only once.
type failing struct {
	cluster
	fail error
}

func (f *failing) AddServer(ctx context.Context, req join.ServerRequest) (join.ServerResponse, error) {
	res, err := f.cluster.AddServer(ctx, req)
	return res, errors.Join(err, f.fail)
}

func TestDial_refuses_what_is_no_URL(t *testing.T) {
	for _, bad := range []string{"", "x", "198.18.0.1:1", "http://198.18.0.1", "https://", "https://%zz", "ftp://x"} {
		_, err := join.Dial(t.Context(), bad, pki.Token{Secret: "hush"})
		require.ErrorContains(t, err, "not the https URL at which a server says", bad)
		require.NotContains(t, err.Error(), "hush")
	}
}

func TestDial_of_what_is_no_server(t *testing.T) {
	var headers []http.Header
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers = append(headers, r.Header)
		if r.URL.Path != "/v1/ca" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte("hello"))
	}))
	t.Cleanup(server.Close)
	_, err := join.Dial(t.Context(), server.URL, pki.Token{Secret: "hush"})
	require.ErrorContains(t, err, "not a PEM certificate")
	_, err = join.Dial(t.Context(), server.URL+"/other", pki.Token{Secret: "hush"})
	require.ErrorContains(t, err, "404")
	require.Len(t, headers, 2)
	for _, h := range headers {
		require.Empty(t, h.Get("Authorization"), "no stranger gets the secret")
	}
}

func TestPromote_ends_with_the_cause(t *testing.T) {
	c := &cluster{err: errors.New("lags behind")}
	url, store := serve(t, c)
	client, err := join.Dial(t.Context(), url+"/", token(t, store, pki.RoleServer))
	require.NoError(t, err, "a slash at the end does no harm")
	boom := errors.New("etcd ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(boom)
	require.ErrorIs(t, client.Promote(ctx, join.PromoteRequest{Name: "n"}), boom)
}
