package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/identity"
	"github.com/drover-project/drover/localkube/process"
)

const (
	// stopGrace is the time for kubelet, kube-proxy and containerd to end.
	stopGrace = 10 * time.Second
	askEvery  = 250 * time.Millisecond

	kubeletPort = 10250
	proxyPort   = 10256

	kubeletName    = "kubelet"
	proxyName      = "kube-proxy"
	containerdName = "containerd"
)

// Config configures New.
type Config struct {
	// Name is the Node's, Address its InternalIP.
	Name    string
	Address net.IP
	Dir     datadir.Dir
	// Files are the node's certificates, keys and authorities.
	Files identity.NodeFiles
	// Pods and Services are the cluster's ranges.
	Pods, Services string
	Runtime        Runtime
	// Packaged is a node of a larger cluster whose pods outlive its processes: it takes over the
	// remains of an earlier run, and Stop keeps them.
	Packaged bool
	// HealthPort is where the kubelet says on loopback whether it is well; 0 is nowhere.
	HealthPort int
	// Arguments are name=value by component; they take the place of ours of the same name.
	Arguments map[string][]string
	// Supervisor runs the processes, Say reports progress.
	Supervisor *process.Supervisor
	Say        func(format string, args ...any)
}

// Node is this machine as a node.
type Node struct {
	Config
	lock *net.UnixListener
	// serving is set once containerd has answered: pods can be there from then on.
	serving bool
}

// requirements are the programs of the host a node needs, and their Debian packages.
var requirements = []struct{ program, pkg string }{
	{"containerd", "containerd"}, {"ctr", "containerd"}, {"runc", "runc"},
	{"iptables", "iptables"}, {"iptables-save", "iptables"}, {"conntrack", "conntrack"},
	{cniBinDir + "/ptp", "containernetworking-plugins"},
}

// New checks a node's prerequisites and takes the machine's node lock. Unless the node is packaged,
// it first removes the remains of an earlier run that was killed.
func New(ctx context.Context, cfg Config) (*Node, error) {
	var missing []string
	for _, r := range requirements {
		if _, err := exec.LookPath(r.program); err != nil {
			missing = append(missing, r.program+" (package "+r.pkg+")")
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("a node needs programs that this machine lacks: %s", strings.Join(missing, ", "))
	}
	lock, err := takeLock()
	if err != nil {
		return nil, err
	}
	cfg.Runtime = cfg.Runtime.below(cfg.Dir)
	if !cfg.Packaged {
		if err := clean(ctx, cfg.Dir, cfg.Runtime); err != nil {
			return nil, errors.Join(fmt.Errorf("removing the remains of an earlier run: %w", err), lock.Close())
		}
	}
	// Cgroups and iptables chains have the same names in another Kubernetes: taking ours away would
	// take away its pods.
	err = errors.Join(
		process.AwaitPort(ctx, kubeletName, cfg.Address, kubeletPort),
		process.AwaitPort(ctx, proxyName, net.IPv4(127, 0, 0, 1), proxyPort),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("this machine seems to be a node of another Kubernetes: %w", err), lock.Close())
	}
	return &Node{Config: cfg, lock: lock}, nil
}

// takeLock makes sure that a machine is one node only: ports, cgroups and
// iptables chains of a kubelet have fixed names. An abstract socket belongs to
// the network namespace, as do they, and it goes with its holder.
func takeLock() (*net.UnixListener, error) {
	lock, err := net.ListenUnix("unix", &net.UnixAddr{Name: "@localkube-node", Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("taking the machine's node lock, which another localkube may have: %w", err)
	}
	return lock, nil
}

// StartRuntime starts containerd and loads the sandbox image. It needs no API
// server, so it runs while the control plane starts.
func (n *Node) StartRuntime(ctx context.Context) error {
	if err := remember(n.Dir); err != nil {
		return err
	}
	if err := shareNetns(); err != nil {
		return err
	}
	runtime, err := startContainerd(ctx, n.Dir, n.Runtime, n.Supervisor)
	if err != nil {
		return err
	}
	n.serving = true
	if err := runtime.Close(ctx); err != nil {
		return fmt.Errorf("closing connection to containerd: %w", err)
	}
	if err := importPause(ctx, n.Dir); err != nil {
		return err
	}
	n.Say("containerd is ready")
	return nil
}

// Start makes the machine a node of the running API server and returns when
// the Node is Ready.
func (n *Node) Start(ctx context.Context) error {
	if err := n.openNetwork(ctx); err != nil {
		return err
	}
	started := time.Now().Truncate(time.Second) // API times have whole seconds
	for _, build := range []func() (process.Spec, error){n.kubelet, n.proxy} {
		spec, err := build()
		if err != nil {
			return err
		}
		if err := n.Supervisor.Start(spec); err != nil {
			return err
		}
		n.Say("%s is started", spec.Name)
	}
	// The controller manager gives the node its range.
	node, err := n.await(ctx, func(node *corev1.Node) bool { return node.Spec.PodCIDR != "" })
	if err != nil {
		return fmt.Errorf("waiting for the node's pod range: %w", err)
	}
	if err := n.writeCNI(node.Spec.PodCIDR); err != nil {
		return err
	}
	if n.Packaged {
		if err := n.followNodes(context.WithoutCancel(ctx)); err != nil { // until the process ends
			return err
		}
	}
	_, err = n.await(ctx, func(node *corev1.Node) bool {
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady {
				// An older heartbeat is from before a restart.
				return c.Status == corev1.ConditionTrue && !c.LastHeartbeatTime.Time.Before(started)
			}
		}
		return false
	})
	if err != nil {
		return fmt.Errorf("waiting for the node to be ready: %w", err)
	}
	n.Say("node %s is ready at %s", n.Name, n.Address)
	return nil
}

// await asks for this machine's Node until it is as wanted.
func (n *Node) await(ctx context.Context, wanted func(*corev1.Node) bool) (node *corev1.Node, err error) {
	config, err := clientcmd.BuildConfigFromFlags("", n.Files.Kubelet)
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making client: %w", err)
	}
	var last error
	err = wait.PollUntilContextCancel(ctx, askEvery, true, func(ctx context.Context) (bool, error) {
		node, last = client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		return last == nil && wanted(node), nil
	})
	if err == nil {
		return node, nil
	}
	if last == nil {
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady {
				last = fmt.Errorf("%s: %s", c.Reason, c.Message)
			}
		}
	}
	return nil, errors.Join(context.Cause(ctx), last)
}

// Stop ends the node's processes and, unless it is packaged, its pods, and takes every trace off
// the machine.
func (n *Node) Stop(ctx context.Context) error {
	n.Supervisor.Stop(proxyName, stopGrace)
	n.Supervisor.Stop(kubeletName, stopGrace)
	if n.Packaged {
		n.Supervisor.Stop(containerdName, stopGrace)
		return n.lock.Close()
	}
	var err error
	if n.serving {
		err = removeSandboxes(ctx, n.Dir)
	}
	n.Supervisor.Stop(containerdName, stopGrace)
	return errors.Join(err, clean(ctx, n.Dir, n.Runtime), n.lock.Close())
}
