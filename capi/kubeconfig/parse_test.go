package kubeconfig_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-project/drover/capi/kubeconfig"
)

// textOf is a kubeconfig whose cluster and user have these further lines.
func textOf(cluster, user string) string {
	indented := func(lines string) string {
		return strings.ReplaceAll("\n"+strings.TrimSpace(lines), "\n", "\n    ")
	}
	return "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- name: c\n  context: {cluster: k, user: u}\n" +
		"clusters:\n- name: k\n  cluster:" + indented(cluster) + "\nusers:\n- name: u\n  user:" + indented(user) + "\n"
}

const atServer = "server: https://198.18.0.1:6443"

func TestParse_takesWhatIsInline(t *testing.T) {
	pem := base64.StdEncoding.EncodeToString([]byte("PEM"))
	for name, tt := range map[string]struct {
		content string
		want    rest.Config
	}{
		"token": {textOf(atServer, "token: t"), rest.Config{Host: "https://198.18.0.1:6443", BearerToken: "t"}},
		"certificates": {textOf(atServer+"\ncertificate-authority-data: "+pem+"\ntls-server-name: n",
			"client-certificate-data: "+pem+"\nclient-key-data: "+pem), rest.Config{Host: "https://198.18.0.1:6443",
			TLSClientConfig: rest.TLSClientConfig{CAData: []byte("PEM"), CertData: []byte("PEM"), KeyData: []byte("PEM"), ServerName: "n"}}},
		"password, unchecked": {textOf(atServer+"\ninsecure-skip-tls-verify: true", "username: a\npassword: b"), rest.Config{
			Host: "https://198.18.0.1:6443", Username: "a", Password: "b", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}},
		"empty fields of a tool": {textOf(atServer+"\nproxy-url: ''", "token: t\ntokenFile: ''\nexec: null\nas-groups: []"),
			rest.Config{Host: "https://198.18.0.1:6443", BearerToken: "t"}},
		"another user's file": {strings.Replace(textOf(atServer, "token: t"), "users:", "users:\n- name: x\n  user: {tokenFile: /f}", 1),
			rest.Config{Host: "https://198.18.0.1:6443", BearerToken: "t"}},
		"JSON": {`{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"k","user":"u"}}],"clusters":[{"name":"k","cluster":{"server":"https://h"}}],` +
			`"users":[{"name":"u","user":{"token":"t"}}]}`, rest.Config{Host: "https://h", BearerToken: "t"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := kubeconfig.Parse([]byte(tt.content))
			require.NoError(t, err)
			require.Equal(t, tt.want, *got)
		})
	}
	content, err := clientcmd.Write(clientcmdapi.Config{CurrentContext: "c", Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "k", AuthInfo: "u"}},
		Clusters:  map[string]*clientcmdapi.Cluster{"k": {Server: "https://198.18.0.1:6443", CertificateAuthorityData: []byte("PEM"), TLSServerName: "n"}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {ClientCertificateData: []byte("PEM"), ClientKeyData: []byte("PEM")}}})
	require.NoError(t, err)
	want, err := clientcmd.RESTConfigFromKubeConfig(content)
	require.NoError(t, err)
	got, err := kubeconfig.Parse(content)
	require.NoError(t, err)
	require.Equal(t, want, got, "client-go reads the same")
}

