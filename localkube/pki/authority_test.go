package pki_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/pki"
)

var authorities = []string{"ca", "etcd-ca", "front-proxy-ca"}

// opened is a store with everything in it, and its directory.
func opened(t *testing.T) (*pki.Store, string) {
	t.Helper()
	dir := t.TempDir()
	store, err := pki.Open(dir)
	require.NoError(t, err)
	return store, dir
}

// contents is every file of a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	files := map[string]string{}
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		files[e.Name()] = string(raw)
	}
	return files
}

// replaceAuthority puts a certificate for the same key there that is valid
// between two times.
func replaceAuthority(t *testing.T, dir, name string, from, until time.Time) {
	t.Helper()
	path := filepath.Join(dir, name)
	key, err := pki.OpenKey(path + ".key")
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localkube-" + name},
		NotBefore: from, NotAfter: until, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	raw := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	require.NoError(t, os.WriteFile(path+".crt", raw, 0o600))
}

func TestOpen_refuses_half_an_authority(t *testing.T) {
	_, other := opened(t)
	for _, name := range authorities {
		for what, tc := range map[string]struct {
			spoil func(t *testing.T, dir string)
			want  string
		}{
			"key is gone": {
				func(t *testing.T, dir string) {
					t.Helper()
					require.NoError(t, os.Remove(filepath.Join(dir, name+".key")))
				},
				"opening authority " + name + ": reading key: open DIR/" + name + ".key: no such file or directory",
			},
			"key is another's": {
				func(t *testing.T, dir string) { t.Helper(); overwrite(t, dir, other, name+".key") },
				"opening authority " + name + ": DIR/" + name + ".crt and DIR/" + name + ".key do not belong together",
			},
			"certificate is another's": {
				func(t *testing.T, dir string) { t.Helper(); overwrite(t, dir, other, name+".crt") },
				"opening authority " + name + ": DIR/" + name + ".crt and DIR/" + name + ".key do not belong together",
			},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				_, dir := opened(t)
				tc.spoil(t, dir)
				before := contents(t, dir)
				for _, open := range []func(string) (*pki.Store, error){pki.Open, pki.Read} {
					_, err := open(dir)
					require.EqualError(t, err, in(dir, tc.want))
				}
				require.Equal(t, before, contents(t, dir), "nothing is made up for it")
			})
		}
	}
}

func TestOpen_says_that_the_clock_is_wrong(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		from, until time.Time
		want        string
	}{
		"behind": {now.Add(48 * time.Hour), now.Add(96 * time.Hour), "it is valid from " + day(now, 48) + ".* and this machine's clock says " + day(now, 0) + ".*: set the clock$"},
		"ahead":  {now.Add(-96 * time.Hour), now.Add(-48 * time.Hour), "it expired at " + day(now, -48) + ".* and this machine's clock says " + day(now, 0) + ".*: set the clock, or start a new cluster in a new data directory$"},
	} {
		for _, authority := range authorities {
			t.Run(authority+" "+name, func(t *testing.T) {
				_, dir := opened(t)
				replaceAuthority(t, dir, authority, tc.from, tc.until)
				_, err := pki.Open(dir)
				require.Error(t, err)
				require.Regexp(t, "^opening authority "+authority+": "+tc.want, err.Error())
			})
		}
	}
}

func day(now time.Time, hours int) string {
	return now.Add(time.Duration(hours) * time.Hour).UTC().Format("2006-01-02")
}

func TestSign_certifies_nobody_beyond_the_authority(t *testing.T) {
	_, dir := opened(t)
	end := time.Now().Add(72 * time.Hour).Truncate(time.Second).UTC()
	replaceAuthority(t, dir, "ca", time.Now().Add(-time.Hour), end)
	store, err := pki.Open(dir)
	require.NoError(t, err)
	pair, err := store.Issue(store.Cluster, "short", pki.Subject{Name: "short"})
	require.NoError(t, err)
	until, err := pair.Expiry()
	require.NoError(t, err)
	require.Equal(t, end, until.UTC())

	pair, err = store.Issue(store.Etcd, "long", pki.Subject{Name: "long"})
	require.NoError(t, err)
	until, err = pair.Expiry()
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(2*365*24*time.Hour), until, time.Minute)
}

func TestIssue_renews_what_has_expired(t *testing.T) {
	store, dir := opened(t)
	pair, err := store.Issue(store.Cluster, "admin", pki.Subject{Name: "admin"})
	require.NoError(t, err)
	replaceAuthority(t, dir, "admin", time.Now().Add(-96*time.Hour), time.Now().Add(-48*time.Hour))
	until, err := pair.Expiry()
	require.NoError(t, err)
	require.True(t, until.Before(time.Now()))

	_, err = store.Issue(store.Cluster, "admin", pki.Subject{Name: "admin"})
	require.NoError(t, err)
	until, err = pair.Expiry()
	require.NoError(t, err)
	require.True(t, until.After(time.Now()))
	verify(t, store.Cluster, pair)
}

