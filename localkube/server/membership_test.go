package server

import (
	"bytes"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/join"
	"github.com/drover-project/drover/localkube/node"
	"github.com/drover-project/drover/localkube/pki"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name + ".golden"
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o700))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

var workerAddress = net.IPv4(198, 18, 0, 2)

func exampleMembership() membership {
	return membership{
		Server: "https://198.18.0.1:9345", NodeName: "worker", Address: "198.18.0.2",
		APIServer: "https://198.18.0.1:6443", PodCIDR: DefaultPodCIDR, ServiceCIDR: DefaultServiceCIDR,
	}
}

func TestMembership_golden(t *testing.T) {
	dir := newDir(t)
	_, known, err := loadMembership(dir)
	require.NoError(t, err)
	require.False(t, known)
	require.NoError(t, exampleMembership().save(dir))
	raw, err := os.ReadFile(dir.Path("agent.json"))
	require.NoError(t, err)
	golden(t, "agent.json", string(raw))
	have, known, err := loadMembership(dir)
	require.NoError(t, err)
	require.True(t, known)
	require.Equal(t, exampleMembership(), have)
}

// newAgent is an agent that has joined a server once, unless dir is new.
func newAgent(t *testing.T, url, token string) (*agent, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	return &agent{
		opts: AgentOptions{Server: url, Token: token, Node: node.Options{Name: "worker"}}, dir: newDir(t), say: newProgress(log),
	}, log
}

func closedPort(t *testing.T) string {
	t.Helper()
	l, _ := listener(t)
	require.NoError(t, l.Close())
	return "https://" + l.Addr().String()
}

func lasting(t *testing.T, s *Server, role pki.Role) string {
	t.Helper()
	token, err := s.plane.Store.Token(role)
	require.NoError(t, err)
	return token.String()
}

