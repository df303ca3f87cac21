package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/pki"
	"github.com/drover-project/drover/localkube/process"
)

// stopGrace is what kubelet, kube-proxy and containerd get to end.
const stopGrace = 10 * time.Second

// Node is this machine as a node.
type Node struct {
	opts       Options
	cluster    Cluster
	identities Identities
	address    net.IP
	dir        layout
	sup        *process.Supervisor
	say        func(format string, args ...any)
	lock       io.Closer
	routes     context.CancelFunc
	// serving is set once containerd has answered: pods can be there from then on.
	serving bool
	started time.Time
}

// Config is what New needs.
type Config struct {
	Options    Options
	Cluster    Cluster
	Identities Identities
	// Address is the node's InternalIP.
	Address net.IP
	Dir     datadir.Dir
	// Supervisor runs the processes, Say reports progress.
	Supervisor *process.Supervisor
	Say        func(format string, args ...any)
}

// New checks what a node needs and takes the machine's node lock. What an
// earlier run left behind, because it was killed, is removed first.
func New(ctx context.Context, cfg Config) (*Node, error) {
	if err := checkRequirements(); err != nil {
		return nil, err
	}
	lock, err := takeNodeLock()
	if err != nil {
		return nil, err
	}
	n := &Node{
		opts: cfg.Options, cluster: cfg.Cluster, identities: cfg.Identities, address: cfg.Address,
		dir: layout{cfg.Dir}, sup: cfg.Supervisor, say: cfg.Say, lock: lock,
	}
	if err := clean(ctx, n.dir); err != nil {
		return nil, errors.Join(fmt.Errorf("removing what an earlier run left: %w", err), lock.Close())
	}
	if err := refuseRival(ctx, cfg.Address); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return n, nil
}

// StartRuntime starts containerd and loads the sandbox image. It needs no API
// server, so it runs while the control plane starts.
func (n *Node) StartRuntime(ctx context.Context) error {
	if err := remember(n.dir); err != nil {
		return err
	}
	if err := shareNetns(); err != nil {
		return err
	}
	spec, err := n.dir.containerd()
	if err != nil {
		return err
	}
	if err := n.sup.Start(spec); err != nil {
		return err
	}
	runtime, err := n.dir.awaitContainerd(ctx)
	if err != nil {
		return err
	}
	n.serving = true
	if err := runtime.Close(ctx); err != nil {
		return fmt.Errorf("closing connection to containerd: %w", err)
	}
	if err := importPause(ctx, n.dir); err != nil {
		return err
	}
	n.say("containerd is ready")
	return nil
}

// Start makes the machine a node of the running API server and returns when
// the Node is Ready.
func (n *Node) Start(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		n.writeKubeconfigs, n.openNetwork, n.startProcesses, n.followPodRange, n.awaitReady,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return n.startRoutes()
}

func (n *Node) writeKubeconfigs(context.Context) error {
	for name, who := range map[string]struct {
		user string
		pair pki.Pair
	}{
		KubeletName: {KubeletSubject(n.opts.Name).Name, n.identities.Kubelet},
		ProxyName:   {ProxySubject().Name, n.identities.Proxy},
	} {
		cfg := pki.Kubeconfig{Server: n.cluster.APIServer, CA: n.cluster.CA, User: who.user, Pair: who.pair}
		if err := cfg.Write(n.dir.kubeconfig(name)); err != nil {
			return err
		}
	}
	// Pods get no name server unless asked for: nothing then leaves the machine.
	return n.dir.Write([]byte("# localkube: no name server\n"), "resolv.conf")
}

func (n *Node) startProcesses(context.Context) error {
	n.started = time.Now()
	for _, build := range []func() (process.Spec, error){n.kubelet, n.proxy} {
		spec, err := build()
		if err != nil {
			return err
		}
		if err := n.sup.Start(spec); err != nil {
			return err
		}
		n.say("%s is started", spec.Name)
	}
	return nil
}

// client speaks to the API server as one of the node's own users.
func (n *Node) client(user string) (kubernetes.Interface, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", n.dir.kubeconfig(user))
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig of %s: %w", user, err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making client of %s: %w", user, err)
	}
	return client, nil
}

// Stop ends the node's processes and pods and takes every trace off the machine.
func (n *Node) Stop(ctx context.Context) error {
	if n.routes != nil {
		n.routes()
	}
	n.sup.Stop(ProxyName, stopGrace)
	n.sup.Stop(KubeletName, stopGrace)
	var err error
	if n.serving {
		err = removeSandboxes(ctx, n.dir)
	}
	n.sup.Stop(ContainerdName, stopGrace)
	return errors.Join(err, clean(ctx, n.dir), n.lock.Close())
}
