package controlplane

import (
	"net"

	"github.com/drover-project/drover/localkube/pki"
)

// AdminUser and AdminGroup are whom the administrator's kubeconfig speaks for.
const (
	AdminUser  = "localkube-admin"
	AdminGroup = "system:masters"
)

// identities are the certificates the control plane's processes use.
type identities struct {
	serving, kubelet, frontProxy pki.Pair
	etcdServer, etcdClient       pki.Pair
}

func (o Options) pair(name string) pki.Pair { return pki.PairAt(o.Dir.Path("pki"), name) }

func (o Options) identities() identities {
	return identities{
		serving:    o.pair("apiserver"),
		kubelet:    o.pair("apiserver-kubelet-client"),
		frontProxy: o.pair("front-proxy-client"),
		etcdServer: o.pair("etcd-server"),
		etcdClient: o.pair("apiserver-etcd-client"),
	}
}

// AdminPair is the administrator's certificate.
func (o Options) AdminPair() pki.Pair { return o.pair("admin") }

// ServingPair is the API server's certificate, good for all names of this machine.
func (o Options) ServingPair() pki.Pair { return o.identities().serving }

// IssueIdentities writes all certificates and kubeconfigs of the control plane.
func (o Options) IssueIdentities() error {
	names, addresses, err := o.serverNames()
	if err != nil {
		return err
	}
	etcdAddresses := []net.IP{net.IPv4(127, 0, 0, 1), o.AdvertiseAddress}
	for _, leaf := range []struct {
		by      *pki.Authority
		name    string
		subject pki.Subject
	}{
		{o.Store.Cluster, "apiserver", pki.Subject{Name: "kube-apiserver", DNSNames: names, Addresses: addresses}},
		{o.Store.Cluster, "apiserver-kubelet-client", pki.Subject{Name: "kube-apiserver-kubelet-client", Groups: []string{AdminGroup}}},
		{o.Store.FrontProxy, "front-proxy-client", pki.Subject{Name: "front-proxy-client"}},
		{o.Store.Etcd, "etcd-server", pki.Subject{Name: o.Config.NodeName, DNSNames: []string{"localhost"}, Addresses: etcdAddresses}},
		{o.Store.Etcd, "apiserver-etcd-client", pki.Subject{Name: "kube-apiserver-etcd-client"}},
		{o.Store.Cluster, "admin", pki.Subject{Name: AdminUser, Groups: []string{AdminGroup}}},
		{o.Store.Cluster, "controller-manager", pki.Subject{Name: "system:kube-controller-manager"}},
		{o.Store.Cluster, "scheduler", pki.Subject{Name: "system:kube-scheduler"}},
	} {
		if _, err := o.Store.Issue(leaf.by, leaf.name, leaf.subject); err != nil {
			return err
		}
	}
	for component, user := range map[string]string{
		"controller-manager": "system:kube-controller-manager",
		"scheduler":          "system:kube-scheduler",
	} {
		cfg := pki.Kubeconfig{Server: o.URL(), CA: o.Store.Cluster.CertPEM(), User: user, Pair: o.pair(component)}
		if err := cfg.Write(o.kubeconfig(component)); err != nil {
			return err
		}
	}
	return nil
}

// WriteAdminKubeconfig stores the administrator's kubeconfig at each path.
func (o Options) WriteAdminKubeconfig(paths ...string) error {
	cfg := pki.Kubeconfig{Server: o.URL(), CA: o.Store.Cluster.CertPEM(), User: AdminUser, Pair: o.AdminPair()}
	for _, path := range paths {
		if err := cfg.Write(path); err != nil {
			return err
		}
	}
	return nil
}
