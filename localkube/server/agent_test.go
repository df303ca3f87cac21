package server

import (
	"bytes"
	"crypto/tls"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/join"
	"github.com/drover-project/drover/localkube/node"
	"github.com/drover-project/drover/localkube/pki"
)

// joinURL serves the real join protocol of s on loopback.
func joinURL(t *testing.T, s *Server) string {
	t.Helper()
	url, _ := stoppable(t, s)
	return url
}

func TestRunAgent_says_what_is_wrong(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // whatever happens, no node starts here
	s := joinable(t)
	url := joinURL(t, s)
	agent, err := s.plane.Store.Token(pki.RoleAgent)
	require.NoError(t, err)
	stranger := agent
	stranger.Secret = "hush"
	for name, tt := range map[string]struct {
		opts AgentOptions
		want string
	}{
		"address":     {AgentOptions{Address: "x"}, "--node-ip x is not an IP address"},
		"token":       {AgentOptions{Server: url, Token: "hush"}, "reading join token: not of the form"},
		"URL":         {AgentOptions{Server: "127.0.0.1", Token: agent.String()}, `joining "127.0.0.1": not the https URL`},
		"not let in":  {AgentOptions{Server: url, Token: stranger.String()}, "401"},
		"node name":   {AgentOptions{Server: url, Token: agent.String(), Node: node.Options{Name: "No Name"}}, `"No Name" is not a node name`},
		"taken name":  {AgentOptions{Server: url, Token: agent.String(), Node: node.Options{Name: "boss"}}, "node name boss is this server's: set another --node-name"},
		"no programs": {AgentOptions{Server: url, Token: agent.String()}, "a node needs programs that this machine lacks"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := tt.opts
			opts.DataDir = filepath.Join(t.TempDir(), "d")
			if opts.Address == "" {
				opts.Address = "198.18.0.2"
			}
			if opts.Node.Name == "" {
				opts.Node.Name = "worker-" + filepath.Base(filepath.Dir(opts.DataDir))
			}
			var log bytes.Buffer
			err := RunAgent(t.Context(), opts, &log)
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error()+log.String(), "hush")
		})
	}
	require.ErrorContains(t, RunAgent(t.Context(), AgentOptions{}, &bytes.Buffer{}), "--data-dir")
}

func TestAgentJoin_stores_what_a_node_needs(t *testing.T) {
	s := joinable(t)
	token, err := s.plane.Store.Token(pki.RoleAgent)
	require.NoError(t, err)
	a := &agent{
		opts: AgentOptions{Server: joinURL(t, s), Token: token.String(), Node: node.Options{Name: "worker"}},
		dir:  joinable(t).dir, say: newProgress(&bytes.Buffer{}),
	}
	for range 2 { // every start asks again, for the same keys
		cluster, id, err := a.join(t.Context(), net.IPv4(198, 18, 0, 2))
		require.NoError(t, err)
		require.Equal(t, "https://198.18.0.1:6443", cluster.APIServer)
		require.Equal(t, "198.19.0.0/17", cluster.PodCIDR)
		require.Equal(t, s.plane.Store.Cluster.CertPEM(), cluster.CA)
		for _, pair := range []pki.Pair{id.Kubelet, id.KubeletServing, id.Proxy} {
			_, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
			require.NoError(t, err, "certificate and key belong together")
		}
	}
}

func TestAddAgent_refused_takes_no_name(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(req *join.AgentRequest)
		want  string
	}{
		"kubelet key":     {func(req *join.AgentRequest) { req.Kubelet = []byte("x") }, "reading public key: not PEM"},
		"serving key":     {func(req *join.AgentRequest) { req.KubeletServing = nil }, "reading public key: not PEM"},
		"proxy key":       {func(req *join.AgentRequest) { req.Proxy = []byte("-----BEGIN X-----\n-----END X-----\n") }, "reading public key: denied"},
		"no address":      {func(req *join.AgentRequest) { req.Address = "" }, "cannot be another machine's"},
		"loopback":        {func(req *join.AgentRequest) { req.Address = "127.0.0.1" }, "address 127.0.0.1 cannot be another machine's"},
		"mapped loopback": {func(req *join.AgentRequest) { req.Address = "::ffff:127.0.0.1" }, "address 127.0.0.1 cannot be"},
		"everywhere":      {func(req *join.AgentRequest) { req.Address = "0.0.0.0" }, "address 0.0.0.0 cannot be"},
		"the API server":  {func(req *join.AgentRequest) { req.Address = "198.18.0.1" }, "address 198.18.0.1 cannot be"},
	} {
		t.Run(name, func(t *testing.T) {
			s := joinable(t)
			bad, _ := request(t, "worker")
			tt.spoil(&bad)
			_, err := s.AddAgent(t.Context(), bad)
			require.ErrorIs(t, err, join.ErrDenied)
			require.ErrorContains(t, err, tt.want)
			require.NoFileExists(t, s.dir.Path("join", "worker"))
			good, _ := request(t, "worker")
			_, err = s.AddAgent(t.Context(), good)
			require.NoError(t, err)
		})
	}
}

func TestAddAgent_signs_nothing_in_the_API_servers_name(t *testing.T) {
	s := joinable(t)
	for _, name := range []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc.cluster.local"} {
		req, _ := request(t, name)
		_, err := s.AddAgent(t.Context(), req)
		require.ErrorIs(t, err, join.ErrDenied, name)
		require.ErrorContains(t, err, "node name "+name+" is the API server's")
	}
	s.plane.Config.ServiceCIDR = "198.19.128.0/17"
	req, _ := request(t, "worker")
	req.Address = "198.19.128.1"
	_, err := s.AddAgent(t.Context(), req)
	require.ErrorContains(t, err, "address 198.19.128.1 is a Service's")
	req, _ = request(t, "kubernetes-worker")
	_, err = s.AddAgent(t.Context(), req)
	require.NoError(t, err, "only the names themselves are taken")
}

func TestAddServer_refuses_its_own_name(t *testing.T) {
	_, err := joinable(t).AddServer(t.Context(), join.ServerRequest{Name: "boss", PeerURL: "https://198.18.0.2:2380"})
	require.ErrorIs(t, err, join.ErrDenied)
	require.ErrorContains(t, err, "server name boss is taken")
}

func TestAdopt_makes_a_server_of_the_same_cluster(t *testing.T) {
	founder, joiner := joinable(t), joinable(t)
	for _, role := range []pki.Role{pki.RoleServer, pki.RoleAgent} {
		_, err := founder.plane.Store.Token(role)
		require.NoError(t, err)
	}
	files, err := founder.plane.Store.Shared()
	require.NoError(t, err)
	res := join.ServerResponse{Identities: files, InitialCluster: "a=https://a", PodCIDR: "198.18.0.0/17", ServiceCIDR: "198.18.128.0/17"}
	require.NoError(t, joiner.adopt(res))
	cfg, known, err := joiner.dir.LoadConfig()
	require.NoError(t, err)
	require.True(t, known)
	require.True(t, cfg.Joining, "until etcd lets it vote")
	require.True(t, cfg.Replicated)
	require.Equal(t, res.PodCIDR, cfg.PodCIDR)
	store, err := pki.Open(joiner.dir.Path("pki"))
	require.NoError(t, err)
	require.Equal(t, founder.plane.Store.Cluster.Fingerprint(), store.Cluster.Fingerprint())
}
