// Package registries converts k3s' registries.yaml to containerd's configuration: a hosts.toml for
// each registry, and credentials.
package registries

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// File is registries.yaml (k3s documentation, "Private Registry Configuration").
type File struct {
	Mirrors map[string]struct {
		Endpoints []string          `json:"endpoint"`
		Rewrites  map[string]string `json:"rewrite"`
	} `json:"mirrors"`
	Configs map[string]Config `json:"configs"`
}

// Config is how a registry is spoken to.
type Config struct {
	Auth *Auth `json:"auth"`
	TLS  TLS   `json:"tls"`
}

// Auth is a credential.
type Auth struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identity_token"`
}

// TLS has paths of files.
type TLS struct {
	CA         string `json:"ca_file"`
	Cert       string `json:"cert_file"`
	Key        string `json:"key_file"`
	SkipVerify bool   `json:"insecure_skip_verify"`
}

// Read reads a file, which need not be there.
func Read(file string) (*File, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return &File{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading registries: %w", err)
	}
	f := &File{}
	if err := yaml.UnmarshalStrict(raw, f); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	for _, name := range f.names() {
		if strings.ContainsAny(name, "/\\") || strings.HasPrefix(name, ".") {
			return nil, fmt.Errorf("reading %s: %q is not a valid registry name", file, name)
		}
		if len(f.Mirrors[name].Rewrites) > 0 {
			return nil, fmt.Errorf("reading %s: the mirror of %s has a rewrite, which only the containerd of k3s knows", file, name)
		}
		for _, endpoint := range f.Mirrors[name].Endpoints {
			if at, err := url.Parse(endpoint); err != nil || at.Host == "" {
				return nil, fmt.Errorf("reading %s: the mirror of %s: %q is no URL", file, name, endpoint)
			}
		}
	}
	return f, nil
}

// names are the registries that there is something to say of.
func (f *File) names() []string {
	return slices.Compact(slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(f.Mirrors)), slices.Collect(maps.Keys(f.Configs))...))))
}

// Hosts are the contents of hosts.toml by the name of its folder (containerd 1.6, docs/hosts.md).
func (f *File) Hosts() map[string]string {
	all := map[string]string{}
	for _, name := range f.names() {
		folder, upstream := name, "https://"+name
		switch name {
		case "*":
			folder, upstream = "_default", ""
		case "docker.io":
			upstream = "https://registry-1.docker.io"
		}
		var text strings.Builder
		endpoints := f.Mirrors[name].Endpoints
		if upstream != "" {
			fmt.Fprintf(&text, "server = %q\n", upstream)
			if !slices.Contains(endpoints, upstream) {
				endpoints = append(slices.Clone(endpoints), upstream)
			}
		}
		for _, endpoint := range endpoints {
			f.host(&text, endpoint)
		}
		all[folder] = text.String()
	}
	return all
}

func (f *File) host(text *strings.Builder, endpoint string) {
	at, err := url.Parse(endpoint)
	if err != nil {
		return // Read has looked
	}
	fmt.Fprintf(text, "\n[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", strings.TrimSuffix(endpoint, "/"))
	if path.Clean("/"+at.Path) != "/" {
		text.WriteString("  override_path = true\n")
	}
	tls := f.Configs[at.Host].TLS
	if tls.CA != "" {
		fmt.Fprintf(text, "  ca = [%q]\n", tls.CA)
	}
	if tls.Cert != "" && tls.Key != "" {
		fmt.Fprintf(text, "  client = [[%q, %q]]\n", tls.Cert, tls.Key)
	}
	if tls.SkipVerify {
		text.WriteString("  skip_verify = true\n")
	}
}

// Credentials are the credentials for containerd's own configuration.
func (f *File) Credentials() string {
	var text strings.Builder
	for _, host := range f.names() {
		auth := f.Configs[host].Auth
		if auth == nil {
			continue
		}
		fmt.Fprintf(&text, "\n[plugins.\"io.containerd.grpc.v1.cri\".registry.configs.%q.auth]\n", host)
		for _, said := range [][2]string{{"username", auth.Username}, {"password", auth.Password}, {"auth", auth.Auth}, {"identitytoken", auth.IdentityToken}} {
			if said[1] != "" {
				fmt.Fprintf(&text, "  %s = %s\n", said[0], strconv.Quote(said[1]))
			}
		}
	}
	return text.String()
}
