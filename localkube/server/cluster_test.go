package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/controlplane"
	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/join"
	"github.com/drover-project/drover/localkube/node"
	"github.com/drover-project/drover/localkube/pki"
)

// founder is a server with a real etcd, but without the rest.
func founder(t *testing.T) (s *Server, log *bytes.Buffer) {
	t.Helper()
	s, log = joinable(t), &bytes.Buffer{}
	s.say = newProgress(log)
	free := func() int {
		l, number := listener(t)
		require.NoError(t, l.Close())
		return number
	}
	s.plane.BindAddress, s.plane.AdvertiseAddress, s.plane.NoFsync = net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 1), true
	s.plane.Config.EtcdClientPort, s.plane.Config.EtcdPeerPort = free(), free()
	require.NoError(t, s.dir.SaveConfig(s.plane.Config))
	for _, role := range []pki.Role{pki.RoleServer, pki.RoleAgent} {
		_, err := s.plane.Store.Token(role)
		require.NoError(t, err)
	}
	require.NoError(t, s.plane.IssueIdentities())
	spec, err := s.plane.Etcd()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- controlplane.RunEtcd(ctx, spec.Args[1]) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-ended) })
	wait, done := context.WithTimeout(t.Context(), 30*time.Second)
	defer done()
	require.NoError(t, s.plane.AwaitEtcd(wait))
	return s, log
}

// joining is a second server that has settled its own settings.
func joining(t *testing.T, name, url string, token pki.Token) *Server {
	t.Helper()
	dir := newDir(t)
	cfg, err := dir.Settle(datadir.Config{NodeName: name, PodCIDR: "10.1.0.0/16", ServiceCIDR: "10.2.0.0/16"})
	require.NoError(t, err)
	return &Server{
		dir: dir, say: newProgress(&bytes.Buffer{}), opts: Options{JoinURL: url, JoinToken: token.String()},
		plane: controlplane.Options{Dir: dir, Config: cfg, AdvertiseAddress: net.IPv4(127, 0, 0, 2)},
	}
}

func TestJoinCluster_with_a_real_etcd(t *testing.T) {
	s, log := founder(t)
	url := joinURL(t, s)
	token, err := s.plane.Store.Temporary(pki.RoleServer, time.Now().Add(time.Minute))
	require.NoError(t, err)
	two := joining(t, "two", url, token)
	for range 2 { // a machine that was interrupted does it again
		require.NoError(t, two.joinCluster(t.Context()))
		cfg, known, err := two.dir.LoadConfig()
		require.NoError(t, err)
		require.True(t, known)
		require.Equal(t, datadir.Config{
			NodeName: "two", PodCIDR: s.plane.Config.PodCIDR, ServiceCIDR: s.plane.Config.ServiceCIDR,
			HTTPSPort: cfg.HTTPSPort, EtcdClientPort: cfg.EtcdClientPort, EtcdPeerPort: cfg.EtcdPeerPort, JoinPort: cfg.JoinPort,
			Replicated: true, Joining: true, InitialCluster: "two=" + two.plane.EtcdPeerURL() + ",boss=" + s.plane.EtcdPeerURL(),
		}, cfg, "the cluster's ranges, not its own")
	}
	store, err := pki.Read(two.dir.Path("pki"))
	require.NoError(t, err)
	require.Equal(t, s.plane.Store.Cluster.Fingerprint(), store.Cluster.Fingerprint())
	require.Contains(t, log.String(), "server two joins from "+two.plane.EtcdPeerURL()+"\n")

	short, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, two.promote(short), "promoting etcd member two: it has not started", "who has not caught up has no vote")
	three := joining(t, "three", url, token)
	require.ErrorContains(t, three.joinCluster(t.Context()), "503 Service Unavailable: adding etcd member: the server at "+
		two.plane.EtcdPeerURL()+" has not finished joining: let it finish first")
	require.NoDirExists(t, three.dir.Path("pki"), "it has joined nothing")
	again := joining(t, "two", url, token)
	require.ErrorContains(t, again.joinCluster(t.Context()), "503", "its peer URL is another, and the first two is still a learner")
}

func TestJoinCluster_that_is_refused(t *testing.T) {
	s := joinable(t)
	url := joinURL(t, s)
	stranger := joinable(t)
	token := func(s *Server, role pki.Role, life time.Duration) pki.Token {
		token, err := s.plane.Store.Temporary(role, time.Now().Add(life))
		require.NoError(t, err)
		return token
	}
	for name, tc := range map[string]struct {
		server string
		token  pki.Token
		want   string
	}{
		"an agent's token":        {"two", token(s, pki.RoleAgent, time.Hour), "asking SERVER/v1/server: 401 Unauthorized: " + pki.ErrTokenUnknown.Error()},
		"an expired token":        {"two", token(s, pki.RoleServer, -time.Hour), "asking SERVER/v1/server: 401 Unauthorized: " + pki.ErrTokenExpired.Error()},
		"another cluster's token": {"two", token(stranger, pki.RoleServer, time.Hour), "joining SERVER: the server's certificate authority is not the one the join token names: take the token from a server of that cluster, or correct the URL"},
		"the founder's own name":  {"boss", token(s, pki.RoleServer, time.Hour), "asking SERVER/v1/server: 403 Forbidden: server name boss is taken: set another --node-name: denied"},
	} {
		t.Run(name, func(t *testing.T) {
			two := joining(t, tc.server, url, tc.token)
			before, _, err := two.dir.LoadConfig()
			require.NoError(t, err)
			require.EqualError(t, two.joinCluster(t.Context()), strings.ReplaceAll(tc.want, "SERVER", url))
			after, _, err := two.dir.LoadConfig()
			require.NoError(t, err)
			require.Equal(t, before, after, "it may try elsewhere")
			founded, err := pki.Founded(two.dir.Path("pki"))
			require.NoError(t, err)
			require.False(t, founded)
		})
	}
}

