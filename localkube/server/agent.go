package server

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/join"
	"github.com/drover-project/drover/localkube/node"
	"github.com/drover-project/drover/localkube/pki"
	"github.com/drover-project/drover/localkube/process"
)

// AgentOptions say how to make this machine a node of a running cluster.
type AgentOptions struct {
	DataDir string
	// Server is the URL at which machines join, Token the agent token.
	Server, Token string
	// Address is this machine's own; by default that of its default route.
	Address string
	Node    node.Options
}

// RunAgent runs a node until the context ends or one of its processes fails.
func RunAgent(ctx context.Context, opts AgentOptions, log io.Writer) (err error) {
	dir, err := datadir.Open(opts.DataDir)
	if err != nil {
		return err
	}
	lock, err := takeLock(dir)
	if err != nil {
		return err
	}
	a := &agent{opts: opts, dir: dir, sup: process.New(), say: newProgress(log)}
	defer func() { err = errors.Join(err, a.stop(), lock.Release()) }()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go cancelOnFailure(ctx, a.sup, cancel)
	if err := a.start(ctx); err != nil {
		return unlessStopped(ctx, err)
	}
	<-ctx.Done()
	return unlessStopped(ctx, context.Cause(ctx))
}

type agent struct {
	opts AgentOptions
	dir  datadir.Dir
	sup  *process.Supervisor
	say  *progress
	node *node.Node
}

func (a *agent) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("not ready within "+startTimeout.String()))
	defer cancel()
	address, err := a.address()
	if err != nil {
		return err
	}
	if a.opts.Node.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("naming the node (set --node-name): %w", err)
		}
		a.opts.Node.Name = strings.ToLower(host)
	}
	cluster, identities, err := a.join(ctx, address)
	if err != nil {
		return err
	}
	a.node, err = node.New(ctx, node.Config{
		Options: a.opts.Node, Cluster: cluster, Identities: identities, Address: address,
		Dir: a.dir, Supervisor: a.sup, Say: a.say.step,
	})
	if err != nil {
		return err
	}
	if err := a.node.StartRuntime(ctx); err != nil {
		return err
	}
	return a.node.Start(ctx)
}

func (a *agent) address() (net.IP, error) {
	if a.opts.Address == "" {
		return node.DefaultAddress()
	}
	if ip := net.ParseIP(a.opts.Address); ip != nil {
		return ip, nil
	}
	return nil, fmt.Errorf("--node-ip %s is not an IP address", a.opts.Address)
}

// join asks for fresh certificates at every start, for keys that stay.
func (a *agent) join(ctx context.Context, address net.IP) (node.Cluster, node.Identities, error) {
	token, err := pki.ParseToken(a.opts.Token)
	if err != nil {
		return node.Cluster{}, node.Identities{}, err
	}
	client, err := join.Dial(ctx, a.opts.Server, token)
	if err != nil {
		return node.Cluster{}, node.Identities{}, err
	}
	req := join.AgentRequest{NodeName: a.opts.Node.Name, Address: address.String()}
	pairs := node.Identities{Kubelet: a.pair("kubelet"), KubeletServing: a.pair("kubelet-serving"), Proxy: a.pair("kube-proxy")}
	for _, k := range []struct {
		pair   pki.Pair
		target *[]byte
	}{{pairs.Kubelet, &req.Kubelet}, {pairs.KubeletServing, &req.KubeletServing}, {pairs.Proxy, &req.Proxy}} {
		if *k.target, err = publicPEM(k.pair.Key); err != nil {
			return node.Cluster{}, node.Identities{}, err
		}
	}
	res, err := client.AddAgent(ctx, req)
	if err != nil {
		return node.Cluster{}, node.Identities{}, err
	}
	a.say.step("joined the cluster at %s", a.opts.Server)
	return a.store(client.CA(), res, pairs)
}

func (a *agent) pair(name string) pki.Pair { return pki.PairAt(a.dir.Path("pki"), name) }

func (a *agent) store(ca []byte, res join.AgentResponse, pairs node.Identities) (node.Cluster, node.Identities, error) {
	cluster := node.Cluster{
		APIServer: res.APIServer, PodCIDR: res.PodCIDR, ServiceCIDR: res.ServiceCIDR,
		CA: ca, CAFile: a.dir.Path("pki", "ca.crt"),
	}
	for path, content := range map[string][]byte{
		cluster.CAFile:            ca,
		pairs.Kubelet.Cert:        res.Kubelet,
		pairs.KubeletServing.Cert: res.KubeletServing,
		pairs.Proxy.Cert:          res.Proxy,
	} {
		if err := datadir.WriteFile(path, content); err != nil {
			return node.Cluster{}, node.Identities{}, err
		}
	}
	return cluster, pairs, nil
}

func publicPEM(keyFile string) ([]byte, error) {
	key, err := pki.OpenKey(keyFile)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("encoding public key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

func (a *agent) stop() error {
	a.say.step("stopping")
	var err error
	if a.node != nil {
		err = a.node.Stop(context.Background())
	}
	a.sup.StopAll(stopGrace)
	a.say.step("stopped")
	return err
}
