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
	"time"

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

// validate checks what needs neither the data directory nor the cluster.
func (o AgentOptions) validate() error {
	if _, err := datadir.Locate(o.DataDir); err != nil {
		return err
	}
	if o.Address != "" && net.ParseIP(o.Address) == nil {
		return fmt.Errorf("--node-ip %s is not an IP address", o.Address)
	}
	if o.Server == "" {
		return errors.New("no server to join given: set --server to the URL at which the server says machines can join")
	}
	if _, err := pki.ParseToken(o.Token); err != nil {
		return err
	}
	if err := validateName("--node-name", o.Node.Name); o.Node.Name != "" && err != nil {
		return err
	}
	return o.Node.Validate()
}

// RunAgent runs a node until the context ends or one of its processes fails.
func RunAgent(ctx context.Context, opts AgentOptions, log io.Writer) (err error) {
	if err := opts.validate(); err != nil {
		return err
	}
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
		if a.opts.Node.Name, err = hostName(); err != nil {
			return err
		}
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
	return net.ParseIP(a.opts.Address), nil // validate has read it
}

// join asks for fresh certificates at every start, for keys that stay. When
// there is nobody to ask, or the token has expired since, the ones of the last
// start will do as long as they last.
func (a *agent) join(ctx context.Context, address net.IP) (node.Cluster, node.Identities, error) {
	// An agent must not write over a server's identities.
	_, server, err := a.dir.LoadConfig()
	if err == nil && server {
		err = fmt.Errorf("%s is a server's: give the agent a data directory of its own", a.dir.Root())
	}
	if err != nil {
		return node.Cluster{}, node.Identities{}, err
	}
	res, ca, err := a.ask(ctx, address)
	if err == nil {
		a.say.step("joined the cluster at %s", a.opts.Server)
		return a.store(ca, res, address)
	}
	member, until, resumeErr := a.resume(err, address)
	if resumeErr != nil {
		return node.Cluster{}, node.Identities{}, resumeErr
	}
	a.say.step("%v", err)
	a.say.step("going on with the certificates of the last start, which last until %s", until.UTC().Format(time.RFC3339))
	cluster, err := a.cluster(member)
	return cluster, a.identities(), err
}

func (a *agent) ask(ctx context.Context, address net.IP) (join.AgentResponse, []byte, error) {
	token, err := pki.ParseToken(a.opts.Token)
	if err != nil {
		return join.AgentResponse{}, nil, err
	}
	client, err := join.Dial(ctx, a.opts.Server, token)
	if err != nil {
		return join.AgentResponse{}, nil, err
	}
	req := join.AgentRequest{NodeName: a.opts.Node.Name, Address: address.String()}
	pairs := a.identities()
	for _, k := range []struct {
		pair   pki.Pair
		target *[]byte
	}{{pairs.Kubelet, &req.Kubelet}, {pairs.KubeletServing, &req.KubeletServing}, {pairs.Proxy, &req.Proxy}} {
		if *k.target, err = publicPEM(k.pair.Key); err != nil {
			return join.AgentResponse{}, nil, err
		}
	}
	res, err := client.AddAgent(ctx, req)
	return res, client.CA(), err
}

func (a *agent) identities() node.Identities {
	return node.Identities{Kubelet: a.pair("kubelet"), KubeletServing: a.pair("kubelet-serving"), Proxy: a.pair("kube-proxy")}
}

func (a *agent) pair(name string) pki.Pair { return pki.PairAt(a.dir.Path("pki"), name) }

func (a *agent) store(ca []byte, res join.AgentResponse, address net.IP) (node.Cluster, node.Identities, error) {
	pairs := a.identities()
	for path, content := range map[string][]byte{
		a.caFile():                ca,
		pairs.Kubelet.Cert:        res.Kubelet,
		pairs.KubeletServing.Cert: res.KubeletServing,
		pairs.Proxy.Cert:          res.Proxy,
	} {
		if err := datadir.WriteFile(path, content); err != nil {
			return node.Cluster{}, node.Identities{}, err
		}
	}
	member := membership{
		Server: a.opts.Server, NodeName: a.opts.Node.Name, Address: address.String(),
		APIServer: res.APIServer, PodCIDR: res.PodCIDR, ServiceCIDR: res.ServiceCIDR,
	}
	if err := errors.Join(member.save(a.dir), a.dir.Sync()); err != nil {
		return node.Cluster{}, node.Identities{}, err
	}
	cluster, err := a.cluster(member)
	return cluster, pairs, err
}

func (a *agent) caFile() string { return a.dir.Path("pki", "ca.crt") }

// cluster is what the node must know, from what is stored.
func (a *agent) cluster(member membership) (node.Cluster, error) {
	ca, err := os.ReadFile(a.caFile())
	if err != nil {
		return node.Cluster{}, fmt.Errorf("reading the cluster's authority: %w", err)
	}
	return node.Cluster{
		APIServer: member.APIServer, PodCIDR: member.PodCIDR, ServiceCIDR: member.ServiceCIDR, CA: ca, CAFile: a.caFile(),
	}, nil
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
