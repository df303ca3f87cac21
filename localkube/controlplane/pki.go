package controlplane

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	certutil "k8s.io/client-go/util/cert"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
	"k8s.io/kubernetes/cmd/kubeadm/app/phases/certs"
	"k8s.io/kubernetes/cmd/kubeadm/app/phases/kubeconfig"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"

	"github.com/drover-project/drover/localkube/identity"
)

// adminGroup may do everything, whatever roles there are.
const adminGroup = "system:masters"

// IssueIdentities makes the authorities and the service-account key, once, and
// all certificates and kubeconfigs, anew: addresses may change, and nothing
// expires on a server that is restarted once a year. It is kubeadm's own code.
func (p *Plane) IssueIdentities() error {
	pki := p.Dir.Path("pki")
	// Where this machine's own components reach the API server.
	host := p.Bind
	if host.IsUnspecified() {
		host = net.IPv4(127, 0, 0, 1)
	}
	cfg := &kubeadmapi.InitConfiguration{
		ClusterConfiguration: kubeadmapi.ClusterConfiguration{
			ClusterName: "localkube", CertificatesDir: pki, EncryptionAlgorithm: kubeadmapi.EncryptionAlgorithmECDSAP256,
			ControlPlaneEndpoint: net.JoinHostPort(host.String(), strconv.Itoa(p.Ports.HTTPS)),
			Networking:           kubeadmapi.Networking{ServiceSubnet: p.Services, DNSDomain: "cluster.local"},
			APIServer:            kubeadmapi.APIServer{CertSANs: []string{"localhost", "127.0.0.1"}},
			Etcd:                 kubeadmapi.Etcd{Local: &kubeadmapi.LocalEtcd{}},
		},
		LocalAPIEndpoint: kubeadmapi.APIEndpoint{AdvertiseAddress: p.Advertise.String(), BindPort: int32(p.Ports.HTTPS)},
		NodeRegistration: kubeadmapi.NodeRegistrationOptions{Name: p.NodeName},
	}
	for _, leaf := range certs.GetDefaultCertList() {
		if leaf.CAName == "" {
			continue
		}
		for _, ending := range []string{".crt", ".key"} {
			if err := os.RemoveAll(filepath.Join(pki, leaf.BaseName+ending)); err != nil {
				return fmt.Errorf("renewing certificates: %w", err)
			}
		}
	}
	if err := certs.CreatePKIAssets(cfg); err != nil {
		return fmt.Errorf("making certificates: %w", err)
	}
	if err := issueKubeletClient(pki); err != nil {
		return err
	}
	for component, who := range map[string]struct{ user, group string }{
		AdminName:             {"localkube-admin", adminGroup},
		ControllerManagerName: {constants.ControllerManagerUser, ""},
		SchedulerName:         {constants.SchedulerUser, ""},
		"kubelet":             {constants.NodesUserPrefix + p.NodeName, constants.NodesGroup},
		"kube-proxy":          {"system:kube-proxy", ""},
	} {
		var groups []string
		if who.group != "" {
			groups = []string{who.group}
		}
		var content bytes.Buffer
		err := kubeconfig.WriteKubeConfigWithClientCert(&content, cfg, who.user, groups, time.Now().Add(constants.CertificateValidityPeriod))
		if err != nil {
			return fmt.Errorf("making the kubeconfig of %s: %w", component, err)
		}
		if err := p.Dir.Write(content.Bytes(), "kubeconfigs", component+".kubeconfig"); err != nil {
			return err
		}
	}
	p.Files = p.kubeadmFiles()
	return nil
}

// kubeadmFiles are where kubeadm has its certificates, and we the kubeconfigs. One authority signs what servers and what clients show.
func (p *Plane) kubeadmFiles() identity.Files {
	pair := func(name ...string) identity.Pair {
		path := p.Dir.Path(append([]string{"pki"}, name...)...)
		return identity.Pair{Certificate: path + ".crt", Key: path + ".key"}
	}
	files := identity.Files{
		ServerCA: p.Dir.CA(), ClientCA: pair("ca"), APIServer: pair("apiserver"), Kubelet: pair("apiserver-kubelet-client"),
		ProxyCA: pair("front-proxy-ca").Certificate, Proxy: pair("front-proxy-client"), ProxyName: "front-proxy-client",
		EtcdCA: pair("etcd", "ca").Certificate, EtcdPeerCA: pair("etcd", "ca").Certificate,
		EtcdServer: pair("etcd", "server"), EtcdPeer: pair("etcd", "peer"), EtcdClient: pair("apiserver-etcd-client"),
		ServiceAccountKey: p.Dir.Path("pki", "sa.key"), ServiceAccountPublic: p.Dir.Path("pki", "sa.pub"), Kubeconfigs: map[string]string{},
	}
	for _, component := range []string{AdminName, ControllerManagerName, SchedulerName} {
		files.Kubeconfigs[component] = p.Dir.ComponentKubeconfig(component)
	}
	return files
}

// issueKubeletClient replaces the certificate with which the API server speaks
// to kubelets: the role that kubeadm's needs would have to be bound first.
func issueKubeletClient(pki string) error {
	ca, key, err := pkiutil.TryLoadCertAndKeyFromDisk(pki, constants.CACertAndKeyBaseName)
	if err != nil {
		return fmt.Errorf("reading the authority: %w", err)
	}
	cert, certKey, err := pkiutil.NewCertAndKey(ca, key, &pkiutil.CertConfig{
		Config: certutil.Config{
			CommonName: constants.APIServerKubeletClientCertCommonName, Organization: []string{adminGroup},
			Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		},
		NotAfter:            time.Now().Add(constants.CertificateValidityPeriod),
		EncryptionAlgorithm: kubeadmapi.EncryptionAlgorithmECDSAP256,
	})
	if err != nil {
		return fmt.Errorf("making the certificate for kubelets: %w", err)
	}
	return pkiutil.WriteCertAndKey(pki, constants.APIServerKubeletClientCertAndKeyBaseName, cert, certKey)
}
