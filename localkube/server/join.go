package server

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/localkube/controlplane"
	"github.com/drover-project/drover/localkube/join"
	"github.com/drover-project/drover/localkube/node"
	"github.com/drover-project/drover/localkube/pki"
)

var _ join.Cluster = (*Server)(nil)

// serveJoin lets other machines join, when they can reach this one.
func (s *Server) serveJoin(ctx context.Context) error {
	for _, role := range []pki.Role{pki.RoleServer, pki.RoleAgent} {
		if _, err := s.plane.Store.Token(role); err != nil {
			return err
		}
	}
	if s.plane.AdvertiseAddress.IsLoopback() {
		return nil
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(s.plane.BindAddress.String(), strconv.Itoa(s.plane.Config.JoinPort)))
	if err != nil {
		return fmt.Errorf("listening for machines that join: %w", err)
	}
	s.joins = &http.Server{
		Handler: join.NewHandler(s.plane.Store, s), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		// Strangers who knock are nothing to report.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	serving := s.plane.ServingPair()
	go func() {
		if err := s.joins.ServeTLS(listener, serving.Cert, serving.Key); !errors.Is(err, http.ErrServerClosed) {
			s.say.step("serving machines that join: %v", err)
		}
	}()
	s.say.step("machines can join at %s with the token in %s", s.joinURL(), s.dir.Path("pki", "token-agent"))
	return ctx.Err()
}

func (s *Server) joinURL() string {
	return "https://" + net.JoinHostPort(s.plane.AdvertiseAddress.String(), strconv.Itoa(s.plane.Config.JoinPort))
}

// AddAgent implements join.Cluster. A node name belongs to the key that first
// asked for it: another agent with the same token cannot take it over.
func (s *Server) AddAgent(_ context.Context, req join.AgentRequest) (join.AgentResponse, error) {
	s.joining.Lock()
	defer s.joining.Unlock()
	// A request that cannot be answered must not take the name.
	for _, key := range [][]byte{req.Kubelet, req.KubeletServing, req.Proxy} {
		if _, err := publicKey(key); err != nil {
			return join.AgentResponse{}, err
		}
	}
	if err := s.refuseImpostor(req.NodeName, net.ParseIP(req.Address)); err != nil {
		return join.AgentResponse{}, err
	}
	key := sha256.Sum256(req.Kubelet)
	if err := s.claim(req.NodeName, hex.EncodeToString(key[:])); err != nil {
		return join.AgentResponse{}, err
	}
	out := join.AgentResponse{
		APIServer: s.plane.AdvertiseURL(), PodCIDR: s.plane.Config.PodCIDR, ServiceCIDR: s.plane.Config.ServiceCIDR,
	}
	for _, leaf := range []struct {
		key     []byte
		subject pki.Subject
		target  *[]byte
	}{
		{req.Kubelet, node.KubeletSubject(req.NodeName), &out.Kubelet},
		{req.KubeletServing, node.KubeletServingSubject(req.NodeName, net.ParseIP(req.Address)), &out.KubeletServing},
		{req.Proxy, node.ProxySubject(), &out.Proxy},
	} {
		key, err := publicKey(leaf.key)
		if err != nil {
			return join.AgentResponse{}, err
		}
		if *leaf.target, err = s.plane.Store.Cluster.Sign(leaf.subject, key); err != nil {
			return join.AgentResponse{}, err
		}
	}
	s.say.step("node %s joins from %s", req.NodeName, req.Address)
	return out, nil
}

// refuseImpostor keeps an agent from a serving certificate with which it could
// answer as the API server: one authority signs both.
func (s *Server) refuseImpostor(name string, address net.IP) error {
	if name == s.plane.Config.NodeName {
		return fmt.Errorf("node name %s is this server's: set another --node-name: %w", name, join.ErrDenied)
	}
	if address == nil || address.IsLoopback() || address.IsUnspecified() || address.Equal(s.plane.AdvertiseAddress) {
		return fmt.Errorf("address %s cannot be another machine's: set --node-ip: %w", address, join.ErrDenied)
	}
	if _, services, err := net.ParseCIDR(s.plane.Config.ServiceCIDR); err == nil && services.Contains(address) {
		return fmt.Errorf("address %s is a Service's: set --node-ip: %w", address, join.ErrDenied)
	}
	byName, err := s.plane.AnswersAs(name, nil)
	if err != nil {
		return err
	}
	if byName || strings.HasPrefix(name, "kubernetes.") {
		return fmt.Errorf("node name %s is the API server's: set another --node-name: %w", name, join.ErrDenied)
	}
	byAddress, err := s.plane.AnswersAs("", address)
	if err == nil && byAddress {
		err = fmt.Errorf("address %s is the API server's: set another --node-ip: %w", address, join.ErrDenied)
	}
	return err
}

// publicKey reads a key that a certificate can be made for.
func publicKey(raw []byte) (crypto.PublicKey, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("reading public key: not PEM: %w", join.ErrDenied)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading public key: %w", errors.Join(join.ErrDenied, err))
	}
	switch key := key.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return key, nil
	case *rsa.PublicKey:
		if key.Size() >= 2048/8 {
			return key, nil
		}
	}
	return nil, fmt.Errorf("reading public key: neither ECDSA, Ed25519 nor RSA of 2048 bits or more: %w", join.ErrDenied)
}

