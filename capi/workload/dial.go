package workload

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi/kubeconfig"
)

const (
	// ownTime is the time limit for the handshake at the kubeconfig's address if there are other
	// servers to try. serverTime is the limit for the other servers, at most maxServers, which are
	// dialled concurrently. Both together leave enough of callTime for a call.
	ownTime, serverTime, maxServers = 2 * time.Second, time.Second, 6
	// apiPort is the port of the API servers of k3s and RKE2.
	apiPort = "6443"
)

// dialer makes connections to one workload cluster: to the address of its kubeconfig or, while that
// does not answer, to a server of its control plane. Before it gets any data, the server must
// present a certificate of the kubeconfig's authority for the dialled name or address.
type dialer struct {
	// address is the kubeconfig's, as http.Transport dials it; secure is its TLS configuration.
	address string
	secure  *tls.Config
	// servers returns the other servers. It is nil if the kubeconfig has no authority to verify
	// them, or if a proxy is used, because an http.Transport dials only the proxy: if a kubeconfig
	// names the proxy's own address, no server may take its place, because it would get the proxy's
	// password.
	servers func(context.Context) []string
	// through is the server of the last connection; nil for the kubeconfig's own address. changed
	// is called when it changes.
	through atomic.Pointer[string]
	changed func()
}

func newDialer(config *rest.Config, servers func(context.Context) []string, changed func()) (*dialer, error) {
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, &kubeconfig.Error{Field: "data.value", Problem: "has a certificate, key or authority that cannot be read: each must be PEM in base64"}
	}
	if secure == nil {
		secure = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, &kubeconfig.Error{Field: "clusters[].cluster.server", Problem: "must be an address of the form https://host:port"}
	}
	d := &dialer{address: net.JoinHostPort(target.Hostname(), cmp.Or(target.Port(), "443")), secure: secure, changed: changed}
	if len(config.CAData) > 0 && !config.Insecure && !proxied(target) {
		d.servers = servers
	}
	return d, nil
}

// proxied reports whether the manager's environment has a proxy for an address. An unreadable proxy
// setting counts as a proxy: an http.Transport then makes no connection.
func proxied(target *url.URL) bool {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: target})
	return proxy != nil || err != nil
}

// Dial is for an http.Transport, which calls it for connections without a proxy, and to reach an
// https proxy.
func (d *dialer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var servers []string
	if d.servers != nil && address == d.address {
		servers = d.servers(ctx)
	}
	patience := callTime
	if len(servers) > 0 {
		patience = ownTime
	}
	made, err := greet(ctx, network, address, d.secure, patience)
	if err == nil {
		d.note("")
		return made, nil
	}
	if made, server := d.greetServers(ctx, network, servers); made != nil {
		d.note(server)
		return made, nil
	}
	return nil, err
}

// greetServers dials all servers concurrently, and uses the first in their order that answers. If
// it used the quickest, each new connection could go to another server, and each change would be
// notified. It closes the other connections.
func (d *dialer) greetServers(ctx context.Context, network string, servers []string) (made net.Conn, by string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	theirs := d.secure.Clone()
	theirs.ServerName = "" // each has its own
	answers := make([]chan net.Conn, len(servers))
	for i, server := range servers {
		answers[i] = make(chan net.Conn, 1)
		go func() {
			answer, _ := greet(ctx, network, server, theirs, serverTime) // nil after an error
			answers[i] <- answer
		}()
	}
	for i, server := range servers {
		answer := <-answers[i]
		switch {
		case answer == nil:
		case made != nil:
			_ = answer.Close()
		default:
			made, by = answer, server
			cancel()
		}
	}
	return made, by
}

func greet(ctx context.Context, network, address string, secure *tls.Config, patience time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return (&tls.Dialer{Config: secure}).DialContext(ctx, network, address)
}

// note remembers by which server a connection was made.
func (d *dialer) note(server string) {
	if was := d.through.Swap(&server); (was == nil && server != "" || was != nil && *was != server) && d.changed != nil {
		d.changed()
	}
}

// by is the server by which the last connection was made, empty for the kubeconfig's own address.
func (d *dialer) by() string {
	if server := d.through.Load(); server != nil {
		return *server
	}
	return ""
}

// isBack reports whether the kubeconfig's own address answers again, when another was needed.
func (d *dialer) isBack(ctx context.Context) bool {
	return d.by() != "" && greets(ctx, d.address, d.secure)
}

// Answers reports whether a server with a certificate of the authority (PEM) answers at an address.
// A foreign server there, for example in another network with the same addresses, does not count;
// it gets only a TLS handshake. If the manager has a proxy for the address, the result is false: a
// connection would not use this path.
func Answers(ctx context.Context, address string, authority []byte) bool {
	roots := x509.NewCertPool()
	return roots.AppendCertsFromPEM(authority) && !proxied(&url.URL{Scheme: "https", Host: address}) &&
		greets(ctx, address, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
}

func greets(ctx context.Context, address string, secure *tls.Config) bool {
	made, err := greet(ctx, "tcp", address, secure, ownTime)
	if err != nil {
		return false
	}
	_ = made.Close()
	return true
}

// servers returns further addresses at which the API of a cluster of ours may answer: the addresses
// of its control plane's machines.
func (c *Clusters) servers(ctx context.Context, cluster client.ObjectKey) []string {
	list := &clusterv1.MachineList{}
	if err := c.client.List(ctx, list, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name, rkev1.ControlPlaneRoleLabel: "true"}); err != nil {
		return nil
	}
	return serversAmong(list.Items)
}

// serversAmong returns the addresses of Machines that stay and have our bootstrap: first the
// addresses outside of the servers' own network, as in the kubeconfig. If there are too many, the
// first Machines keep all of theirs.
func serversAmong(machines []clusterv1.Machine) []string {
	var outside, inside []string
	add := func(to *[]string, addresses []string) {
		for _, address := range addresses {
			if ip := net.ParseIP(address); ip.IsGlobalUnicast() && len(outside)+len(inside) < maxServers {
				*to = append(*to, net.JoinHostPort(ip.String(), apiPort))
			}
		}
	}
	for i := range machines {
		m := &machines[i]
		if ref := m.Spec.Bootstrap.ConfigRef; ref.Kind != "RKEBootstrap" || ref.APIGroup != rkev1.GroupVersion.Group || !m.DeletionTimestamp.IsZero() {
			continue
		}
		external, internal := rkev1.MachineAddresses(m)
		add(&outside, external)
		add(&inside, internal)
	}
	return append(outside, inside...)
}
