package join_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"crypto/tls"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/join"
	"github.com/drover-project/drover/localkube/pki"
)

// cluster answers with what it was asked, and fails when told to.
type cluster struct {
	err   error
	asked []string
}

func (c *cluster) AddAgent(_ context.Context, req join.AgentRequest) (join.AgentResponse, error) {
	c.asked = append(c.asked, req.NodeName)
	return join.AgentResponse{Kubelet: req.Kubelet, APIServer: "https://198.18.0.2:2380"}, c.err
}

func (c *cluster) AddServer(_ context.Context, req join.ServerRequest) (join.ServerResponse, error) {
	c.asked = append(c.asked, req.Name)
	return join.ServerResponse{InitialCluster: req.Name + "=" + req.PeerURL}, c.err
}

func (c *cluster) Promote(_ context.Context, req join.PromoteRequest) error {
	c.asked = append(c.asked, "promote "+req.Name)
	if c.err != nil {
		err := c.err
		c.err = nil
		return err
	}
	return nil
}

func serve(t *testing.T, c join.Cluster) (url string, store *pki.Store) {
	t.Helper()
	store, err := pki.Open(t.TempDir())
	require.NoError(t, err)
	pair, err := store.Issue(store.Cluster, "serving", pki.Subject{Name: "s", Addresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	require.NoError(t, err)
	cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(join.NewHandler(store, c))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, store
}

func token(t *testing.T, store *pki.Store, role pki.Role) pki.Token {
	t.Helper()
	token, err := store.Token(role)
	require.NoError(t, err)
	return token
}

func TestAgentJoins(t *testing.T) {
	c := &cluster{}
	url, store := serve(t, c)
	client, err := join.Dial(t.Context(), url, token(t, store, pki.RoleAgent))
	require.NoError(t, err)
	require.Equal(t, store.Cluster.CertPEM(), client.CA())
	res, err := client.AddAgent(t.Context(), join.AgentRequest{NodeName: "n", Address: "198.18.0.2", Kubelet: []byte("key")})
	require.NoError(t, err)
	require.Equal(t, join.AgentResponse{Kubelet: []byte("key"), APIServer: "https://198.18.0.2:2380"}, res)
}

func TestAgentToken_makes_no_server(t *testing.T) {
	c := &cluster{}
	url, store := serve(t, c)
	client, err := join.Dial(t.Context(), url, token(t, store, pki.RoleAgent))
	require.NoError(t, err)
	_, err = client.AddServer(t.Context(), join.ServerRequest{Name: "n", PeerURL: "https://198.18.0.2:2380"})
	require.ErrorContains(t, err, "401")
	require.Empty(t, c.asked)
}

func TestServerJoins_when_it_has_caught_up(t *testing.T) {
	c := &cluster{}
	url, store := serve(t, c)
	client, err := join.Dial(t.Context(), url, token(t, store, pki.RoleServer))
	require.NoError(t, err)
	res, err := client.AddServer(t.Context(), join.ServerRequest{Name: "n", PeerURL: "https://198.18.0.2:2380"})
	require.NoError(t, err)
	require.Equal(t, "n=https://198.18.0.2:2380", res.InitialCluster)
	c.err = errors.New("lags behind")
	require.NoError(t, client.Promote(t.Context(), join.PromoteRequest{Name: "n"}))
	require.Equal(t, []string{"n", "promote n", "promote n"}, c.asked)
}

func TestDial_sends_nothing_to_a_stranger(t *testing.T) {
	url, _ := serve(t, &cluster{})
	other, err := pki.Open(t.TempDir())
	require.NoError(t, err)
	_, err = join.Dial(t.Context(), url, token(t, other, pki.RoleAgent))
	require.ErrorContains(t, err, "not the one the join token names")
	_, err = join.Dial(t.Context(), "http://127.0.0.1", pki.Token{})
	require.ErrorContains(t, err, "not the https URL")
}

func TestBadInput(t *testing.T) {
	c := &cluster{}
	url, store := serve(t, c)
	client, err := join.Dial(t.Context(), url, token(t, store, pki.RoleAgent))
	require.NoError(t, err)
	for name, req := range map[string]join.AgentRequest{
		"../n": {NodeName: "../n", Address: "198.18.0.2"},
		"IP":   {NodeName: "n", Address: "nowhere"},
		"node": {NodeName: "", Address: "198.18.0.2"},
		"long": {NodeName: strings.Repeat("n", 2<<20), Address: "198.18.0.2"},
	} {
		_, err := client.AddAgent(t.Context(), req)
		require.ErrorContains(t, err, "400", name)
	}
	require.Empty(t, c.asked)

	c.err = join.ErrDenied
	_, err = client.AddAgent(t.Context(), join.AgentRequest{NodeName: "n", Address: "198.18.0.2"})
	require.ErrorContains(t, err, "403")
}

func FuzzHandler(f *testing.F) {
	store, err := pki.Open(f.TempDir())
	require.NoError(f, err)
	agent, err := store.Token(pki.RoleAgent)
	require.NoError(f, err)
	handler := join.NewHandler(store, &cluster{})
	f.Add(`{"nodeName":"n","address":"198.18.0.2"}`)
	f.Add(`{`)
	f.Fuzz(func(t *testing.T, body string) {
		req := httptest.NewRequest(http.MethodPost, "/v1/agent", strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+agent.Secret)
		res := httptest.NewRecorder()
		handler.ServeHTTP(res, req)
		require.Contains(t, []int{http.StatusOK, http.StatusBadRequest}, res.Code)
	})
}
