package authorities_test

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/cluster-api/util/secret"

	"github.com/drover-project/drover/capi/kubeconfig"
	"github.com/drover-project/drover/controllers/rkecontrolplane/authorities"
	"github.com/drover-project/drover/planner"
)

var now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func parse(t *testing.T, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	require.NotNil(t, block)
	certificate, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return certificate
}

func TestNew(t *testing.T) {
	var all planner.Authorities
	subjects := map[string]bool{}
	for _, purpose := range authorities.Purposes {
		data, err := authorities.New("prod", purpose, now)
		require.NoError(t, err)
		require.NoError(t, authorities.Check(purpose, data, now))
		authorities.Put(&all, purpose, data)
		if purpose != authorities.ServiceAccount {
			made := parse(t, data[secret.TLSCrtDataName])
			subjects[made.Subject.String()] = true
			require.True(t, made.NotBefore.Before(now), "a server's clock may be behind")
			require.True(t, made.NotAfter.After(now.AddDate(9, 11, 0)))
		}
	}
	require.Len(t, subjects, 5, "whoever looks for an issuer looks for its name")
	for _, pair := range []planner.KeyPair{all.Server, all.Client, all.Proxy, all.EtcdServer, all.EtcdPeer} {
		require.NotEmpty(t, pair.Certificate)
		require.NotEmpty(t, pair.Key)
	}
	require.Contains(t, string(all.ServiceAccountKey), "RSA PRIVATE KEY")
}

// What a user may give in the place of ours, and what he is told of what cannot be used.
func TestCheck(t *testing.T) {
	ours, err := authorities.New("prod", authorities.Server, now)
	require.NoError(t, err)
	other, err := authorities.New("prod", authorities.Server, now)
	require.NoError(t, err)
	account, err := authorities.New("prod", authorities.ServiceAccount, now)
	require.NoError(t, err)
	pair := planner.Authorities{}
	authorities.Put(&pair, authorities.Server, ours)
	authorities.Put(&pair, authorities.Client, ours)
	content, err := authorities.Kubeconfig("prod", "https://192.0.2.1:6443", pair, now)
	require.NoError(t, err)
	leaf, err := kubeconfig.Parse(content)
	require.NoError(t, err)
	data := func(certificate, key []byte) map[string][]byte {
		return map[string][]byte{secret.TLSCrtDataName: certificate, secret.TLSKeyDataName: key}
	}
	certificate, key := ours[secret.TLSCrtDataName], ours[secret.TLSKeyDataName]
	for what, tt := range map[string]struct {
		purpose secret.Purpose
		data    map[string][]byte
		at      time.Time
		says    string
	}{
		"ours":                             {authorities.Server, ours, now, ""},
		"a chain":                          {authorities.Server, data(append(slices.Clip(certificate), other[secret.TLSCrtDataName]...), key), now, ""},
		"an elliptic account's":            {authorities.ServiceAccount, data(nil, key), now, ""},
		"nothing":                          {authorities.Client, nil, now, "its tls.key is not a readable private key in PEM"},
		"no certificate":                   {authorities.Client, data(nil, key), now, "its tls.crt is not a certificate in PEM"},
		"rubbish as a certificate":         {authorities.Client, data([]byte("-----BEGIN CERTIFICATE-----\naaaa\n-----END CERTIFICATE-----\n"), key), now, "not a readable certificate"},
		"another's key":                    {authorities.Server, data(certificate, other[secret.TLSKeyDataName]), now, "its tls.key is not the key of the first certificate"},
		"no authority":                     {authorities.Server, data(leaf.CertData, leaf.KeyData), now, "CA:TRUE is missing"},
		"one that is over":                 {authorities.Server, ours, now.AddDate(11, 0, 0), "its tls.crt expired at 2036-11-"},
		"an account without a key":         {authorities.ServiceAccount, data(account[secret.TLSCrtDataName], nil), now, "its tls.key is not a readable private key"},
		"a chain that no kubeconfig holds": {authorities.Server, data(append(slices.Clip(certificate), make([]byte, 44<<10)...), key), now, "in a kubeconfig): keep only"},
		"many blocks":                      {authorities.Server, data(certificate, []byte(strings.Repeat(string(key), 5))), now, "more than 4 blocks"},
	} {
		t.Run(what, func(t *testing.T) {
			err := authorities.Check(tt.purpose, tt.data, tt.at)
			if tt.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.says)
			require.NotContains(t, err.Error(), "BEGIN")
		})
	}
}

func TestKubeconfig(t *testing.T) {
	var all planner.Authorities
	for _, purpose := range authorities.Purposes {
		data, err := authorities.New("prod", purpose, now)
		require.NoError(t, err)
		authorities.Put(&all, purpose, data)
	}
	content, err := authorities.Kubeconfig("prod", "https://192.0.2.1:6443", all, now)
	require.NoError(t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	require.NoError(t, err)
	require.Equal(t, "https://192.0.2.1:6443", config.Host)
	require.Equal(t, all.Server.Certificate, config.CAData)
	client, roots := parse(t, config.CertData), x509.NewCertPool()
	roots.AddCert(parse(t, all.Client.Certificate))
	_, err = client.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	require.NoError(t, err)
	require.Equal(t, []string{"system:masters"}, client.Subject.Organization)
	require.Contains(t, string(content), "current-context: prod-admin@prod")

	written := authorities.Read(content, all)
	require.Equal(t, "https://192.0.2.1:6443", written.Server)
	require.WithinDuration(t, now.AddDate(0, 6, 0), written.Renew, 48*time.Hour)

	for name, content := range map[string]string{"nothing": "", "rubbish": "{", "another cluster's": strings.Replace(string(content), "certificate-authority-data: ", "certificate-authority-data: aaaa", 1)} {
		require.Zero(t, authorities.Read([]byte(content), all), name)
	}
	data, err := authorities.New("prod", authorities.Client, now)
	require.NoError(t, err)
	authorities.Put(&all, authorities.Client, data)
	require.Zero(t, authorities.Read(content, all), "another authority signs now")

	content, err = authorities.Kubeconfig("prod", "https://192.0.2.1:6443", all, now.AddDate(9, 10, 0))
	require.NoError(t, err)
	config, err = clientcmd.RESTConfigFromKubeConfig(content)
	require.NoError(t, err)
	require.Equal(t, parse(t, all.Client.Certificate).NotAfter, parse(t, config.CertData).NotAfter, "no longer than its authority")
	// The last certificate that its authority can sign is not renewed, at no time: that would be for ever.
	end := parse(t, all.Client.Certificate).NotAfter
	for _, left := range []time.Duration{time.Second, 20 * time.Minute, 59 * time.Minute, 3 * time.Hour, 100 * 24 * time.Hour} {
		content, err = authorities.Kubeconfig("prod", "https://192.0.2.1:6443", all, end.Add(-left))
		require.NoError(t, err)
		require.True(t, authorities.Read(content, all).Renew.After(end), left)
	}
	_, err = authorities.Kubeconfig("prod", "https://192.0.2.1:6443", planner.Authorities{}, now)
	require.ErrorContains(t, err, "client authority")
}