// serverClaim is what stands for a key where a name belongs to a server.
const serverClaim = "server"

// claim binds a node name to whoever asked for it first.
func (s *Server) claim(name, owner string) error {
	have, err := os.ReadFile(s.dir.Path("join", name))
	if errors.Is(err, fs.ErrNotExist) {
		return s.dir.Write([]byte(owner), "join", name)
	}
	if err != nil {
		return fmt.Errorf("reading who has node name %s: %w", name, err)
	}
	if string(have) != owner {
		return fmt.Errorf("node name %s belongs to another machine: set another --node-name, or remove %s if that machine is gone: %w",
			name, s.dir.Path("join", name), join.ErrDenied)
	}
	return nil
}

// AddServer implements join.Cluster.
func (s *Server) AddServer(ctx context.Context, req join.ServerRequest) (join.ServerResponse, error) {
	s.joining.Lock()
	defer s.joining.Unlock()
	if req.Name == s.plane.Config.NodeName {
		return join.ServerResponse{}, fmt.Errorf("server name %s is taken: set another --node-name: %w", req.Name, join.ErrDenied)
	}
	if err := s.claim(req.Name, serverClaim); err != nil {
		return join.ServerResponse{}, err
	}
	files, err := s.plane.Store.Shared()
	if err != nil {
		return join.ServerResponse{}, err
	}
	members, err := s.plane.AddMember(ctx, req.Name, req.PeerURL)
	if errors.Is(err, controlplane.ErrNameTaken) {
		return join.ServerResponse{}, fmt.Errorf("%w: %w", err, join.ErrDenied)
	}
	if err != nil {
		return join.ServerResponse{}, err
	}
	s.say.step("server %s joins from %s", req.Name, req.PeerURL)
	return join.ServerResponse{
		Identities:     files,
		InitialCluster: strings.Join(members, ","),
		PodCIDR:        s.plane.Config.PodCIDR,
		ServiceCIDR:    s.plane.Config.ServiceCIDR,
	}, nil
}

// Promote implements join.Cluster. From the first promotion on this server's
// controllers elect a leader.
func (s *Server) Promote(ctx context.Context, req join.PromoteRequest) error {
	s.joining.Lock()
	defer s.joining.Unlock()
	if err := s.plane.PromoteMember(ctx, req.Name); err != nil {
		return err
	}
	if s.plane.Config.Replicated {
		return nil
	}
	s.plane.Config.Replicated = true
	if err := s.dir.SaveConfig(s.plane.Config); err != nil {
		return err
	}
	for _, name := range []string{controlplane.SchedulerName, controlplane.ControllerManagerName} {
		s.sup.Stop(name, stopGrace)
	}
	return s.startControllers(ctx)
}

// joinCluster makes this a further server of a running cluster. It is done
// again until etcd has let this server vote; later starts need no other server.
func (s *Server) joinCluster(ctx context.Context) error {
	cfg := &s.plane.Config
	founded, err := pki.Founded(s.dir.Path("pki"))
	if err != nil {
		return err
	}
	if founded && cfg.InitialCluster == "" {
		return fmt.Errorf("%s holds a cluster of its own and cannot join another", s.dir.Root())
	}
	if founded && !cfg.Joining {
		return nil
	}
	token, err := pki.ParseToken(s.opts.JoinToken)
	if err != nil {
		return err
	}
	client, err := join.Dial(ctx, s.opts.JoinURL, token)
	if err != nil {
		return err
	}
	res, err := client.AddServer(ctx, join.ServerRequest{Name: cfg.NodeName, PeerURL: s.plane.EtcdPeerURL()})
	if err != nil {
		return err
	}
	s.say.step("joined the cluster at %s", s.opts.JoinURL)
	// It asks for this server's vote in etcd and remembers having it.
	s.promote = func(ctx context.Context) error {
		if err := client.Promote(ctx, join.PromoteRequest{Name: cfg.NodeName}); err != nil {
			return fmt.Errorf("becoming a member of etcd: %w", err)
		}
		cfg.Joining = false
		return s.dir.SaveConfig(*cfg)
	}
	return s.adopt(res)
}

// adopt makes the cluster's facts and identities this server's own.
func (s *Server) adopt(res join.ServerResponse) error {
	cfg := &s.plane.Config
	cfg.Joining, cfg.Replicated = true, true
	cfg.InitialCluster, cfg.PodCIDR, cfg.ServiceCIDR = res.InitialCluster, res.PodCIDR, res.ServiceCIDR
	if err := s.dir.SaveConfig(*cfg); err != nil {
		return err
	}
	return pki.Adopt(s.dir.Path("pki"), res.Identities)
}
