package node

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/drover-project/drover/localkube/process"
)

// withoutNoise leaves the comments and counters of iptables-save out.
func withoutNoise(saved string) string {
	saved = regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(saved, "")
	return regexp.MustCompile(`\[\d+:\d+\]`).ReplaceAllString(saved, "[0:0]")
}

func TestNetwork_is_opened_and_taken_away(t *testing.T) {
	if !ownMachine(t) {
		return
	}
	if _, err := exec.LookPath("iptables"); err != nil {
		t.Skip("this machine has no iptables")
	}
	n := newNode(t)
	addLink(t, "wan", "198.18.0.2/16")
	for _, rule := range []string{"-N DOCKER", "-A FORWARD -j DOCKER", "-A FORWARD -s 192.0.2.0/24 -j DROP", "-t nat -N KUBELESS"} {
		out, err := exec.Command("iptables", strings.Fields(rule)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	foreign := savedRules(t)
	for range 2 { // a start after a crash does it again
		require.NoError(t, n.openNetwork(t.Context()))
	}
	forward, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward")
	require.NoError(t, err)
	require.Equal(t, "1\n", string(forward))
	require.Contains(t, savedRules(t), "-A FORWARD -j LOCALKUBE-FORWARD\n")
	require.Contains(t, savedRules(t), "-A LOCALKUBE-FORWARD -s 198.19.0.0/17 -j ACCEPT\n-A LOCALKUBE-FORWARD -d 198.19.0.0/17 -j ACCEPT\n")
	require.Equal(t, unix.RTN_UNREACHABLE, routesTo(t, "198.19.0.0/17")[0].Type, "pods that do not exist are not looked for elsewhere")
	services := routesTo(t, "198.19.128.0/17")[0]
	require.Equal(t, "198.18.0.2", services.Src.String())
	require.EqualValues(t, routeProtocol, services.Protocol)

	for range 2 {
		require.NoError(t, removeRules(t.Context()))
		require.NoError(t, removeRoutes())
	}
	require.Equal(t, foreign, savedRules(t), "what others made is as it was")
	require.Empty(t, routesTo(t, "198.19.0.0/17"))
	require.Empty(t, routesTo(t, "198.19.128.0/17"))
	require.Len(t, routesTo(t, "198.18.0.0/16"), 1)
}

func TestNetwork_names_what_cannot_be_routed(t *testing.T) {
	if !ownMachine(t) {
		return
	}
	n := newNode(t)
	require.EqualError(t, n.catchRanges(), "routing 198.19.128.0/17: invalid argument", "its address is not this machine's")
	n.cluster.ServiceCIDR = "x"
	require.EqualError(t, n.catchRanges(), "reading service range: invalid CIDR address: x")
	n.cluster.PodCIDR = "y"
	require.EqualError(t, n.catchRanges(), "reading pod range: invalid CIDR address: y")
	require.EqualError(t, n.openNetwork(t.Context()), "reading pod range: invalid CIDR address: y")
}

// nodeAt is another node of the cluster.
func nodeAt(name, address, pods string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{PodCIDR: pods},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}},
	}
}

func TestRoutes_follow_the_nodes(t *testing.T) {
	if !ownMachine(t) {
		return
	}
	var said []string
	n := newNode(t)
	n.say = func(format string, _ ...any) { said = append(said, format) }
	addLink(t, "wan", "198.18.0.2/16")
	gateway := func() string {
		routes := routesTo(t, "198.19.7.0/24")
		if len(routes) == 0 {
			return ""
		}
		return routes[0].Gw.String()
	}
	for _, step := range []struct {
		obj   any
		apply func(*netlink.Route) error
		want  string
	}{
		{nodeAt("other", "198.18.0.7", ""), netlink.RouteReplace, ""},
		{nodeAt("other", "198.18.0.7", "198.19.7.0/24"), netlink.RouteReplace, "198.18.0.7"},
		{nodeAt("other", "198.18.0.8", "198.19.7.0/24"), netlink.RouteReplace, "198.18.0.8"},
		{nodeAt("worker", "198.18.0.9", "198.19.7.0/24"), netlink.RouteReplace, "198.18.0.8"},
		{&corev1.Pod{}, netlink.RouteDel, "198.18.0.8"},
		{cache.DeletedFinalStateUnknown{Obj: "no node"}, netlink.RouteDel, "198.18.0.8"},
		{cache.DeletedFinalStateUnknown{Obj: nodeAt("other", "198.18.0.8", "198.19.7.0/24")}, netlink.RouteDel, ""},
	} {
		n.route(step.obj, step.apply)
		require.Equal(t, step.want, gateway())
	}
	require.Empty(t, said)
	n.route(nodeAt("far", "203.0.113.1", "198.19.8.0/24"), netlink.RouteReplace)
	require.Equal(t, []string{"routing to pods of node %s: %v"}, said, "a node on another link cannot be routed to")
}

