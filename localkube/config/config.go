package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
)

// Role is the role of a machine.
type Role string

// The roles. A server is a node as well.
const (
	Server Role = "server"
	Agent  Role = "agent"

	both Role = ""
)

const (
	// File is where k3s has its configuration.
	File = "/etc/rancher/k3s/config.yaml"

	defaultDataDir    = "/var/lib/rancher/k3s"
	defaultRegistries = "/etc/rancher/k3s/registries.yaml"
	defaultKubeconfig = "/etc/rancher/k3s/k3s.yaml"
	// The ranges of k3s may be in use in a real network. These are reserved for benchmarks, and
	// differ from the ranges of `localkube server`, whose pods may reach the servers of a cluster
	// of this kind.
	defaultPods     = "198.18.128.0/18"
	defaultServices = "198.18.192.0/19"
)

// Config is the configuration of a server or an agent.
type Config struct {
	Role              Role
	DataDir, NodeName string
	// Token is the password of a server, or the text by which an agent joins. AgentToken is the
	// password of agents.
	Token, AgentToken string
	// Server is where an agent joins.
	Server string
	// NodeIP is nil where the machine's own address is taken.
	NodeIP net.IP
	// Names and addresses, beside the node's own, that the API server's certificate has.
	Names []string
	// Advertise is where pods reach the API server; nil is the node's address.
	Advertise              net.IP
	NodeLabels, NodeTaints []string
	Pods, Services         *net.IPNet
	// Arguments are name=value, by the component that takes them.
	Arguments map[string][]string
	// Registries is the path of registries.yaml, which need not be there.
	Registries string
	// Kubeconfig is where the administrator's is written to.
	Kubeconfig string
	// Unused are arguments that k3s knows and localkube does nothing for.
	Unused []string
}

// Read reads the configuration of a role; hostname is the default node name.
func Read(file string, role Role, hostname string) (*Config, error) {
	v, err := load(file)
	if err != nil {
		return nil, err
	}
	unused, err := v.check(role)
	if err != nil {
		return nil, err
	}
	c := &Config{
		Role: role, DataDir: cmp.Or(v.text("data-dir"), defaultDataDir), NodeName: strings.ToLower(cmp.Or(v.text("node-name"), hostname)), Server: v.text("server"),
		NodeLabels: v["node-label"], NodeTaints: v["node-taint"], Registries: cmp.Or(v.text("private-registry"), defaultRegistries),
		Kubeconfig: cmp.Or(v.text("write-kubeconfig"), defaultKubeconfig), Names: append(v.list("tls-san"), v.list("node-external-ip")...), Unused: unused,
		Arguments: map[string][]string{},
	}
	for _, component := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"} {
		c.Arguments[component] = v[component+"-arg"]
	}
	c.Arguments["kube-controller-manager"] = append(c.Arguments["kube-controller-manager"], v["kube-controller-arg"]...) // its name of old
	if c.Token, err = secret(v, "token"); err == nil {
		c.AgentToken, err = secret(v, "agent-token")
	}
	c.AgentToken = cmp.Or(c.AgentToken, c.Token)
	return c, errors.Join(err, c.addresses(v), c.refuse())
}

// secret is said itself, or in a file.
func secret(v values, name string) (string, error) {
	path := v.text(name + "-file")
	if said := v.text(name); said != "" || path == "" {
		return said, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s-file: %w", name, err)
	}
	return string(bytes.TrimSpace(content)), nil
}

func (c *Config) addresses(v values) error {
	for _, one := range []struct {
		name string
		into *net.IP
	}{{"node-ip", &c.NodeIP}, {"advertise-address", &c.Advertise}} {
		for _, text := range v.list(one.name) {
			ip := net.ParseIP(text).To4()
			if ip == nil || *one.into != nil {
				return fmt.Errorf("%s: %s: localkube has one address, of IPv4", one.name, strings.Join(v.list(one.name), ","))
			}
			*one.into = ip
		}
	}
	for _, one := range []struct {
		name, otherwise string
		into            **net.IPNet
	}{{"cluster-cidr", defaultPods, &c.Pods}, {"service-cidr", defaultServices, &c.Services}} {
		text := cmp.Or(strings.Join(v.list(one.name), ","), one.otherwise)
		_, network, err := net.ParseCIDR(text)
		if err != nil || network.IP.To4() == nil {
			return fmt.Errorf("%s: %s is not one range of IPv4", one.name, text)
		}
		*one.into = network
	}
	return nil
}

// refuse returns an error for a configuration that localkube does not support.
func (c *Config) refuse() error {
	if c.Token == "" {
		return errors.New("token is not set")
	}
	if c.Role == Server {
		if c.Server != "" {
			return errors.New("server is set: localkube has one server, and no other joins it")
		}
		return nil
	}
	if c.Server == "" {
		return errors.New("server is not set: an agent joins one")
	}
	if at, err := url.Parse(c.Server); err != nil || at.Scheme != "https" || at.Hostname() == "" {
		return fmt.Errorf("server: %s is not of the form https://HOST:PORT", c.Server)
	}
	return nil
}
