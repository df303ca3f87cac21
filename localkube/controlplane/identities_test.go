package controlplane_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-project/drover/localkube/controlplane"
)

func certificate(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	block, _ := pem.Decode(raw)
	require.NotNil(t, block, path)
	cert, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return cert
}

// describe is what a certificate lets its holder do.
func describe(cert *x509.Certificate) string {
	role := "client"
	if slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageServerAuth) {
		role = "client and server"
	}
	return fmt.Sprintf("%s: %q of %q, signed by %s\n", role, cert.Subject.CommonName, cert.Subject.Organization, cert.Issuer.CommonName)
}

// Who is who is the whole of this cluster's security: a change must be seen.
func TestIdentities_golden(t *testing.T) {
	o := issued(t)
	files, err := filepath.Glob(o.Dir.Path("pki", "*.crt"))
	require.NoError(t, err)
	var text strings.Builder
	for _, file := range files {
		text.WriteString(strings.TrimSuffix(filepath.Base(file), ".crt") + " is " + describe(certificate(t, file)))
	}
	golden(t, o, "identities", text.String())
}

func TestIdentities_are_renewed_for_the_keys_they_had(t *testing.T) {
	o := issued(t)
	before, err := filepath.Glob(o.Dir.Path("pki", "*"))
	require.NoError(t, err)
	was := map[string][]byte{}
	for _, file := range before {
		was[file], err = os.ReadFile(file)
		require.NoError(t, err)
	}
	o.AdvertiseAddress = net.IPv4(198, 18, 0, 77)
	require.NoError(t, o.IssueIdentities())
	for file, old := range was {
		now, err := os.ReadFile(file)
		require.NoError(t, err)
		authority := strings.HasSuffix(file, "ca.crt")
		renewed := strings.HasSuffix(file, ".crt") && !authority
		require.Equal(t, renewed, !bytes.Equal(old, now), file)
	}
	require.NoError(t, certificate(t, o.ServingPair().Cert).VerifyHostname("198.18.0.77"), "the machine has moved")
	require.NoError(t, certificate(t, o.Dir.Path("pki", "etcd-server.crt")).VerifyHostname("198.18.0.77"))
}

func TestIdentities_are_private(t *testing.T) {
	o := issued(t)
	require.NoError(t, o.WriteAdminKubeconfig(o.Dir.Kubeconfig()))
	_, err := o.Etcd()
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(o.Dir.Root(), func(path string, entry os.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := entry.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, path)
		return nil
	}))
}

func TestKubeconfigs_hold_the_least(t *testing.T) {
	o := issued(t)
	for component, user := range map[string]string{
		"controller-manager": "system:kube-controller-manager", "scheduler": "system:kube-scheduler",
	} {
		cfg, err := clientcmd.BuildConfigFromFlags("", o.Dir.Path("kubeconfigs", component+".kubeconfig"))
		require.NoError(t, err)
		require.Equal(t, "https://127.0.0.1:6443", cfg.Host)
		require.Equal(t, o.Store.Cluster.CertPEM(), cfg.CAData)
		require.False(t, cfg.Insecure)
		block, _ := pem.Decode(cfg.CertData)
		cert, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		require.Equal(t, user, cert.Subject.CommonName)
		require.Empty(t, cert.Subject.Organization, "no group, and not the one that may do everything")
	}
}

func TestAnswersAs(t *testing.T) {
	o := options(t, "127.0.0.1", "198.18.0.9")
	for name, tc := range map[string]struct {
		name    string
		address net.IP
		want    bool
	}{
		"a worker":                     {"worker", net.IPv4(198, 18, 0, 2), false},
		"nothing":                      {"", nil, false},
		"kubernetes":                   {"kubernetes", nil, true},
		"the service":                  {"kubernetes.default.svc.cluster.local", nil, true},
		"in capitals":                  {"KUBERNETES.default", nil, true},
		"this node":                    {"n", nil, true},
		"a name given with --tls-san":  {"api.example", nil, true},
		"an address given with it":     {"worker", net.IPv4(198, 18, 0, 1), true},
		"part of a name":               {"api", nil, false},
		"name below one of ours":       {"x.api.example", nil, false},
		"the first Service's address":  {"", net.IPv4(198, 19, 128, 1), true},
		"the advertised address":       {"", net.IPv4(198, 18, 0, 9), true},
		"the same, written as IPv6":    {"", net.ParseIP("::ffff:198.18.0.9"), true},
		"loopback":                     {"", net.IPv6loopback, true},
		"another address of the range": {"", net.IPv4(198, 18, 0, 10), false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := o.AnswersAs(tc.name, tc.address)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
	o.Config.ServiceCIDR = "x"
	_, err := o.AnswersAs("worker", nil)
	require.ErrorContains(t, err, "reading service range")
}

// Whatever the certificate is good for, nobody else may have one for.
func TestAnswersAs_whatever_is_in_the_certificate(t *testing.T) {
	o := options(t, "0.0.0.0", "198.18.0.9")
	require.NoError(t, o.IssueIdentities())
	cert := certificate(t, o.ServingPair().Cert)
	for _, name := range cert.DNSNames {
		ours, err := o.AnswersAs(name, nil)
		require.NoError(t, err)
		require.True(t, ours, name)
	}
	for _, address := range cert.IPAddresses {
		ours, err := o.AnswersAs("", address)
		require.NoError(t, err)
		require.True(t, ours, address)
	}
}

func TestFirstServiceIP_of_every_size(t *testing.T) {
	for cidr, want := range map[string]string{
		"198.19.128.0/17": "198.19.128.1", "10.96.0.0/12": "10.96.0.1", "198.19.0.0/30": "198.19.0.1", "198.19.0.254/31": "198.19.0.255", "198.19.7.9/24": "198.19.7.1",
	} {
		ip, err := controlplane.FirstServiceIP(cidr)
		require.NoError(t, err, cidr)
		require.Equal(t, want, ip.String())
	}
	for cidr, want := range map[string]string{
		"":                   "reading service range: invalid CIDR address: ",
		"198.19.128.0":       "reading service range: invalid CIDR address: 198.19.128.0",
		"fd00::/108":         "reading service range: fd00::/108 is not IPv4",
		"198.19.128.7/32":    "reading service range: 198.19.128.7/32 has no room for a Service",
		"255.255.255.255/32": "reading service range: 255.255.255.255/32 has no room for a Service",
	} {
		_, err := controlplane.FirstServiceIP(cidr)
		require.EqualError(t, err, want)
	}
}

func TestFirstServiceIP_is_of_its_range(t *testing.T) {
	check := func(cidr string) {
		ip, err := controlplane.FirstServiceIP(cidr)
		if err != nil {
			return
		}
		_, network, err := net.ParseCIDR(cidr)
		require.NoError(t, err)
		require.True(t, network.Contains(ip))
		require.NotNil(t, ip.To4())
		require.False(t, ip.Equal(network.IP), "that is the range's own name")
	}
	for _, seed := range []string{"198.19.128.0/17", "0.0.0.0/0", "255.255.255.255/31", "fd00::/8", "/"} {
		check(seed)
	}
}

func TestURLs_of_IPv6(t *testing.T) {
	o := options(t, "::", "fd00::9")
	require.Equal(t, "https://127.0.0.1:6443", o.URL())
	require.Equal(t, "https://[fd00::9]:6443", o.AdvertiseURL())
	require.Equal(t, "https://[fd00::9]:2380", o.EtcdPeerURL())
}
