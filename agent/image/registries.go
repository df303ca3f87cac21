package image

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/agent"
	"github.com/drover-project/drover/api/plan"
)

const maxRegistriesBytes = 1 << 20

// readRegistries reads the first file that exists. Without a file the configuration is empty.
func readRegistries(files []string) (plan.Registries, error) {
	for _, path := range files {
		content, err := agent.ReadBounded(path, maxRegistriesBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return plan.Registries{}, fmt.Errorf("reading registries: %w", err)
		}
		r, err := parseRegistries(content)
		if err != nil {
			return plan.Registries{}, fmt.Errorf("reading %s: %w", path, err)
		}
		return r, nil
	}
	return plan.Registries{}, nil
}

func parseRegistries(content []byte) (plan.Registries, error) {
	var r plan.Registries
	if err := yaml.Unmarshal(content, &r); err != nil {
		return r, errors.New("it is not YAML of the form of a registries.yaml") // the parser's own error would quote it
	}
	return r, plan.CheckMirrors(r.Mirrors)
}

// source is one place to pull an image from.
type source struct {
	ref name.Reference
	// plain says that the registry is spoken to without TLS, because its address says so.
	plain  bool
	config plan.RegistryConfig
}

// sources are the places of an image in the order of their use: the mirrors of its registry, or
// else the mirrors of all registries, then the registry itself.
func sources(r plan.Registries, image string) ([]source, error) {
	ref, err := name.ParseReference(image)
	if err != nil {
		return nil, fmt.Errorf("parsing image name: %w", err)
	}
	registry := ref.Context().RegistryStr()
	var all []source
	mirror := of(r.Mirrors, registry)
	for _, endpoint := range mirror.Endpoints {
		s, err := mirrored(r, ref, endpoint, mirror.Rewrites)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return append(all, source{ref: ref, config: of(r.Configs, registry)}), nil
}

// of returns the entry of a registry, or else the entry of all registries.
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

// mirrored is an image at a mirror. A path of the mirror's address comes before the repository's
// name, as containerd has it.
func mirrored(r plan.Registries, ref name.Reference, endpoint string, rewrites map[string]string) (source, error) {
	u, err := plan.ParseEndpoint(endpoint)
	if err != nil {
		return source{}, fmt.Errorf("parsing a mirror's address: %w", err)
	}
	repository := ref.Context().RepositoryStr()
	for _, pattern := range slices.Sorted(maps.Keys(rewrites)) {
		// parseRegistries has checked the pattern and its size.
		if expression, err := regexp.Compile(pattern); err == nil && expression.MatchString(repository) {
			repository = expression.ReplaceAllString(repository, rewrites[pattern])
			break
		}
	}
	path := strings.Trim(strings.TrimPrefix(strings.Trim(u.Path, "/"), "v2"), "/")
	repository = strings.TrimPrefix(path+"/"+repository, "/")
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

func authenticator(auth *plan.RegistryAuth) (authn.Authenticator, error) {
	if auth == nil {
		return authn.Anonymous, nil
	}
	config := authn.AuthConfig{Username: auth.Username, Password: auth.Password, IdentityToken: auth.IdentityToken}
	if auth.Auth != "" {
		pair, err := base64.StdEncoding.DecodeString(auth.Auth)
		user, password, ok := strings.Cut(string(pair), ":")
		if err != nil || !ok {
			return nil, errors.New("the registry's auth is not user:password in base64")
		}
		config.Username, config.Password = user, strings.TrimRight(password, "\x00")
	}
	return authn.FromConfig(config), nil
}