func TestDefaultAddress_of_many_machines(t *testing.T) {
	if !ownMachine(t) {
		return
	}
	_, err := DefaultAddress()
	require.EqualError(t, err, "this machine has no IPv4 address but loopback")
	lan := addLink(t, "lan", "192.0.2.7/24")
	wan := addLink(t, "wan", "198.18.0.2/16")
	second, err := netlink.ParseAddr("198.18.0.3/16")
	require.NoError(t, err)
	require.NoError(t, netlink.AddrAdd(wan, second))
	require.Equal(t, "192.0.2.7", mustAddress(t), "without a default route the first will do")

	route := &netlink.Route{LinkIndex: wan.Attrs().Index, Gw: net.IPv4(198, 18, 0, 1)}
	require.NoError(t, netlink.RouteAdd(route))
	require.Equal(t, "198.18.0.2", mustAddress(t))
	route.Src = net.IPv4(198, 18, 0, 3)
	require.NoError(t, netlink.RouteReplace(route))
	require.Equal(t, "198.18.0.3", mustAddress(t), "the route's own source")
	require.NoError(t, netlink.LinkDel(wan))
	require.Equal(t, "192.0.2.7", mustAddress(t))
	require.NoError(t, netlink.LinkDel(lan))
}

func mustAddress(t *testing.T) string {
	t.Helper()
	ip, err := DefaultAddress()
	require.NoError(t, err)
	return ip.String()
}

func TestNetnsDir_is_shared_once(t *testing.T) {
	if !ownMachine(t) {
		return
	}
	if strings.Contains(mountinfo(t), netnsDir) {
		t.Skip("the real machine has network namespaces now, which cannot be hidden")
	}
	for range 2 {
		require.NoError(t, shareNetns())
		mounted, below, err := netnsMounts()
		require.NoError(t, err)
		require.True(t, mounted)
		require.False(t, below)
	}
	require.Equal(t, 1, strings.Count(mountinfo(t), " "+netnsDir+" "), "two would hide each other's namespaces")

	namespace := filepath.Join(netnsDir, "pod")
	require.NoError(t, os.WriteFile(namespace, nil, 0o600))
	require.NoError(t, unix.Mount("/proc/self/ns/net", namespace, "", unix.MS_BIND, ""))
	require.NoError(t, restoreNetns(before{Absent: []string{netnsDir}}))
	require.Contains(t, mountinfo(t), " "+netnsDir+" ", "somebody's namespace is there")
	require.NoError(t, unix.Unmount(namespace, 0))
	for range 2 {
		require.NoError(t, restoreNetns(before{Absent: []string{netnsDir}}))
		require.NotContains(t, mountinfo(t), netnsDir)
	}
}

func mountinfo(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	return string(raw)
}

func TestUnmountBelow_takes_all_and_only_what_is_below(t *testing.T) {
	if !ownMachine(t) {
		return
	}
	l := newLayout(t)
	for _, dir := range []string{"a", "a/deep er", "a/deep er/x", "b\\c"} {
		path := l.Path(dir)
		require.NoError(t, os.MkdirAll(path, 0o700))
		require.NoError(t, unix.Mount("own", path, "tmpfs", 0, "size=64k"))
	}
	neighbour := l.Root() + "-neighbour"
	require.NoError(t, os.MkdirAll(neighbour, 0o700))
	require.NoError(t, unix.Mount("own", neighbour, "tmpfs", 0, "size=64k"))
	for range 2 {
		require.NoError(t, unmountBelow(l.Root()))
		require.NotContains(t, mountinfo(t), l.Root()+"/")
		require.Contains(t, mountinfo(t), neighbour)
	}
	require.NoError(t, unix.Unmount(neighbour, 0))
}

func TestEmptyCgroup_waits_for_the_kernel(t *testing.T) {
	if !ownMachine(t) {
		return
	}
	busy := "/sys/fs/cgroup/cpu/" + podCgroup
	require.NoError(t, os.MkdirAll(busy, 0o700))
	require.NoError(t, unix.Mount("own", busy, "tmpfs", 0, "size=64k")) // the kernel says EBUSY of it, as of a cgroup with processes
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.EqualError(t, removeCgroups(short), "removing cgroup "+busy+": device or resource busy")
	done := make(chan error)
	go func() { done <- removeCgroups(t.Context()) }()
	require.NoError(t, unix.Unmount(busy, 0))
	require.NoError(t, <-done)
	require.NoDirExists(t, busy)
	require.DirExists(t, filepath.Dir(busy))
}

