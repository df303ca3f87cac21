package distribution

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/drover-project/drover/localkube/controlplane"
	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/identity"
	"github.com/drover-project/drover/localkube/join"
	"github.com/drover-project/drover/localkube/process"
)

func (m *machine) startServer(ctx context.Context) error {
	url := "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(apiPort))
	files, signer, err := identity.Server{DataDir: m.DataDir, NodeName: m.NodeName, Address: m.address.String(), Names: m.names(), URL: url}.Issue()
	if err != nil {
		return err
	}
	plane := m.plane(files)
	if err := plane.AwaitPorts(ctx); err != nil {
		return err
	}
	answer, err := signer.Sign(identity.Request{Name: m.NodeName, Address: m.address.String()})
	if err != nil {
		return err
	}
	nodeFiles, err := answer.Take(m.DataDir, url)
	if err != nil {
		return err
	}
	runtimeStarted, err := m.prepareNode(ctx, nodeFiles, plane.Pods, plane.Services)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(m.Kubeconfig), 0o750); err != nil {
		return errors.Join(fmt.Errorf("making the kubeconfig's folder: %w", err), runtimeStarted())
	}
	if err := errors.Join(plane.Start(ctx, m.sup, m.say), runtimeStarted()); err != nil {
		return err
	}
	if err := m.letJoin(ctx, join.Server{Password: m.AgentToken, Signer: signer, Certificate: files.APIServer, Pods: plane.Pods, Services: plane.Services}); err != nil {
		return err
	}
	m.background.Go(func() { m.followManifests(m.running) })
	return m.node.Start(ctx)
}

// names are those of the API server beside the node's own.
func (m *machine) names() []string {
	names := append(slices.Clone(m.Names), controlplane.ServiceAddress(m.Services))
	if m.Advertise != nil {
		names = append(names, m.Advertise.String())
	}
	return names
}

func (m *machine) plane(files identity.Files) *controlplane.Plane {
	p := &controlplane.Plane{
		Dir: datadir.Dir(filepath.Join(m.DataDir, "server")), Ports: datadir.Ports{HTTPS: apiPort, EtcdClient: 2379, EtcdPeer: 2380}, NodeName: m.NodeName,
		Bind: net.IPv4zero, Advertise: m.address, Pods: m.Pods.String(), Services: m.Services.String(), Files: files,
		Arguments: map[string][]string{controlplane.APIServerName: m.Arguments[controlplane.APIServerName]}, Kubeconfigs: []string{m.Kubeconfig},
	}
	if m.Advertise != nil {
		p.Advertise = m.Advertise
	}
	// They say on loopback whether they are well, by certificates that they make in these folders.
	for name, port := range map[string]string{controlplane.ControllerManagerName: "10257", controlplane.SchedulerName: "10259"} {
		p.Arguments[name] = process.Overlay([]string{
			"bind-address=127.0.0.1", "secure-port=" + port, "cert-dir=" + filepath.Join(m.DataDir, "server", "tls", name),
		}, m.Arguments[name])
	}
	return p
}

// letJoin lets agents join for as long as we run.
func (m *machine) letJoin(ctx context.Context, server join.Server) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":"+join.Port)
	if err != nil {
		return fmt.Errorf("listening for agents: %w", err)
	}
	m.background.Go(func() {
		if err := server.Serve(m.running, listener); err != nil {
			m.fail(err)
		}
	})
	return nil
}
