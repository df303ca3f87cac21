package distribution

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/drover-project/drover/localkube/config"
	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/identity"
	"github.com/drover-project/drover/localkube/node"
	"github.com/drover-project/drover/localkube/process"
	"github.com/drover-project/drover/localkube/registries"
)

const (
	// startTimeout bounds the time from start to ready; systemd starts us again.
	startTimeout = 3 * time.Minute
	// stopGrace is the time of each component between SIGTERM and SIGKILL. An API server would wait
	// for watches, which reconnect.
	stopGrace = 3 * time.Second
	// apiPort is the API server's.
	apiPort = 6443
	// healthPort is the kubelet's own.
	healthPort = 10248
	// containerdRoot is outside the data directory, because it must not be on an overlay, and
	// servers of the local cloud have a directory for it.
	containerdRoot  = "/var/lib/containerd"
	containerdState = "/run/k3s/containerd"
)

// machine is this machine while it runs.
type machine struct {
	*config.Config
	address net.IP
	sup     *process.Supervisor
	node    *node.Node
	// running ends with the run.
	running context.Context
	say     func(format string, args ...any)
	// background holds the tasks that end with the run.
	background sync.WaitGroup
}

// Run runs a server or an agent until the context ends or a component fails, and notifies systemd
// when the Node is ready. It logs its steps.
func Run(ctx context.Context, role config.Role, file string, log io.Writer) (err error) {
	m := &machine{sup: process.New(), say: func(format string, args ...any) { _, _ = fmt.Fprintf(log, format+"\n", args...) }}
	if err := m.configure(role, file); err != nil {
		return err
	}
	lock, err := datadir.Dir(m.DataDir).Lock()
	if err != nil {
		return err
	}
	running, end := context.WithCancel(ctx)
	m.running = running
	defer func() {
		end()
		m.say("stopping; pods go on")
		if m.node != nil {
			err = errors.Join(err, m.node.Stop(context.Background()))
		}
		m.sup.StopAll(stopGrace)
		err = errors.Join(err, lock.Close())
		m.background.Wait()
	}()
	start := m.startAgent
	if role == config.Server {
		start = m.startServer
	}
	return m.sup.Run(ctx, startTimeout, start, func() error {
		m.say("ready")
		_, err := daemon.SdNotify(true, daemon.SdNotifyReady)
		return err
	})
}

// configure settles everything that is known before anything starts.
func (m *machine) configure(role config.Role, file string) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("naming the node: %w", err)
	}
	if m.Config, err = config.Read(file, role, host); err != nil {
		return err
	}
	if len(m.Unused) > 0 {
		m.say("nothing is done for %s: localkube stands in for k3s without it", strings.Join(m.Unused, ", "))
	}
	m.address = m.NodeIP
	if m.address == nil {
		m.address, err = node.DefaultAddress()
	}
	return err
}

// prepareNode configures the node. Its runtime needs no API server, so it starts in the background;
// the returned function waits for it.
func (m *machine) prepareNode(ctx context.Context, files identity.NodeFiles, pods, services string) (func() error, error) {
	list, err := registries.Read(m.Registries)
	if err != nil {
		return nil, err
	}
	var kubelet []string
	if len(m.NodeLabels) > 0 {
		kubelet = append(kubelet, "node-labels="+strings.Join(m.NodeLabels, ","))
	}
	if len(m.NodeTaints) > 0 {
		kubelet = append(kubelet, "register-with-taints="+strings.Join(m.NodeTaints, ","))
	}
	m.node, err = node.New(ctx, node.Config{
		Name: m.NodeName, Address: m.address, Dir: datadir.Dir(filepath.Join(m.DataDir, "agent")), Files: files, Pods: pods, Services: services,
		Runtime: node.Runtime{Root: containerdRoot, State: containerdState, Registries: *list}, Packaged: true, HealthPort: healthPort,
		Arguments:  map[string][]string{"kubelet": process.Overlay(kubelet, m.Arguments["kubelet"]), "kube-proxy": m.Arguments["kube-proxy"]},
		Supervisor: m.sup, Say: m.say,
	})
	if err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	go func() { started <- m.node.StartRuntime(ctx) }()
	return func() error { return <-started }, nil
}

// Cleanup takes every trace of the node off a machine on which nothing runs any more; the data
// directory stays.
func Cleanup(ctx context.Context, dataDir string) error {
	return node.Clean(ctx, datadir.Dir(filepath.Join(dataDir, "agent")), node.Runtime{Root: containerdRoot, State: containerdState})
}