// A whole life: what a killed node left is taken away, and nothing else.
func TestClean(t *testing.T) {
	if !ownMachine(t) {
		return
	}
	l := newLayout(t)
	require.NoError(t, os.MkdirAll("/var/lib/cni/results", 0o700)) // was there before us
	require.NoError(t, os.WriteFile("/var/lib/cni/results/theirs", nil, 0o600))
	require.NoError(t, remember(l))
	state, _, err := recall(l)
	require.NoError(t, err)
	require.Equal(t, []string{"/var/lib/kubelet", "/var/log/containers", "/run/containerd", "/run/netns", "/opt/cni"}, state.Absent)

	require.NoError(t, shareNetns())
	require.NoError(t, os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600))
	for _, file := range []string{"/var/lib/kubelet/device-plugins/sock", "/run/containerd/s/shim", "/opt/cni/bin/kept-by-somebody"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, nil, 0o600))
	}
	require.NoError(t, os.MkdirAll("/var/log/containers", 0o700))
	require.NoError(t, os.Symlink(l.Path("pod-logs", "x"), "/var/log/containers/ours"))
	require.NoError(t, os.Symlink("/elsewhere", "/var/log/containers/theirs"))
	require.NoError(t, os.MkdirAll("/sys/fs/cgroup/memory/kubepods/pod1", 0o700))

	require.NoError(t, Clean(t.Context(), l.Dir))
	for _, gone := range []string{"/var/lib/kubelet", "/run/containerd", "/run/netns", "/sys/fs/cgroup/memory/kubepods", l.marker()} {
		require.NoFileExists(t, gone)
		require.NoDirExists(t, gone)
	}
	for _, kept := range []string{"/var/lib/cni/results/theirs", "/opt/cni/bin/kept-by-somebody"} {
		require.FileExists(t, kept)
	}
	links, err := os.ReadDir("/var/log/containers")
	require.NoError(t, err)
	require.Len(t, links, 1)
	forward, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward")
	require.NoError(t, err)
	require.Equal(t, state.Settings["net/ipv4/ip_forward"], strings.TrimSpace(string(forward)))
	require.NoError(t, Clean(t.Context(), l.Dir), "clean is clean")
}

func TestRefuseRival(t *testing.T) {
	if !ownMachine(t) {
		return
	}
	addLink(t, "wan", "198.18.0.2/16")
	address := net.IPv4(198, 18, 0, 2)
	require.NoError(t, refuseRival(t.Context(), address))
	require.NoError(t, refuseRival(t.Context(), net.IPv4(192, 0, 2, 1)), "what is no address of ours is for the kubelet to say")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for where, who := range map[string]string{"198.18.0.2:10250": "kubelet", "0.0.0.0:10250": "kubelet", "127.0.0.1:10256": "kube-proxy"} {
		rival, err := net.Listen("tcp", where)
		require.NoError(t, err)
		err = refuseRival(canceled, address)
		require.ErrorContains(t, err, "this machine seems to be a node of another Kubernetes, for there is a "+who+": listen tcp ")
		require.ErrorIs(t, err, unix.EADDRINUSE)
		require.NoError(t, rival.Close())
	}
	rival, err := net.Listen("tcp", "198.18.0.2:10250")
	require.NoError(t, err)
	done := make(chan error)
	go func() { done <- refuseRival(t.Context(), address) }()
	require.NoError(t, rival.Close())
	require.NoError(t, <-done, "a kubelet that was killed takes a moment")
}

func TestNew_makes_a_machine_one_node(t *testing.T) {
	if !ownMachine(t) {
		return
	}
	if err := checkRequirements(); err != nil {
		t.Skip(err)
	}
	addLink(t, "wan", "198.18.0.2/16")
	l := newLayout(t)
	require.NoError(t, l.Write([]byte(`{"settings":{},"absent":["/var/lib/kubelet"]}`), "node", "restore.json"))
	require.NoError(t, os.MkdirAll("/var/lib/kubelet/pods", 0o700))
	cfg := Config{Dir: l.Dir, Address: net.IPv4(198, 18, 0, 2), Supervisor: process.New(), Say: func(string, ...any) {}}
	n, err := New(t.Context(), cfg)
	require.NoError(t, err)
	require.NoDirExists(t, "/var/lib/kubelet", "what an earlier run left goes first")

	_, err = New(t.Context(), cfg)
	require.EqualError(t, err, "process "+strconv.Itoa(os.Getpid())+" already runs a localkube node on this machine")
	require.NoError(t, l.Write([]byte(`{"settings":{}}`), "node", "restore.json"))
	require.ErrorContains(t, Clean(t.Context(), l.Dir), "already runs a localkube node on this machine", "nobody cleans under a running node")
	require.NoError(t, n.Stop(t.Context()), "a node that never started stops without a word of containerd")

	rival, err := net.Listen("tcp", "198.18.0.2:10250")
	require.NoError(t, err)
	_, err = New(t.Context(), cfg)
	require.ErrorContains(t, err, "a node of another Kubernetes")
	require.NoError(t, rival.Close())
	n, err = New(t.Context(), cfg)
	require.NoError(t, err, "the lock was given back")
	require.NoError(t, n.Stop(t.Context()))
}
