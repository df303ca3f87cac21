package authorities

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-project/drover/capi/kubeconfig"
	"github.com/drover-project/drover/planner"
)

// clientLifetime is the lifetime of a kubeconfig's client certificate; it is renewed at half of it.
const clientLifetime = 365 * 24 * time.Hour

// Kubeconfig returns a kubeconfig for an administrator of the cluster, at a server such as
// https://203.0.113.7:6443.
func Kubeconfig(cluster, server string, a planner.Authorities, now time.Time) ([]byte, error) {
	authority, err := parseCertificate(a.Client.Certificate)
	if err != nil {
		return nil, fmt.Errorf("reading the client authority, which %w", err)
	}
	signer, err := parseKey(a.Client.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the client authority's key, which %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	until := now.Add(clientLifetime)
	if authority.NotAfter.Before(until) {
		until = authority.NotAfter
	}
	pair, err := sign(&x509.Certificate{Subject: pkix.Name{CommonName: "drover-manager", Organization: []string{"system:masters"}}, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, authority, key, signer, now)
	if err != nil {
		return nil, err
	}
	user := cluster + "-admin"
	config := clientcmdapi.NewConfig()
	config.Clusters[cluster] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: a.Server.Certificate}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.Certificate, ClientKeyData: pair.Key}
	config.CurrentContext = user + "@" + cluster
	config.Contexts[config.CurrentContext] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: user}
	content, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	return content, nil
}

// Written is the content of a kubeconfig of ours. It is empty if another authority signed the
// kubeconfig, or if it cannot be read; the kubeconfig is then written again.
type Written struct {
	// Server is the address. Renew is when to renew the client certificate: at half of its
	// lifetime. The last certificate that its authority can sign is not renewed early, because no
	// other can follow.
	Server string
	Renew  time.Time
}

// Read looks into a kubeconfig.
func Read(content []byte, a planner.Authorities) Written {
	config, err := kubeconfig.Parse(content)
	if err != nil || !bytes.Equal(config.CAData, a.Server.Certificate) {
		return Written{}
	}
	authority, err := parseCertificate(a.Client.Certificate)
	if err != nil {
		return Written{}
	}
	client, err := parseCertificate(config.CertData)
	if err != nil || client.CheckSignatureFrom(authority) != nil || len(config.KeyData) == 0 {
		return Written{}
	}
	written := Written{Server: config.Host, Renew: client.NotBefore.Add(client.NotAfter.Sub(client.NotBefore) / 2)}
	if !client.NotAfter.Before(authority.NotAfter) {
		written.Renew = authority.NotAfter.Add(time.Second)
	}
	return written
}
