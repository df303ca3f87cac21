package plan

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/drover-project/drover/api/pattern"
)

// Registries is a registries.yaml, which a planner writes and the distribution and the agent read
// (k3s documentation, "Private Registry Configuration"; RKE2's is the same).
type Registries struct {
	Mirrors map[string]Mirror         `json:"mirrors,omitempty"`
	Configs map[string]RegistryConfig `json:"configs,omitempty"`
}

// Mirror is where the images of a registry, or of all with the key *, are looked for first.
type Mirror struct {
	Endpoints []string          `json:"endpoint,omitempty"`
	Rewrites  map[string]string `json:"rewrite,omitempty"`
}

// RegistryConfig is how a registry or mirror is spoken to.
type RegistryConfig struct {
	Auth *RegistryAuth `json:"auth,omitempty"`
	TLS  *RegistryTLS  `json:"tls,omitempty"`
}

// RegistryAuth is a credential.
type RegistryAuth struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	Auth          string `json:"auth,omitempty"`
	IdentityToken string `json:"identity_token,omitempty"`
}

// RegistryTLS names files of the server.
type RegistryTLS struct {
	CAFile             string `json:"ca_file,omitempty"`
	CertFile           string `json:"cert_file,omitempty"`
	KeyFile            string `json:"key_file,omitempty"`
	InsecureSkipVerify bool   `json:"insecure_skip_verify,omitempty"`
}

// ParseEndpoint reads the address of a mirror, which is one of https where it does not say.
func ParseEndpoint(endpoint string) (*url.URL, error) {
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("it is not an http or https address")
	}
	return u, nil
}

const (
	// maxRewriteBytes and maxRewriteInstructions bound all patterns of the mirrors together.
	maxRewriteBytes        = 4096
	maxRewriteInstructions = 20_000
)

// CheckMirrors returns an error that names the first endpoint that is not an address, or the first
// pattern of a rewrite that is not valid or costs too much. It compiles nothing.
func CheckMirrors(mirrors map[string]Mirror) error {
	bytes, instructions := 0, 0
	for _, registry := range slices.Sorted(maps.Keys(mirrors)) {
		for i, endpoint := range mirrors[registry].Endpoints {
			if _, err := ParseEndpoint(endpoint); err != nil {
				return fmt.Errorf("mirrors[%.100q].endpoint[%d] is not an address such as https://mirror.example.com:5000", registry, i)
			}
		}
		for _, text := range slices.Sorted(maps.Keys(mirrors[registry].Rewrites)) {
			size, err := pattern.Check(text)
			if err != nil {
				return fmt.Errorf("mirrors[%.100q].rewrite: the pattern %.100q %w", registry, text, err)
			}
			bytes += len(text)
			instructions += size
			if bytes > maxRewriteBytes || instructions > maxRewriteInstructions {
				return fmt.Errorf("mirrors: the patterns of all rewrites together are too large (limits: %d bytes, %d instructions when they are compiled)",
					maxRewriteBytes, maxRewriteInstructions)
			}
		}
	}
	return nil
}
