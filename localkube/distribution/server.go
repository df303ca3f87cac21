package distribution

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"

	"github.com/drover-project/drover/localkube/controlplane"
	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/join"
	"github.com/drover-project/drover/localkube/process"
)

func (m *machine) startServer(ctx context.Context) error {
	plane, names := m.plane(), slices.Clone(m.Names)
	if m.Advertise != nil {
		names = append(names, m.Advertise.String())
	}
	signer, nodeFiles, err := plane.Prepare(ctx, m.DataDir, m.address, names...)
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
	// Agents may join for as long as we run.
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":"+join.Port)
	if err != nil {
		return fmt.Errorf("listening for agents: %w", err)
	}
	agents := join.Server{Password: m.AgentToken, Signer: signer, Certificate: plane.Files.APIServer, Pods: plane.Pods, Services: plane.Services}
	m.background.Go(func() {
		if err := agents.Serve(m.running, listener); err != nil {
			m.sup.Fail(err)
		}
	})
	m.background.Go(func() { m.followManifests(m.running) })
	return m.node.Start(ctx)
}

func (m *machine) plane() *controlplane.Plane {
	p := &controlplane.Plane{
		Dir: datadir.Dir(filepath.Join(m.DataDir, "server")), Ports: datadir.Ports{HTTPS: apiPort, EtcdClient: 2379, EtcdPeer: 2380}, NodeName: m.NodeName,
		Bind: net.IPv4zero, Advertise: m.address, Pods: m.Pods.String(), Services: m.Services.String(),
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
