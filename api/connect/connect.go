package connect

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Path of the endpoint that agents register at, with POST.
const Path = "/v3/connect/agent"

// SignatureHeader carries the result of Sign for the body.
const SignatureHeader = "Drover-Signature"

// Bounds of the documents, and of the time by which the clocks may differ.
const (
	MaxRequestBytes = 16 << 10
	MaxAnswerBytes  = 512 << 10
	MaxSkew         = 10 * time.Minute
)

// domain keeps a signature of ours from being one of anything else.
const domain = "drover agent connect v1\n"

// Request is the request of an agent. Only PublicKey and Time are always set.
type Request struct {
	// PublicKey is the agent's ed25519 public key.
	PublicKey []byte `json:"publicKey"`
	// Time is the agent's clock. If it differs by more than MaxSkew from the endpoint's, the
	// endpoint answers 409 with its Date, and the agent retries with that time. A server with a
	// wrong clock can register, and a recorded request is valid only briefly.
	Time time.Time `json:"time"`
	// Nonce makes every request another.
	Nonce []byte `json:"nonce"`
	// Namespace and SecretName are of the plan Secret that an earlier Answer named; empty before.
	Namespace  string `json:"namespace,omitempty"`
	SecretName string `json:"secretName,omitempty"`
	// Hostname, Platform and Version are for people.
	Hostname string `json:"hostname,omitempty"`
	Platform string `json:"platform,omitempty"`
	Version  string `json:"version,omitempty"`
	// CloudServer is the server as its cloud names it: cloud-init's name of the cloud and the
	// server's ID there, such as vultr/cb676a46-66fd-4dfb-b839-443f2e6c0b60. It is empty where
	// cloud-init does not know.
	CloudServer string `json:"cloudServer,omitempty"`
}

var cloudServer = regexp.MustCompile(`^[a-z0-9-]{1,32}/[A-Za-z0-9_.-]{1,64}$`)

// IsCloudServer reports whether a text can be a Request's CloudServer.
func IsCloudServer(text string) bool { return cloudServer.MatchString(text) }

// Answer is the access an agent gets.
type Answer struct {
	// KubeConfig is a kubeconfig to the endpoint, with its certificates and a token that reads and
	// writes the plan Secret.
	KubeConfig string `json:"kubeConfig"`
	Namespace  string `json:"namespace"`
	SecretName string `json:"secretName"`
	// IssuedAt and ExpiresAt are the token's lifetime by the endpoint's clock; the agent renews it
	// at half of it. If both are unset, the token does not expire.
	IssuedAt  *time.Time `json:"issuedAt,omitempty"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	// Ticket goes back in TicketHeader with the next request.
	Ticket string `json:"ticket,omitempty"`
}

// DecodeRequest reads a request and verifies that its sender has the key. The endpoint then knows
// the key and the agent's clock. The names of a request are names that the API server allows, or
// empty. Errors are short and do not quote the request, because the endpoint logs them.
func DecodeRequest(body []byte, signature string) (Request, error) {
	if len(body) > MaxRequestBytes {
		return Request{}, fmt.Errorf("decoding a request of %d bytes: the limit is %d", len(body), MaxRequestBytes)
	}
	var r Request
	if json.Unmarshal(body, &r) != nil {
		return Request{}, errors.New("decoding a request: invalid JSON, or a field of another type")
	}
	if len(r.PublicKey) != ed25519.PublicKeySize {
		return Request{}, errors.New("decoding a request: publicKey is not an ed25519 key")
	}
	raw, err := base64.StdEncoding.DecodeString(signature)
	if err != nil || !ed25519.Verify(r.PublicKey, append([]byte(domain), body...), raw) {
		return Request{}, errors.New("decoding a request: the signature does not match publicKey")
	}
	if r.Namespace != "" && !validNamespace(r.Namespace) {
		return Request{}, errors.New("decoding a request: namespace is not a valid name of a namespace")
	}
	if r.SecretName != "" && !validSecretName(r.SecretName) {
		return Request{}, errors.New("decoding a request: secretName is not a valid name of a Secret")
	}
	return r, nil
}

// Requests and tokens have the same names: a name with other characters would be part of a path of
// the API server.
func validNamespace(name string) bool  { return len(validation.IsDNS1123Label(name)) == 0 }
func validSecretName(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }

// Sign makes the value of SignatureHeader.
func Sign(key ed25519.PrivateKey, body []byte) string {
	return base64.StdEncoding.EncodeToString(ed25519.Sign(key, append([]byte(domain), body...)))
}

// DecodeAnswer reads an answer, or the file of one.
func DecodeAnswer(body []byte) (Answer, error) {
	var a Answer
	if len(body) > MaxAnswerBytes {
		return a, fmt.Errorf("decoding an answer of %d bytes: at most %d are read", len(body), MaxAnswerBytes)
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return Answer{}, fmt.Errorf("decoding an answer: %w", err)
	}
	if a.KubeConfig == "" || a.Namespace == "" || a.SecretName == "" {
		return Answer{}, errors.New("decoding an answer: it names no kubeConfig, namespace or secretName")
	}
	return a, nil
}
