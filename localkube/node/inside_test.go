package node

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// insideVariable makes the test binary run one test in namespaces of its own.
const insideVariable = "LOCALKUBE_TEST_INSIDE"

// ownMachine runs the test again in user, mount and network namespaces of its
// own, where it may do to the machine what a node does. It is true inside.
func ownMachine(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideVariable) != "" {
		furnish(t)
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Skipf("this machine gives no namespaces: %v", err)
	}
	require.NoError(t, err, "%s", out)
	return false
}

// furnish hides the real machine's directories that a node touches.
func furnish(t *testing.T) {
	t.Helper()
	for _, dir := range []string{"/run", "/var/lib", "/var/log", "/opt", "/sys/fs/cgroup"} {
		require.NoError(t, unix.Mount("own", dir, "tmpfs", 0, "size=1m"))
	}
	lo, err := netlink.LinkByName("lo")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetUp(lo))
}

// addLink makes a network with one address.
func addLink(t *testing.T, name, cidr string) netlink.Link {
	t.Helper()
	link := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: name}}
	if err := netlink.LinkAdd(link); errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("this kernel has no dummy network")
	} else {
		require.NoError(t, err)
	}
	require.NoError(t, netlink.LinkSetUp(link))
	address, err := netlink.ParseAddr(cidr)
	require.NoError(t, err)
	require.NoError(t, netlink.AddrAdd(link, address))
	return link
}

// routesTo lists what the kernel knows of a range.
func routesTo(t *testing.T, cidr string) []netlink.Route {
	t.Helper()
	_, want, err := net.ParseCIDR(cidr)
	require.NoError(t, err)
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Dst: want}, netlink.RT_FILTER_DST)
	require.NoError(t, err)
	return routes
}

func savedRules(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("iptables-save").Output()
	require.NoError(t, err)
	return withoutNoise(string(out))
}
