package server

import (
	"context"
	"errors"

	"github.com/drover-project/drover/localkube/node"
	"github.com/drover-project/drover/localkube/pki"
)

// openNode prepares this machine as a node, when it is to be one.
func (s *Server) openNode(ctx context.Context) error {
	if !s.opts.RunNode {
		return nil
	}
	identities, err := s.issueNode()
	if err != nil {
		return err
	}
	opts := s.opts.Node
	opts.Name = s.plane.Config.NodeName
	s.node, err = node.New(ctx, node.Config{
		Options: opts,
		Cluster: node.Cluster{
			APIServer: s.plane.URL(),
			CA:        s.plane.Store.Cluster.CertPEM(), CAFile: s.plane.Store.Cluster.CertFile(),
			PodCIDR: s.plane.Config.PodCIDR, ServiceCIDR: s.plane.Config.ServiceCIDR,
		},
		Identities: identities,
		Address:    s.plane.AdvertiseAddress,
		Dir:        s.dir,
		Supervisor: s.sup,
		Say:        s.say.step,
	})
	return err
}

func (s *Server) issueNode() (node.Identities, error) {
	name, store := s.plane.Config.NodeName, s.plane.Store
	var id node.Identities
	for _, leaf := range []struct {
		target  *pki.Pair
		file    string
		subject pki.Subject
	}{
		{&id.Kubelet, "kubelet", node.KubeletSubject(name)},
		{&id.KubeletServing, "kubelet-serving", node.KubeletServingSubject(name, s.plane.AdvertiseAddress)},
		{&id.Proxy, "kube-proxy", node.ProxySubject()},
	} {
		pair, err := store.Issue(store.Cluster, leaf.file, leaf.subject)
		if err != nil {
			return node.Identities{}, err
		}
		*leaf.target = pair
	}
	return id, nil
}

// startBase starts the control plane and, at the same time, containerd.
func (s *Server) startBase(ctx context.Context) error {
	runtime := make(chan error, 1)
	go func() {
		if s.node == nil {
			runtime <- nil
			return
		}
		runtime <- s.node.StartRuntime(ctx)
	}()
	return errors.Join(s.startControlPlane(ctx), <-runtime)
}

func (s *Server) startNode(ctx context.Context) error {
	if s.node == nil {
		return nil
	}
	return s.node.Start(ctx)
}
