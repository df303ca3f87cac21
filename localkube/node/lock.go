package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// lockName is an abstract socket: it belongs to the network namespace, as do
// the ports, routes and rules it stands for, and it goes with its holder.
const lockName = "@localkube-node"

// takeNodeLock makes sure that a machine is one node only: ports, cgroups and
// iptables chains of a kubelet have fixed names.
func takeNodeLock() (*net.UnixListener, error) {
	address := &net.UnixAddr{Name: lockName, Net: "unix"}
	lock, err := net.ListenUnix("unix", address)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("process %d already runs a localkube node on this machine", lockHolder(address))
	}
	if err != nil {
		return nil, fmt.Errorf("taking the machine's node lock: %w", err)
	}
	return lock, nil
}

// lockHolder asks the kernel who listens; 0 when it has gone meanwhile.
func lockHolder(address *net.UnixAddr) int {
	conn, err := net.DialUnix("unix", nil, address)
	if err != nil {
		return 0
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}

// The ports of a kubelet and a kube-proxy, which have no other use.
const (
	kubeletPort = 10250
	proxyPort   = 10256
)

// rivalGrace is how long a kubelet of ours that was killed may keep its port.
const rivalGrace = 3 * time.Second

// refuseRival fails on a machine that is a node of another Kubernetes: cgroups
// and iptables chains have the same names there, and taking ours away would
// take away that one's pods.
func refuseRival(ctx context.Context, address net.IP) error {
	ctx, cancel := context.WithTimeout(ctx, rivalGrace)
	defer cancel()
	for _, p := range []struct {
		ip   net.IP
		port int
		who  string
	}{{address, kubeletPort, "kubelet"}, {net.IPv4(127, 0, 0, 1), proxyPort, "kube-proxy"}} {
		if err := awaitFree(ctx, net.JoinHostPort(p.ip.String(), strconv.Itoa(p.port))); err != nil {
			return fmt.Errorf("this machine seems to be a node of another Kubernetes, for there is a %s: %w", p.who, err)
		}
	}
	return nil
}

// awaitFree returns when nobody listens at an address any more.
func awaitFree(ctx context.Context, address string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		listener, err := net.Listen("tcp", address)
		if err == nil {
			return listener.Close()
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			return nil // what it is, the kubelet will say
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}