// stoppable serves the join protocol until stop is called.
func stoppable(t *testing.T, s *Server) (url string, stop func()) {
	t.Helper()
	store := s.plane.Store
	pair, err := store.Issue(store.Cluster, "serving", pki.Subject{Name: "s", Addresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	require.NoError(t, err)
	cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(join.NewHandler(store, s))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, server.Close
}

func TestAgent_starts_again_when_the_server_does_not_answer(t *testing.T) {
	s := joinable(t)
	url, stop := stoppable(t, s)
	a, log := newAgent(t, url, lasting(t, s, pki.RoleAgent))
	first, _, err := a.join(t.Context(), workerAddress)
	require.NoError(t, err)
	stop()
	again, id, err := a.join(t.Context(), workerAddress)
	require.NoError(t, err)
	require.Equal(t, first, again, "it knows its cluster still")
	_, err = tls.LoadX509KeyPair(id.Kubelet.Cert, id.Kubelet.Key)
	require.NoError(t, err)
	require.Regexp(t, `asking the cluster to join: .* connection refused\n.* going on with the certificates of the last start, which last until \d{4}-`, log.String())

	for name, change := range map[string]func(a *agent) net.IP{
		"another server":  func(a *agent) net.IP { a.opts.Server = closedPort(t); return workerAddress },
		"another name":    func(a *agent) net.IP { a.opts.Node.Name = "other"; return workerAddress },
		"another address": func(*agent) net.IP { return net.IPv4(198, 18, 0, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			changed := *a
			_, _, err := changed.join(t.Context(), change(&changed))
			require.ErrorContains(t, err, "connection refused", "what it has is for something else")
		})
	}
	require.NoError(t, os.Remove(a.caFile()))
	_, _, err = a.join(t.Context(), workerAddress)
	require.EqualError(t, err, "reading the cluster's authority: open "+a.caFile()+": no such file or directory")
}

func TestAgent_that_never_joined_needs_an_answer(t *testing.T) {
	s := joinable(t)
	a, log := newAgent(t, closedPort(t), lasting(t, s, pki.RoleAgent))
	_, _, err := a.join(t.Context(), workerAddress)
	require.ErrorContains(t, err, "connection refused")
	require.NotContains(t, log.String(), "going on")
}

func TestAgent_starts_again_when_its_token_has_expired(t *testing.T) {
	s := joinable(t)
	token, err := s.plane.Store.Temporary(pki.RoleAgent, time.Now().Add(time.Hour))
	require.NoError(t, err)
	a, log := newAgent(t, joinURL(t, s), token.String())
	_, _, err = a.join(t.Context(), workerAddress)
	require.NoError(t, err)
	token, err = s.plane.Store.Temporary(pki.RoleAgent, time.Now().Add(-time.Hour))
	require.NoError(t, err)
	a.opts.Token = token.String()
	_, _, err = a.join(t.Context(), workerAddress)
	require.NoError(t, err)
	require.Contains(t, log.String(), "the join token has expired: make a new one with localkube token\n")
	require.NotContains(t, log.String(), token.Secret)

	fresh, _ := newAgent(t, a.opts.Server, token.String())
	_, _, err = fresh.join(t.Context(), workerAddress)
	require.ErrorIs(t, err, pki.ErrTokenExpired, "a new machine needs a token that is good")
}

func TestAgent_does_not_go_on_where_it_is_told_no(t *testing.T) {
	s, stranger := joinable(t), joinable(t)
	good := lasting(t, s, pki.RoleAgent)
	a, _ := newAgent(t, joinURL(t, s), good)
	_, _, err := a.join(t.Context(), workerAddress)
	require.NoError(t, err)
	for name, tc := range map[string]struct{ token, want string }{
		"the token was replaced":    {good[:len(good)-4] + "0000", "401 Unauthorized: the join token is not valid for this"},
		"the token of another role": {lasting(t, s, pki.RoleServer), "401 Unauthorized: the join token is not valid for this"},
		"another cluster's token":   {lasting(t, stranger, pki.RoleAgent), "not the one the join token names"},
		"no token":                  {"", "no join token given"},
	} {
		t.Run(name, func(t *testing.T) {
			told := *a
			told.opts.Token = tc.token
			_, _, err := told.join(t.Context(), workerAddress)
			require.ErrorContains(t, err, tc.want)
		})
	}
	require.NoError(t, os.Remove(a.pair("kubelet").Key))
	_, _, err = a.join(t.Context(), workerAddress)
	require.ErrorContains(t, err, "node name worker belongs to another machine", "a new key is another machine")
}

func TestAgent_leaves_a_servers_directory_alone(t *testing.T) {
	s := joinable(t)
	require.NoError(t, s.dir.SaveConfig(s.plane.Config))
	before := names(t, s.dir)
	a, _ := newAgent(t, joinURL(t, s), lasting(t, s, pki.RoleAgent))
	a.dir = s.dir
	_, _, err := a.join(t.Context(), workerAddress)
	require.EqualError(t, err, s.dir.Root()+" is a server's: give the agent a data directory of its own")
	for path, content := range before {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(raw), "the cluster's authority must not become another's")
	}
}

func TestResume(t *testing.T) {
	dial := fmt.Errorf("asking: %w", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})
	expired := fmt.Errorf("asking: %w", errors.Join(join.ErrDenied, pki.ErrTokenExpired))
	for name, tc := range map[string]struct {
		cause error
		life  time.Duration
		spoil func(t *testing.T, a *agent)
		want  string
	}{
		"unreachable":         {dial, time.Hour, nil, ""},
		"token expired":       {expired, time.Hour, nil, ""},
		"denied":              {fmt.Errorf("asking: %w", join.ErrDenied), time.Hour, nil, "asking: denied"},
		"broken off":          {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, time.Hour, nil, "read: connection reset by peer"},
		"stopped":             {errors.New("context canceled"), time.Hour, nil, "context canceled"},
		"too late":            {dial, -time.Hour, nil, "the certificates of the last start expired at "},
		"settings are gone":   {dial, time.Hour, func(t *testing.T, a *agent) { t.Helper(); require.NoError(t, os.Remove(a.dir.Path("agent.json"))) }, "asking: dial: connection refused"},
		"settings are broken": {dial, time.Hour, func(t *testing.T, a *agent) { t.Helper(); write(t, a.dir, "{", "agent.json") }, "asking: dial: connection refused\nreading the agent's settings in "},
		"a certificate gone":  {dial, time.Hour, func(t *testing.T, a *agent) { t.Helper(); require.NoError(t, os.Remove(a.pair("kube-proxy").Cert)) }, "asking: dial: connection refused\nreading certificate: open "},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := newAgent(t, exampleMembership().Server, "")
			require.NoError(t, exampleMembership().save(a.dir))
			for i, name := range []string{"kubelet", "kubelet-serving", "kube-proxy"} {
				certify(t, a, name, tc.life+time.Duration(i)*time.Minute)
			}
			if tc.spoil != nil {
				tc.spoil(t, a)
			}
			m, until, err := a.resume(tc.cause, workerAddress)
			if tc.want != "" {
				require.Error(t, err)
				require.True(t, strings.HasPrefix(err.Error(), tc.want), err)
				require.Zero(t, m)
				return
			}
			require.NoError(t, err)
			require.Equal(t, exampleMembership(), m)
			require.WithinDuration(t, time.Now().Add(tc.life), until, 30*time.Second, "the first that expires counts")
		})
	}
}