func TestServeJoin(t *testing.T) {
	s := joinable(t)
	var log bytes.Buffer
	s.say = newProgress(&log)
	s.plane.BindAddress, s.plane.AdvertiseAddress = net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 1)
	require.NoError(t, s.plane.IssueIdentities())
	require.NoError(t, s.serveJoin(t.Context()))
	require.Nil(t, s.joins, "nobody can reach loopback")
	require.Empty(t, log.String())
	for _, role := range []string{"token-agent", "token-server"} {
		require.FileExists(t, s.dir.Path("pki", role), "a machine may move to an address others reach")
	}

	own, err := node.DefaultAddress()
	if err != nil {
		t.Skip("this machine has no address but loopback")
	}
	l, number := listener(t)
	require.NoError(t, l.Close())
	s.plane.BindAddress, s.plane.AdvertiseAddress, s.plane.Config.JoinPort = own, own, number
	require.NoError(t, s.plane.IssueIdentities())
	require.NoError(t, s.serveJoin(t.Context()))
	require.Contains(t, log.String(), fmt.Sprintf("machines can join at https://%s:%d with the token in %s\n", own, number, s.dir.Path("pki", "token-agent")))
	token, err := s.plane.Store.Token(pki.RoleAgent)
	require.NoError(t, err)
	client, err := join.Dial(t.Context(), s.joinURL(), token)
	require.NoError(t, err)
	req, _ := request(t, "worker")
	_, err = client.AddAgent(t.Context(), req)
	require.NoError(t, err)
	plain, err := http.Get("http://" + strings.TrimPrefix(s.joinURL(), "https://") + "/v1/ca")
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, plain.StatusCode, "nothing is said in the clear")
	require.NoError(t, plain.Body.Close())
	require.ErrorContains(t, s.serveJoin(t.Context()), "listening for machines that join: listen tcp ")
	require.NoError(t, s.joins.Close())
	_, err = tls.Dial("tcp", fmt.Sprintf("%s:%d", own, number), &tls.Config{InsecureSkipVerify: true})
	require.ErrorContains(t, err, "connection refused")
}

func TestAddresses_of_every_kind(t *testing.T) {
	for name, tc := range map[string]struct {
		opts            Options
		bind, advertise string
		err             string
	}{
		"IPv6":                         {Options{BindAddress: "::1"}, "::1", "::1", ""},
		"bound widely, advertised":     {Options{BindAddress: "0.0.0.0", AdvertiseAddress: "198.18.0.7"}, "0.0.0.0", "198.18.0.7", ""},
		"bound to one, told another":   {Options{BindAddress: "198.18.0.1", AdvertiseAddress: "198.18.0.7"}, "198.18.0.1", "198.18.0.7", ""},
		"a name":                       {Options{BindAddress: "localhost"}, "", "", "--bind-address localhost is not an IP address"},
		"with a port":                  {Options{BindAddress: "127.0.0.1:6443"}, "", "", "--bind-address 127.0.0.1:6443 is not an IP address"},
		"a range":                      {Options{AdvertiseAddress: "198.18.0.0/16"}, "", "", "--advertise-address 198.18.0.0/16 is not an IP address"},
		"a node others cannot reach":   {Options{RunNode: true, AdvertiseAddress: "127.0.0.1"}, "", "", "pods and other machines cannot reach 127.0.0.1: set --advertise-address"},
		"a server others cannot reach": {Options{JoinURL: "https://x", BindAddress: "::1"}, "", "", "pods and other machines cannot reach ::1: set --advertise-address"},
	} {
		t.Run(name, func(t *testing.T) {
			bind, advertise, err := tc.opts.addresses()
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.bind+" "+tc.advertise, bind.String()+" "+advertise.String())
		})
	}
}

func TestSettle_keeps_nothing_that_cannot_work(t *testing.T) {
	dir := newDir(t)
	s := &Server{dir: dir, opts: Options{PodCIDR: "10.1.0.0/16", ServiceCIDR: "10.1.128.0/17", Node: node.Options{Name: "n"}}}
	_, err := s.settle(net.IPv4(127, 0, 0, 1))
	require.ErrorContains(t, err, "must not share addresses")
	s.opts.ServiceCIDR = "10.2.0.0/16"
	_, err = s.settle(net.IPv4(10, 2, 0, 1))
	require.ErrorContains(t, err, "lies in 10.2.0.0/16")
	require.NoFileExists(t, dir.Path("config.json"))

	cfg, err := s.settle(net.IPv4(198, 18, 0, 1))
	require.NoError(t, err)
	require.Equal(t, []string{"n", "10.1.0.0/16", "10.2.0.0/16"}, []string{cfg.NodeName, cfg.PodCIDR, cfg.ServiceCIDR})
	raw, err := os.ReadFile(dir.Path("config.json"))
	require.NoError(t, err)
	s.opts = Options{}
	again, err := s.settle(net.IPv4(198, 18, 0, 1))
	require.NoError(t, err)
	require.Equal(t, cfg, again)
	_, err = s.settle(net.IPv4(10, 1, 0, 9))
	require.ErrorContains(t, err, "this machine's address 10.1.0.9 lies in 10.1.0.0/16", "a machine can move into the ranges it kept")
	now, err := os.ReadFile(dir.Path("config.json"))
	require.NoError(t, err)
	require.Equal(t, string(raw), string(now))
}
