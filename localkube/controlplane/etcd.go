package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/drover-project/drover/localkube/pki"
	"github.com/drover-project/drover/localkube/process"
)

// etcdConfig is the part of etcd's own configuration file that localkube sets.
type etcdConfig struct {
	Name                     string       `json:"name"`
	DataDir                  string       `json:"data-dir"`
	ListenClientURLs         string       `json:"listen-client-urls"`
	AdvertiseClientURLs      string       `json:"advertise-client-urls"`
	ListenPeerURLs           string       `json:"listen-peer-urls"`
	InitialAdvertisePeerURLs string       `json:"initial-advertise-peer-urls"`
	InitialCluster           string       `json:"initial-cluster"`
	InitialClusterState      string       `json:"initial-cluster-state"`
	InitialClusterToken      string       `json:"initial-cluster-token"`
	ClientTLS                etcdSecurity `json:"client-transport-security"`
	PeerTLS                  etcdSecurity `json:"peer-transport-security"`
	UnsafeNoFsync            bool         `json:"unsafe-no-fsync"`
	Logger                   string       `json:"logger"`
	LogLevel                 string       `json:"log-level"`
}

type etcdSecurity struct {
	CertFile       string `json:"cert-file"`
	KeyFile        string `json:"key-file"`
	TrustedCAFile  string `json:"trusted-ca-file"`
	ClientCertAuth bool   `json:"client-cert-auth"`
}

// etcdQuota is what etcd may grow to before it refuses writes.
const etcdQuota = 4 << 30

// EtcdURL is where this server's etcd serves its clients.
func (o Options) EtcdURL() string {
	return "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Config.EtcdClientPort))
}

// EtcdPeerURL is where this server's etcd serves other members.
func (o Options) EtcdPeerURL() string {
	return "https://" + net.JoinHostPort(o.AdvertiseAddress.String(), strconv.Itoa(o.Config.EtcdPeerPort))
}

// Etcd writes etcd's configuration and returns how to run it.
func (o Options) Etcd() (process.Spec, error) {
	raw, err := json.MarshalIndent(o.etcdConfig(), "", "  ")
	if err != nil {
		return process.Spec{}, fmt.Errorf("encoding etcd configuration: %w", err)
	}
	if err := o.Dir.Write(raw, "etcd", "config.json"); err != nil {
		return process.Spec{}, err
	}
	return o.component("etcd", o.Dir.Path("etcd", "config.json")), nil
}

func (o Options) etcdConfig() etcdConfig {
	security := etcdSecurity{
		CertFile:       o.identities().etcdServer.Cert,
		KeyFile:        o.identities().etcdServer.Key,
		TrustedCAFile:  o.Store.Etcd.CertFile(),
		ClientCertAuth: true,
	}
	cfg := etcdConfig{
		Name:                     o.Config.NodeName,
		DataDir:                  o.Dir.Path("etcd", "member"),
		ListenClientURLs:         o.EtcdURL(),
		AdvertiseClientURLs:      o.EtcdURL(),
		ListenPeerURLs:           o.EtcdPeerURL(),
		InitialAdvertisePeerURLs: o.EtcdPeerURL(),
		InitialCluster:           o.Config.NodeName + "=" + o.EtcdPeerURL(),
		InitialClusterState:      "new",
		InitialClusterToken:      "localkube",
		ClientTLS:                security,
		PeerTLS:                  security,
		UnsafeNoFsync:            o.NoFsync,
		Logger:                   "zap",
		LogLevel:                 "warn",
	}
	if o.Config.InitialCluster != "" {
		cfg.InitialCluster, cfg.InitialClusterState = o.Config.InitialCluster, "existing"
	}
	return cfg
}

// RunEtcd runs etcd in this process until the context ends; it is the verb
// behind the Spec that Etcd returns.
func RunEtcd(ctx context.Context, configFile string) error {
	cfg, err := embed.ConfigFromFile(configFile)
	if err != nil {
		return fmt.Errorf("reading etcd configuration: %w", err)
	}
	cfg.LogOutputs = []string{embed.StdErrLogOutput}
	cfg.QuotaBackendBytes = etcdQuota
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("starting etcd: %w", err)
	}
	defer server.Close()
	select {
	case <-ctx.Done():
		return nil
	case <-server.Server.StopNotify():
		return errors.New("etcd stopped by itself")
	case err := <-server.Err():
		return fmt.Errorf("serving etcd: %w", err)
	}
}

// EtcdClientPair is the certificate with which to speak to etcd.
func (o Options) EtcdClientPair() pki.Pair { return o.identities().etcdClient }
