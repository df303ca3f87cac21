package image

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"maps"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"sigs.k8s.io/yaml"
)

// Registries is a registries.yaml: docs.k3s.io/installation/private-registry.
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
	Auth *Auth `json:"auth,omitempty"`
	TLS  *TLS  `json:"tls,omitempty"`
}

// Auth is a credential.
type Auth struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	Auth          string `json:"auth,omitempty"`
	IdentityToken string `json:"identity_token,omitempty"`
}

// TLS names files of the server.
type TLS struct {
	CAFile             string `json:"ca_file,omitempty"`
	CertFile           string `json:"cert_file,omitempty"`
	KeyFile            string `json:"key_file,omitempty"`
	InsecureSkipVerify bool   `json:"insecure_skip_verify,omitempty"`
}

const maxRegistriesBytes = 1 << 20

// readRegistries reads the first of the files that is there; none is no configuration.
func readRegistries(files []string) (Registries, error) {
	for _, path := range files {
		file, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Registries{}, fmt.Errorf("reading registries: %w", err)
		}
		content, err := io.ReadAll(io.LimitReader(file, maxRegistriesBytes+1))
		if err = errors.Join(err, file.Close()); err != nil {
			return Registries{}, fmt.Errorf("reading %s: %w", path, err)
		}
		r, err := parseRegistries(content)
		if err != nil {
			return Registries{}, fmt.Errorf("reading %s: %w", path, err)
		}
		return r, nil
	}
	return Registries{}, nil
}

func parseRegistries(content []byte) (Registries, error) {
	var r Registries
	if len(content) > maxRegistriesBytes {
		return r, fmt.Errorf("it is larger than %d bytes", maxRegistriesBytes)
	}
	if err := yaml.Unmarshal(content, &r); err != nil {
		return r, errors.New("it is not YAML of the form of a registries.yaml") // the parser's own error would quote it
	}
	for host, mirror := range r.Mirrors {
		for _, endpoint := range mirror.Endpoints {
			if u, err := parseEndpoint(endpoint); err != nil || u.Host == "" {
				return r, fmt.Errorf("an endpoint of mirror %.200q is no address", host)
			}
		}
		for pattern := range mirror.Rewrites {
			if _, err := regexp.Compile(pattern); err != nil {
				return r, fmt.Errorf("a rewrite of mirror %.200q is no regular expression", host)
			}
		}
	}
	return r, nil
}

func parseEndpoint(endpoint string) (*url.URL, error) {
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	u, err := url.Parse(endpoint)
	if err == nil && u.Scheme != "https" && u.Scheme != "http" {
		err = errors.New("it is neither http nor https")
	}
	return u, err
}

// source is one place to pull an image from.
type source struct {
	ref name.Reference
	// plain says that the registry is spoken to without TLS, because its address says so.
	plain  bool
	config RegistryConfig
}

// sources are the places an image may come from, in their order: the mirrors of its registry, or else those of all, then the registry itself.
func (r Registries) sources(image string) ([]source, error) {
	ref, err := name.ParseReference(image)
	if err != nil {
		return nil, fmt.Errorf("parsing image name: %w", err)
	}
	registry := ref.Context().RegistryStr()
	var all []source
	mirror := of(r.Mirrors, registry)
	for _, endpoint := range mirror.Endpoints {
		s, err := r.mirrored(ref, endpoint, mirror.Rewrites)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return append(all, source{ref: ref, config: of(r.Configs, registry)}), nil
}

// of finds what is said of a registry, or else of all.
func of[V any](all map[string]V, registry string) V {
	names := []string{registry}
	if registry == name.DefaultRegistry {
		names = append(names, "docker.io", "registry-1.docker.io")
	}
	for _, key := range names {
		if found, ok := all[key]; ok {
			return found
		}
	}
	return all["*"]
}

// mirrored is an image at a mirror. A path of the mirror's address comes before the repository's name, as containerd has it.
func (r Registries) mirrored(ref name.Reference, endpoint string, rewrites map[string]string) (source, error) {
	u, err := parseEndpoint(endpoint)
	if err != nil {
		return source{}, fmt.Errorf("parsing a mirror's address: %w", err)
	}
	repository := ref.Context().RepositoryStr()
	for _, pattern := range slices.Sorted(maps.Keys(rewrites)) {
		if expression, err := regexp.Compile(pattern); err == nil && expression.MatchString(repository) {
			repository = expression.ReplaceAllString(repository, rewrites[pattern])
			break
		}
	}
	path := strings.Trim(strings.TrimPrefix(strings.Trim(u.Path, "/"), "v2"), "/")
	if path != "" {
		repository = path + "/" + repository
	}
	options, plain := []name.Option{name.StrictValidation}, u.Scheme == "http"
	if plain {
		options = append(options, name.Insecure)
	}
	separator := ":"
	if _, ok := ref.(name.Digest); ok {
		separator = "@"
	}
	at, err := name.ParseReference(u.Host+"/"+repository+separator+ref.Identifier(), options...)
	if err != nil {
		return source{}, fmt.Errorf("naming the image at a mirror: %w", err)
	}
	return source{ref: at, plain: plain, config: of(r.Configs, u.Host)}, nil
}

func (c RegistryConfig) authenticator() (authn.Authenticator, error) {
	if c.Auth == nil {
		return authn.Anonymous, nil
	}
	config := authn.AuthConfig{Username: c.Auth.Username, Password: c.Auth.Password, IdentityToken: c.Auth.IdentityToken}
	if c.Auth.Auth != "" {
		pair, err := base64.StdEncoding.DecodeString(c.Auth.Auth)
		user, password, ok := strings.Cut(string(pair), ":")
		if err != nil || !ok {
			return nil, errors.New("the registry's auth is not user:password in base64")
		}
		config.Username, config.Password = user, strings.TrimRight(password, "\x00")
	}
	return authn.FromConfig(config), nil
}

func (c RegistryConfig) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLS == nil {
		return config, nil
	}
	config.InsecureSkipVerify = c.TLS.InsecureSkipVerify // the user says so of this registry
	if c.TLS.CAFile != "" {
		pem, err := os.ReadFile(c.TLS.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading the registry's CA: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("reading the registry's CA: there is no certificate in %s", c.TLS.CAFile)
		}
	}
	if c.TLS.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.TLS.CertFile, c.TLS.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("reading the registry's client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
