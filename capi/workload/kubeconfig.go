package workload

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/rest"
)

// maxKubeconfig is the size of the largest kubeconfig that is parsed; the usual ones have some 6 KiB.
const maxKubeconfig = 64 << 10

// maxKubeconfigNodes is the number of YAML nodes of the largest kubeconfig that is read.
const maxKubeconfigNodes = 2000

// KubeconfigError says why a kubeconfig from a Secret is not used. It repeats nothing that stands in the kubeconfig but names
// of fields, for it is shown to who may read Clusters and not Secrets.
type KubeconfigError struct {
	// Field is where the kubeconfig is refused, such as users[].user.tokenFile.
	Field string
	// Problem is what is wrong there, and what to do.
	Problem string
}

// Error implements error.
func (e *KubeconfigError) Error() string { return e.Field + ": " + e.Problem }

// The fields that a kubeconfig may have, and how each is carried over. Everything else that means something to client-go names a
// file, a command or an address of the manager's: k8s.io/client-go/tools/clientcmd/api/v1, types Cluster and AuthInfo.
type (
	kubeconfigCluster struct {
		Server        string
		CA            []byte
		TLSServerName string
		Insecure      bool
	}
	kubeconfigUser struct {
		Token, Username, Password string
		Certificate, Key          []byte
	}
)

// refusedFields are those of client-go that are not let through, with what to do instead.
var refusedFields = map[string]string{
	"certificate-authority": "names a file of the manager's: put the content into certificate-authority-data",
	"proxy-url":             "is not used for clusters of users: remove it",
	"client-certificate":    "names a file of the manager's: put the content into client-certificate-data",
	"client-key":            "names a file of the manager's: put the content into client-key-data",
	"tokenFile":             "names a file of the manager's: put the token itself into token",
	"exec":                  "names a command: put a token or a client certificate there instead",
	"auth-provider":         "is not supported: put a token or a client certificate there instead",
	"as":                    "impersonation is not supported: give a credential of the user himself",
	"as-uid":                "impersonation is not supported: give a credential of the user himself",
	"as-groups":             "impersonation is not supported: give a credential of the user himself",
	"as-user-extra":         "impersonation is not supported: give a credential of the user himself",
}

// ParseKubeconfig makes a configuration from a kubeconfig that a user wrote. It holds what the current context names inline and
// nothing else: no path, command, proxy or impersonated user gets to client-go.
func ParseKubeconfig(content []byte) (*rest.Config, error) {
	if len(content) == 0 {
		return nil, &KubeconfigError{"data.value", "is empty: write the kubeconfig there"}
	}
	if len(content) > maxKubeconfig {
		return nil, &KubeconfigError{"data.value", fmt.Sprintf("has more than %d KiB: keep one cluster, one user and one context", maxKubeconfig>>10)}
	}
	document, err := parsePlainYAML(content)
	if err != nil {
		return nil, &KubeconfigError{"data.value", err.Error()}
	}
	context, err := namedEntry(document, "contexts", "context", text(document["current-context"]))
	if err != nil {
		return nil, err
	}
	clusterFields, err := namedEntry(document, "clusters", "cluster", text(context["cluster"]))
	if err != nil {
		return nil, err
	}
	cluster, err := readCluster(clusterFields)
	if err != nil {
		return nil, err
	}
	userFields, err := namedEntry(document, "users", "user", text(context["user"]))
	if err != nil {
		return nil, err
	}
	user, err := readUser(userFields)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: cluster.Server, BearerToken: user.Token, Username: user.Username, Password: user.Password,
		TLSClientConfig: rest.TLSClientConfig{Insecure: cluster.Insecure, ServerName: cluster.TLSServerName, CAData: cluster.CA,
			CertData: user.Certificate, KeyData: user.Key},
	}, nil
}

func readCluster(fields map[string]any) (kubeconfigCluster, error) {
	const at = "clusters[].cluster."
	if err := refuseFields(at, fields); err != nil {
		return kubeconfigCluster{}, err
	}
	ca, err := inline(at, fields, "certificate-authority-data")
	if err != nil {
		return kubeconfigCluster{}, err
	}
	if err := CheckCertificates(ca); err != nil {
		return kubeconfigCluster{}, &KubeconfigError{at + "certificate-authority-data", err.Error()}
	}
	c := kubeconfigCluster{Server: text(fields["server"]), CA: ca, TLSServerName: text(fields["tls-server-name"]), Insecure: fields["insecure-skip-tls-verify"] == true}
	target, err := url.Parse(c.Server)
	if err != nil || target.Scheme != "https" || target.Hostname() == "" || target.User != nil || target.RawQuery != "" || target.Fragment != "" {
		return c, &KubeconfigError{at + "server", "is no address of the form https://host:port"}
	}
	c.Server = target.String() // as it was understood here
	if c.Insecure && len(c.CA) > 0 {
		return c, &KubeconfigError{at + "insecure-skip-tls-verify", "contradicts certificate-authority-data: remove one of them"}
	}
	return c, nil
}