func TestParse_refuses(t *testing.T) {
	const token = "token: marker-secret"
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c]\n"
	for name, tt := range map[string]struct{ content, field string }{
		"token of a file":              {textOf(atServer, token+"\ntokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token"), "users[].user.tokenFile"},
		"token of a file, in capitals": {textOf(atServer, token+"\nTOKENFILE: /f"), "users[].user.tokenFile"},
		"client certificate of a file": {textOf(atServer, "client-certificate: /f"), "users[].user.client-certificate"},
		"client key of a file":         {textOf(atServer, "client-key: /f"), "users[].user.client-key"},
		"authority of a file":          {textOf(atServer+"\ncertificate-authority: /f", token), "clusters[].cluster.certificate-authority"},
		"command":                      {textOf(atServer, "exec: {command: sh}"), "users[].user.exec"},
		"auth provider":                {textOf(atServer, "auth-provider: {name: oidc}"), "users[].user.auth-provider"},
		"proxy":                        {textOf(atServer+"\nproxy-url: http://198.18.0.2", token), "clusters[].cluster.proxy-url"},
		"impersonation":                {textOf(atServer, token+"\nas: root"), "users[].user.as"},
		"impersonated groups":          {textOf(atServer, token+"\nas-groups: [system:masters]"), "users[].user.as-groups"},
		"impersonated uid":             {textOf(atServer, token+"\nas-uid: x"), "users[].user.as-uid"},
		"impersonated extra":           {textOf(atServer, token+"\nas-user-extra: {a: [b]}"), "users[].user.as-user-extra"},
		"not encrypted":                {textOf("server: http://198.18.0.1", token), "clusters[].cluster.server"},
		"password in the address":      {textOf("server: https://marker-secret@h", token), "clusters[].cluster.server"},
		"no address":                   {textOf("server: unix:///run/x", token), "clusters[].cluster.server"},
		"half a certificate":           {textOf(atServer, "client-certificate-data: UEVN"), "users[].user.client-key-data"},
		"no base64":                    {textOf(atServer, "client-key-data: '*marker-secret*'"), "users[].user.client-key-data"},
		"two credentials":              {textOf(atServer, token+"\nusername: a"), "users[].user.username"},
		"checked and not":              {textOf(atServer+"\ninsecure-skip-tls-verify: true\ncertificate-authority-data: UEVN", token), "clusters[].cluster.insecure-skip-tls-verify"},
		"no context":                   {strings.Replace(textOf(atServer, token), "current-context: c", "current-context: d", 1), "current-context"},
		"no cluster":                   {strings.Replace(textOf(atServer, token), "cluster: k", "cluster: l", 1), "contexts[].context.cluster"},
		"no user":                      {strings.Replace(textOf(atServer, token), "user: u", "user: v", 1), "contexts[].context.user"},
		"two users of one name":        {textOf(atServer, token) + "- name: u\n  user: {tokenFile: /token}\n", "users[].name"},
		"nothing":                      {"", "data.value"},
		"text":                         {"marker-secret", "data.value"},
		"broken":                       {"a: [marker-secret", "data.value"},
		"too large":                    {textOf(atServer, token) + "#" + strings.Repeat("x", 64<<10), "data.value"},
		"a bomb":                       {bomb + textOf(atServer, token), "data.value"},
		"aliases":                      {"x: &x {}\ny: *x\n" + textOf(atServer, token), "data.value"},
		"many fields":                  {textOf(atServer, token) + "x: [" + strings.Repeat("1,", 5000) + "1]", "data.value"},
		"a key of three primes":        {textOf(atServer, keyOf(t, 3)), "users[].user.client-key-data"},
		"a large key":                  {textOf(atServer, keyOf(t, 0)), "users[].user.client-key-data"},
		"a large authority":            {textOf(atServer+"\ncertificate-authority-data: "+largeCertificate(t), token), "clusters[].cluster.certificate-authority-data"},
		"a large certificate":          {textOf(atServer, "client-certificate-data: "+largeCertificate(t)+"\nclient-key-data: UEVN"), "users[].user.client-certificate-data"},
		"a thousand authorities": {textOf(atServer+"\ncertificate-authority-data: "+base64.StdEncoding.EncodeToString(
			bytes.Repeat([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), 500)), token), "clusters[].cluster.certificate-authority-data"},
		"very deep": {"x: " + strings.Repeat("[", 30_000), "data.value"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := kubeconfig.Parse([]byte(tt.content))
			require.Nil(t, got)
			var refused *kubeconfig.Error
			require.True(t, errors.As(err, &refused), "%v", err)
			require.Equal(t, tt.field, refused.Field)
			require.NotContains(t, err.Error(), "marker-secret")
		})
	}
}

// keyOf is a client key of so many primes, or one so large that reading it takes long, beside a certificate.
func keyOf(t *testing.T, primes int) string {
	t.Helper()
	der := make([]byte, 4<<10)
	if primes > 0 {
		key, err := rsa.GenerateMultiPrimeKey(rand.Reader, primes, 2048)
		require.NoError(t, err)
		der = x509.MarshalPKCS1PrivateKey(key)
	}
	return "client-certificate-data: UEVN\nclient-key-data: " + base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: der}))
}

// largeCertificate has a key with which a signature cannot be checked quickly.
func largeCertificate(t *testing.T) string {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	modulus := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 16384), big.NewInt(1))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &rsa.PublicKey{N: modulus, E: 65537}, signer)
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(textOf(atServer, "token: t")))
	f.Add([]byte(textOf(atServer, "tokenFile: /f")))
	f.Add([]byte(textOf("server: htTps://0", "token: t")))
	f.Fuzz(func(t *testing.T, content []byte) {
		got, err := kubeconfig.Parse(content)
		if err != nil {
			return
		}
		require.Empty(t, got.BearerTokenFile+got.CAFile+got.CertFile+got.KeyFile)
		require.True(t, got.Proxy == nil && got.ExecProvider == nil && got.AuthProvider == nil && strings.HasPrefix(got.Host, "https://"))
	})
}
