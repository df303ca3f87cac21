package authorities

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	"sigs.k8s.io/cluster-api/util/secret"

	"github.com/drover-project/drover/api/keys"
	"github.com/drover-project/drover/planner"
)

// Purposes of a cluster's Secrets, which are named <cluster>-<purpose>. Purposes that Cluster API
// knows have its names; the client authority has the name that Cluster API's providers for k3s and
// RKE2 use.
const (
	Server         = secret.ClusterCA
	Client         = secret.Purpose("cca")
	Proxy          = secret.FrontProxyCA
	EtcdServer     = secret.EtcdCA
	EtcdPeer       = secret.Purpose("etcd-peer")
	ServiceAccount = secret.ServiceAccount
)

// Purposes lists all purposes.
var Purposes = []secret.Purpose{Server, Client, Proxy, EtcdServer, EtcdPeer, ServiceAccount}

// Put adds the content of a Secret to a cluster's authorities.
func Put(into *planner.Authorities, purpose secret.Purpose, data map[string][]byte) {
	pair := planner.KeyPair{Certificate: data[secret.TLSCrtDataName], Key: data[secret.TLSKeyDataName]}
	switch purpose {
	case Server:
		into.Server = pair
	case Client:
		into.Client = pair
	case Proxy:
		into.Proxy = pair
	case EtcdServer:
		into.EtcdServer = pair
	case EtcdPeer:
		into.EtcdPeer = pair
	case ServiceAccount:
		into.ServiceAccountKey = pair.Key
	case secret.Kubeconfig, secret.APIServerEtcdClient: // no authorities
	}
}

const (
	// lifetime of an authority; nothing renews it.
	lifetime = 10 * 365 * 24 * time.Hour
	// skew is the tolerance for a server's clock that is behind.
	skew = time.Hour
	// serviceAccountBits is the size of the RSA key that signs tokens: every verifier supports
	// tokens of RSA keys.
	serviceAccountBits = 2048
	// maxCertificate is the largest certificate file that fits into a kubeconfig. The manager
	// rejects a kubeconfig above 64 KiB.
	maxCertificate = 44 << 10
)

// New makes the content of a Secret.
func New(cluster string, purpose secret.Purpose, now time.Time) (map[string][]byte, error) {
	if purpose == ServiceAccount {
		key, err := rsa.GenerateKey(rand.Reader, serviceAccountBits)
		if err != nil {
			return nil, fmt.Errorf("making a key: %w", err)
		}
		public, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil {
			return nil, fmt.Errorf("encoding a key: %w", err)
		}
		return map[string][]byte{
			secret.TLSCrtDataName: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
			secret.TLSKeyDataName: pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
		}, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: cluster + "-" + string(purpose)}, NotAfter: now.Add(lifetime), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign}
	pair, err := sign(template, template, key, key, now)
	return map[string][]byte{secret.TLSCrtDataName: pair.Certificate, secret.TLSKeyDataName: pair.Key}, err
}

// sign makes a certificate for key, signed by the parent's key, and encodes both.
func sign(template, parent *x509.Certificate, key *ecdsa.PrivateKey, by crypto.Signer, now time.Time) (planner.KeyPair, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return planner.KeyPair{}, fmt.Errorf("making a serial number: %w", err)
	}
	template.SerialNumber, template.NotBefore = serial, now.Add(-skew)
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		return planner.KeyPair{}, fmt.Errorf("signing a certificate: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return planner.KeyPair{}, fmt.Errorf("encoding a key: %w", err)
	}
	return planner.KeyPair{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}),
		Key: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})}, nil
}

// Check returns why a Secret, which may be the user's, cannot be used. The error repeats nothing of
// the Secret's content.
func Check(purpose secret.Purpose, data map[string][]byte, now time.Time) error {
	key, err := parseKey(data[secret.TLSKeyDataName])
	if err != nil {
		return fmt.Errorf("its %s %w", secret.TLSKeyDataName, err)
	}
	if purpose == ServiceAccount {
		return nil
	}
	if size := len(data[secret.TLSCrtDataName]); size > maxCertificate {
		return fmt.Errorf("its %s has %d bytes (limit %d in a kubeconfig): keep only the authority and the authorities that signed it", secret.TLSCrtDataName, size, maxCertificate)
	}
	certificate, err := parseCertificate(data[secret.TLSCrtDataName])
	if err != nil {
		return fmt.Errorf("its %s %w", secret.TLSCrtDataName, err)
	}
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	switch {
	case !ok || !public.Equal(certificate.PublicKey):
		return fmt.Errorf("its %s is not the key of the first certificate in %s", secret.TLSKeyDataName, secret.TLSCrtDataName)
	case !certificate.IsCA:
		return fmt.Errorf("its %s begins with a certificate that is not an authority (CA:TRUE is missing)", secret.TLSCrtDataName)
	case now.After(certificate.NotAfter):
		return fmt.Errorf("its %s expired at %s", secret.TLSCrtDataName, certificate.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

func parseCertificate(text []byte) (*x509.Certificate, error) {
	if err := keys.CheckCertificates(text); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("is not a certificate in PEM")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, errors.New("is not a readable certificate in PEM")
	}
	return certificate, nil
}

// parseKey reads the first private key; an EC key may have its parameters before it.
func parseKey(text []byte) (crypto.Signer, error) {
	if err := keys.CheckKey(text); err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
			return key, nil
		}
		if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
			return key, nil
		}
		if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if signer, ok := key.(crypto.Signer); ok {
				return signer, nil
			}
		}
	}
	return nil, errors.New("is not a readable private key in PEM")
}