func readUser(fields map[string]any) (kubeconfigUser, error) {
	const at = "users[].user."
	if err := refuseFields(at, fields); err != nil {
		return kubeconfigUser{}, err
	}
	u := kubeconfigUser{Token: text(fields["token"]), Username: text(fields["username"]), Password: text(fields["password"])}
	var err error
	if u.Certificate, err = inline(at, fields, "client-certificate-data"); err != nil {
		return u, err
	}
	if u.Key, err = inline(at, fields, "client-key-data"); err != nil {
		return u, err
	}
	if err := CheckCertificates(u.Certificate); err != nil {
		return u, &KubeconfigError{at + "client-certificate-data", err.Error()}
	}
	if err := CheckKey(u.Key); err != nil {
		return u, &KubeconfigError{at + "client-key-data", err.Error()}
	}
	if (len(u.Certificate) == 0) != (len(u.Key) == 0) {
		return u, &KubeconfigError{at + "client-key-data", "goes together with client-certificate-data: give both or none"}
	}
	if u.Token != "" && u.Username != "" {
		return u, &KubeconfigError{at + "username", "contradicts token: remove one of them"}
	}
	return u, nil
}

// refuseFields names the first field, in the order of the alphabet, that must not be there. client-go reads names of fields in
// upper and lower case alike, and so they are compared.
func refuseFields(at string, fields map[string]any) error {
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for refused, problem := range refusedFields {
			if strings.EqualFold(name, refused) && !isZero(fields[name]) {
				return &KubeconfigError{at + refused, problem}
			}
		}
	}
	return nil
}

// isZero reports whether a field says nothing, as tools write it that print every field.
func isZero(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// namedEntry finds the entry of a name in one of the three lists.
func namedEntry(document map[string]any, list, key, name string) (map[string]any, error) {
	entries, _ := document[list].([]any)
	var found map[string]any
	for _, entry := range entries {
		fields, _ := entry.(map[string]any)
		if text(fields["name"]) != name {
			continue
		}
		if found != nil {
			// client-go would take the last.
			return nil, &KubeconfigError{list + "[].name", "stands there twice with the name that is used: keep one"}
		}
		found, _ = fields[key].(map[string]any)
	}
	switch {
	case found != nil:
		return found, nil
	case list == "contexts":
		return nil, &KubeconfigError{"current-context", "names none of the contexts"}
	}
	return nil, &KubeconfigError{"contexts[].context." + key, "names none of the " + list}
}

// inline reads a field of base64; nil when it is not there.
func inline(at string, fields map[string]any, name string) ([]byte, error) {
	if text(fields[name]) == "" {
		return nil, nil
	}
	data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text(fields[name])), ""))
	if err != nil {
		return nil, &KubeconfigError{at + name, "is not base64"}
	}
	return data, nil
}

func text(value any) string {
	s, _ := value.(string)
	return s
}

// parsePlainYAML reads one bounded document. Aliases are refused before anything is expanded: four kilobytes of them can mean
// gigabytes.
func parsePlainYAML(content []byte) (map[string]any, error) {
	var root yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(content)).Decode(&root); err != nil {
		return nil, errors.New("is not a kubeconfig: its YAML cannot be read")
	}
	if nodes := CountNodes(&root, maxKubeconfigNodes); nodes > maxKubeconfigNodes {
		return nil, errors.New("has YAML aliases or too many fields: keep one cluster, one user and one context, written out")
	}
	var document map[string]any
	if err := root.Decode(&document); err != nil {
		return nil, errors.New("is not a kubeconfig: it has no fields")
	}
	return document, nil
}

// CountNodes counts until it is more than most; an alias is more than any number.
func CountNodes(node *yaml.Node, most int) int {
	if node.Kind == yaml.AliasNode || node.Anchor != "" {
		return most + 1
	}
	count := 1
	for _, child := range node.Content {
		if count += CountNodes(child, most); count > most {
			break
		}
	}
	return count
}

// What a user's key or certificate makes our process compute. A signature with a key of eight primes and 16,384 bits takes ten seconds, which no
// deadline ends, and so does only reading it.
const (
	// maxKeyBits bounds RSA keys that we sign with, maxKeySize their encoding, maxAuthorityBits RSA keys that we check signatures with.
	maxKeyBits, maxKeySize, maxAuthorityBits = 4096, 3 << 10, 8192
	// maxBlocks bounds what stands in a key's field (an EC key has its parameters beside it), maxCertificates certificates in one field.
	maxBlocks, maxCertificates = 4, 50
)

// CheckKey refuses a private key in PEM that costs more than the usual ones. What is no key is for who uses it to refuse.
func CheckKey(content []byte) error {
	const advice = "use ECDSA, or RSA of at most 4096 bits with two primes"
	count := 0
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if count++; count > maxBlocks {
			return errors.New("has more than 4 blocks of PEM: keep the key that is needed")
		}
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			continue
		}
		if len(block.Bytes) > maxKeySize {
			return errors.New("is too large a key: " + advice)
		}
		if key := rsaKey(block.Bytes); key != nil && (key.N.BitLen() > maxKeyBits || len(key.Primes) != 2) {
			return errors.New("is too large a key: " + advice)
		}
	}
	return nil
}

func rsaKey(der []byte) *rsa.PrivateKey {
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil
	}
	found, _ := key.(*rsa.PrivateKey)
	return found
}

// CheckCertificates refuses certificates in PEM that cost more than the usual ones to check others with.
func CheckCertificates(content []byte) error {
	count := 0
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if count++; count > maxCertificates {
			return errors.New("has more than 50 certificates: keep the ones that are needed")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		switch key := cert.PublicKey.(type) {
		case *rsa.PublicKey:
			if key.N.BitLen() > maxAuthorityBits {
				return errors.New("has a certificate with too large a key: use ECDSA, or RSA of at most 8192 bits")
			}
		case *ecdsa.PublicKey, ed25519.PublicKey:
		default:
			return errors.New("has a certificate with another key than RSA, ECDSA or Ed25519")
		}
	}
	return nil
}
