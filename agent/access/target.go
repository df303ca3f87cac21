package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/agent/proxy"
)

// target is where the endpoint is, how it is known, and the token it takes.
type target struct {
	server    *url.URL
	ca        []byte
	token     string
	transport *http.Transport
	// sender sends requests with the transport, through the agent's proxies.
	sender http.RoundTripper
}

// newTarget checks an address and certificates and creates a transport. The transport trusts these
// certificates alone, or the system's if the list is empty.
func newTarget(server string, ca []byte, token string, proxies *proxy.Proxies) (*target, error) {
	address, err := url.Parse(server)
	if err != nil || address.Scheme != "https" || address.Host == "" || address.User != nil {
		return nil, errors.New("the endpoint's address is not https://host")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(ca) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("the endpoint's CA bundle has no certificate")
		}
	}
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	transport := utilnet.SetTransportDefaults(&http.Transport{
		TLSClientConfig: config, DialContext: dialer.DialContext, TLSHandshakeTimeout: 15 * time.Second,
		ResponseHeaderTimeout: 2 * time.Minute, MaxResponseHeaderBytes: 256 << 10, IdleConnTimeout: 5 * time.Minute,
	})
	return &target{server: address, ca: ca, token: token, transport: transport, sender: proxies.Transport(transport)}, nil
}

// parseKubeconfig reads address, certificates and token of a kubeconfig, which may hold them inline
// only: it names no file or program of ours.
func parseKubeconfig(content string) (server string, ca []byte, token string, err error) {
	var config clientcmdv1.Config
	if err := yaml.Unmarshal([]byte(content), &config); err != nil {
		return "", nil, "", errors.New("the kubeconfig is not YAML") // the parser's own error would quote it
	}
	var current clientcmdv1.Context
	for _, c := range config.Contexts {
		if c.Name == config.CurrentContext {
			current = c.Context
		}
	}
	for _, c := range config.Clusters {
		if c.Name != current.Cluster {
			continue
		}
		if c.Cluster.InsecureSkipTLSVerify || c.Cluster.CertificateAuthority != "" || c.Cluster.ProxyURL != "" || c.Cluster.TLSServerName != "" {
			return "", nil, "", errors.New("the kubeconfig's cluster has more than an address and inline certificates")
		}
		server, ca = c.Cluster.Server, c.Cluster.CertificateAuthorityData
	}
	for _, u := range config.AuthInfos {
		if u.Name == current.AuthInfo {
			token = u.AuthInfo.Token
		}
	}
	if server == "" || token == "" || strings.ContainsAny(token, "\r\n") {
		return "", nil, "", fmt.Errorf("the kubeconfig's context %.80q leads to no cluster and token", config.CurrentContext)
	}
	return server, ca, token, nil
}