func TestExpiry_names_the_file(t *testing.T) {
	dir := t.TempDir()
	pair := pki.PairAt(dir, "leaf")
	_, err := pair.Expiry()
	require.EqualError(t, err, in(dir, "reading certificate: open DIR/leaf.crt: no such file or directory"))
	require.NoError(t, os.WriteFile(pair.Cert, []byte("x"), 0o600))
	_, err = pair.Expiry()
	require.EqualError(t, err, in(dir, "reading certificate DIR/leaf.crt: not a PEM certificate"))
}

func TestSign_writes_what_it_was_asked(t *testing.T) {
	store, _ := opened(t)
	client, both := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	for name, tc := range map[string]struct {
		subject pki.Subject
		usage   []x509.ExtKeyUsage
	}{
		"user":            {pki.Subject{Name: "user"}, client},
		"user of groups":  {pki.Subject{Name: "system:node:n", Groups: []string{"system:nodes", "other"}}, client},
		"server":          {pki.Subject{Name: "s", DNSNames: []string{"a", "b.example"}}, both},
		"server by IPs":   {pki.Subject{Name: "s", Addresses: []net.IP{net.IPv4(198, 18, 0, 1).To4(), net.IPv6loopback}}, both},
		"nobody":          {pki.Subject{}, client},
		"comma in a name": {pki.Subject{Name: "a,O=system:masters", Groups: []string{"g+CN=x"}}, client},
	} {
		t.Run(name, func(t *testing.T) {
			key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
			require.NoError(t, err)
			raw, err := store.Cluster.Sign(tc.subject, key.Public())
			require.NoError(t, err)
			cert := decode(t, raw)
			require.Equal(t, tc.subject.Name, cert.Subject.CommonName)
			require.ElementsMatch(t, tc.subject.Groups, cert.Subject.Organization)
			require.Equal(t, tc.subject.DNSNames, cert.DNSNames)
			require.Len(t, cert.IPAddresses, len(tc.subject.Addresses))
			for i, ip := range tc.subject.Addresses {
				require.True(t, ip.Equal(cert.IPAddresses[i]), ip)
			}
			require.Equal(t, tc.usage, cert.ExtKeyUsage)
			require.Equal(t, x509.KeyUsageDigitalSignature, cert.KeyUsage)
			require.True(t, key.PublicKey.Equal(cert.PublicKey))
			require.False(t, cert.IsCA)
			require.NoError(t, cert.CheckSignatureFrom(decode(t, store.Cluster.CertPEM())))
		})
	}
}

func TestSign_refuses_keys_it_does_not_know(t *testing.T) {
	store, _ := opened(t)
	_, err := store.Cluster.Sign(pki.Subject{Name: "n"}, "no key")
	require.ErrorContains(t, err, "signing certificate for n: x509: unsupported public key type")
	key, err := pki.OpenKey(filepath.Join(t.TempDir(), "k"))
	require.NoError(t, err)
	_, err = store.Cluster.Sign(pki.Subject{Name: "n", DNSNames: []string{"ü"}}, key.Public())
	require.ErrorContains(t, err, "signing certificate for n: ")
}

// A certificate of ours must be no authority to anybody.
func TestIssued_certificates_sign_nothing(t *testing.T) {
	store, _ := opened(t)
	pair, err := store.Issue(store.Cluster, "leaf", pki.Subject{Name: "leaf"})
	require.NoError(t, err)
	raw, err := os.ReadFile(pair.Cert)
	require.NoError(t, err)
	leaf := decode(t, raw)
	key, err := pki.OpenKey(pair.Key)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "localkube-admin", Organization: []string{"system:masters"}},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, leaf, key.Public(), key)
	require.NoError(t, err)
	forged, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	between := x509.NewCertPool()
	between.AddCert(leaf)
	_, err = forged.Verify(x509.VerifyOptions{
		Roots: store.Cluster.Pool(), Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	require.Error(t, err)
}

func TestSerials_are_never_used_twice(t *testing.T) {
	store, _ := opened(t)
	key, err := pki.OpenKey(filepath.Join(t.TempDir(), "k"))
	require.NoError(t, err)
	seen := map[string]bool{}
	for range 200 {
		raw, err := store.Cluster.Sign(pki.Subject{Name: "n"}, key.Public())
		require.NoError(t, err)
		serial := decode(t, raw).SerialNumber.String()
		require.False(t, seen[serial])
		seen[serial] = true
	}
}

func TestRead_writes_nothing(t *testing.T) {
	empty := t.TempDir()
	_, err := pki.Read(empty)
	require.EqualError(t, err, in(empty, "opening authority ca: open DIR/ca.crt: no such file or directory"))
	require.Empty(t, contents(t, empty))

	store, dir := opened(t)
	require.NoError(t, os.Remove(store.ServiceAccountPublicKey()))
	before := contents(t, dir)
	read, err := pki.Read(dir)
	require.NoError(t, err)
	require.Equal(t, store.Cluster.Fingerprint(), read.Cluster.Fingerprint())
	require.Equal(t, before, contents(t, dir))

	again, err := pki.Open(dir)
	require.NoError(t, err)
	require.FileExists(t, again.ServiceAccountPublicKey(), "who runs the server mends what follows from the key")
}
