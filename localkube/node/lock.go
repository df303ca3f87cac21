package node

import (
	"errors"
	"fmt"
	"net"

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
