package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/controlplane"
	"github.com/drover-project/drover/localkube/datadir"
)

// listener takes a port of loopback until the test ends.
func listener(t *testing.T) (*net.TCPListener, int) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l, l.Addr().(*net.TCPAddr).Port
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func TestPorts(t *testing.T) {
	dir, err := datadir.Locate("/d")
	require.NoError(t, err)
	cfg := datadir.Config{HTTPSPort: 1, EtcdClientPort: 2, EtcdPeerPort: 3, JoinPort: 4}
	for name, tc := range map[string]struct {
		bind, advertise net.IP
		want            []string
	}{
		"alone": {net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 1), []string{
			"127.0.0.1:1 the API server, or choose another with --https-port",
			"127.0.0.1:2 etcd, or change etcdClientPort in /d/config.json",
			"127.0.0.1:3 etcd's other members, the cluster knows this one",
		}},
		"with others": {net.IPv4zero, net.IPv4(198, 18, 0, 1), []string{
			"0.0.0.0:1 the API server, or choose another with --https-port",
			"127.0.0.1:2 etcd, or change etcdClientPort in /d/config.json",
			"198.18.0.1:3 etcd's other members, the cluster knows this one",
			"0.0.0.0:4 machines that join, or change joinPort in /d/config.json",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Server{dir: dir, plane: controlplane.Options{BindAddress: tc.bind, AdvertiseAddress: tc.advertise, Config: cfg}}
			var got []string
			for _, p := range s.ports() {
				got = append(got, fmt.Sprintf("%s:%d %s, %s", p.ip, p.number, p.who, p.instead))
			}
			require.Equal(t, tc.want, got)
		})
	}
}

func TestPort_that_is_taken(t *testing.T) {
	_, number := listener(t)
	for name, ip := range map[string]net.IP{"its own address": net.IPv4(127, 0, 0, 1), "all addresses": net.IPv4zero} {
		p := port{"the API server", ip, number, "or choose another with --https-port"}
		require.EqualError(t, p.await(soon(t)), fmt.Sprintf(
			"port %d of %s, for the API server, is in use by another program: stop that one, or choose another with --https-port", number, ip), name)
	}
	p := port{"the API server", net.IPv4(127, 0, 0, 2), number, ""}
	require.NoError(t, p.await(soon(t)), "the same port of another address")
}

func TestPort_that_becomes_free(t *testing.T) {
	l, number := listener(t)
	p := port{"etcd", net.IPv4(127, 0, 0, 1), number, ""}
	answer := make(chan error)
	go func() { answer <- p.await(t.Context()) }()
	require.ErrorIs(t, p.try(), syscall.EADDRINUSE)
	require.NoError(t, l.Close())
	require.NoError(t, <-answer, "the children of a killed server take a moment")
	require.NoError(t, p.await(t.Context()), "trying it does not take it")
}

func TestPort_explain(t *testing.T) {
	p := port{"etcd", net.IPv4(198, 18, 0, 1), 443, "or change it"}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"free":              {nil, ""},
		"taken":             {syscall.EADDRINUSE, "port 443 of 198.18.0.1, for etcd, is in use by another program: stop that one, or change it"},
		"not ours":          {&net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EADDRNOTAVAIL)}, "198.18.0.1, for etcd, is not an address of this machine: set --bind-address and --advertise-address to some that are"},
		"not for everybody": {syscall.EACCES, "port 443 of 198.18.0.1, for etcd, needs root: or change it"},
		"something else":    {errors.New("boom"), "trying port 443 of 198.18.0.1, for etcd: boom"},
	} {
		t.Run(name, func(t *testing.T) { requireText(t, tc.want, p.explain(tc.err)) })
	}
}

func TestAwaitPorts_names_the_first_that_is_not_to_be_had(t *testing.T) {
	_, taken := listener(t)
	free := func() int {
		l, number := listener(t)
		require.NoError(t, l.Close())
		return number
	}
	dir, err := datadir.Locate("/d")
	require.NoError(t, err)
	s := &Server{dir: dir, plane: controlplane.Options{
		BindAddress: net.IPv4(127, 0, 0, 1), AdvertiseAddress: net.IPv4(127, 0, 0, 1),
		Config: datadir.Config{HTTPSPort: free(), EtcdClientPort: taken, EtcdPeerPort: free()},
	}}
	require.EqualError(t, s.awaitPorts(soon(t)), fmt.Sprintf(
		"port %d of 127.0.0.1, for etcd, is in use by another program: stop that one, or change etcdClientPort in /d/config.json", taken))
	s.plane.Config.EtcdClientPort = free()
	require.NoError(t, s.awaitPorts(soon(t)))
	s.plane.BindAddress = net.IPv4(192, 0, 2, 99)
	require.EqualError(t, s.awaitPorts(soon(t)), "192.0.2.99, for the API server, is not an address of this machine: set --bind-address and --advertise-address to some that are")
}
