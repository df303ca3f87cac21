package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
)

// Config is what a server decided at its first start and keeps ever after.
type Config struct {
	NodeName       string `json:"nodeName"`
	PodCIDR        string `json:"podCIDR"`
	ServiceCIDR    string `json:"serviceCIDR"`
	HTTPSPort      int    `json:"httpsPort"`
	EtcdClientPort int    `json:"etcdClientPort"`
	EtcdPeerPort   int    `json:"etcdPeerPort"`
	JoinPort       int    `json:"joinPort"`

	// Replicated is set once a second server has joined: from then on
	// controller manager and scheduler elect a leader.
	Replicated bool `json:"replicated,omitempty"`
	// InitialCluster is the etcd membership a joining server was given; empty
	// on the server that founded the cluster.
	InitialCluster string `json:"initialCluster,omitempty"`
	// Joining is set until etcd has let a joining server vote.
	Joining bool `json:"joining,omitempty"`
}

const configFile = "config.json"

// LoadConfig reads the stored settings; ok is false at the first start.
func (d Dir) LoadConfig() (cfg Config, ok bool, err error) {
	raw, err := os.ReadFile(d.Path(configFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, false, nil
	}
	if err != nil {
		return Config{}, false, fmt.Errorf("reading settings: %w", err)
	}
	if err := json.Unmarshal(raw, &cfg); err != nil {
		return Config{}, false, fmt.Errorf("reading settings in %s: %w", d.Path(configFile), err)
	}
	if err := cfg.validate(); err != nil {
		return Config{}, false, fmt.Errorf("reading settings in %s: %w", d.Path(configFile), err)
	}
	return cfg, true, nil
}

// validate refuses what no start can have written.
func (c Config) validate() error {
	for _, p := range []struct {
		name string
		port int
	}{
		{"httpsPort", c.HTTPSPort}, {"etcdClientPort", c.EtcdClientPort}, {"etcdPeerPort", c.EtcdPeerPort}, {"joinPort", c.JoinPort},
	} {
		if p.port < 0 || p.port > 65535 {
			return fmt.Errorf("%s %d is not a port", p.name, p.port)
		}
	}
	return nil
}

// SaveConfig stores the settings.
func (d Dir) SaveConfig(cfg Config) error {
	raw, err := json.MarshalIndent(cfg, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding settings: %w", err)
	}
	return d.Write(append(raw, '\n'), configFile)
}

// Settle merges what the user asked for into the stored settings: ranges and
// names cannot change after the first start, ports are picked when unset.
func (d Dir) Settle(want Config) (Config, error) {
	cfg, ok, err := d.LoadConfig()
	if err != nil {
		return Config{}, err
	}
	if !ok {
		cfg = want
	}
	for _, fixed := range []struct{ name, have, want string }{
		{"--pod-cidr", cfg.PodCIDR, want.PodCIDR},
		{"--service-cidr", cfg.ServiceCIDR, want.ServiceCIDR},
		{"--node-name", cfg.NodeName, want.NodeName},
	} {
		if fixed.want != "" && fixed.have != fixed.want {
			return Config{}, fmt.Errorf("%s is %s in this data directory and cannot become %s", fixed.name, fixed.have, fixed.want)
		}
	}
	if want.HTTPSPort != 0 {
		cfg.HTTPSPort = want.HTTPSPort
	}
	if err := cfg.pickPorts(); err != nil {
		return Config{}, err
	}
	return cfg, d.SaveConfig(cfg)
}

func (c *Config) pickPorts() error {
	ports := []*int{&c.HTTPSPort, &c.EtcdClientPort, &c.EtcdPeerPort, &c.JoinPort}
	taken := map[int]bool{}
	for _, port := range ports {
		if *port != 0 && taken[*port] {
			return fmt.Errorf("port %d is in use by another component of this data directory: choose another --https-port", *port)
		}
		taken[*port] = true
	}
	for _, port := range ports {
		if *port != 0 {
			continue
		}
		free, err := freePort(taken)
		if err != nil {
			return err
		}
		*port, taken[free] = free, true
	}
	return nil
}

// freePort tries random ports below the kernel's ephemeral range, so that the
// port is not taken by an outgoing connection while the server is stopped.
func freePort(taken map[int]bool) (int, error) {
	const low, high = 20000, 32000
	for range 100 {
		port := low + rand.IntN(high-low) //nolint:gosec // where the search begins is no secret
		if taken[port] {
			continue
		}
		l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("picking a port: %w", err)
		}
		return port, nil
	}
	return 0, fmt.Errorf("picking a port: none free between %d and %d", low, high)
}
