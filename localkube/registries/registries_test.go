package registries

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func read(t *testing.T, content string) (*File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "registries.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return Read(path)
}

func TestHosts(t *testing.T) {
	for name, tt := range map[string]struct {
		content     string
		hosts       map[string]string
		credentials string
	}{
		"nothing": {"{}", map[string]string{}, ""},
		"a mirror of Docker Hub with an authority and a credential": {`{
  "mirrors": {"docker.io": {"endpoint": ["https://mirror.example.com"]}},
  "configs": {"mirror.example.com": {"auth": {"username": "u", "password": "p\"w"}, "tls": {"ca_file": "/ca.crt"}}}
}`, map[string]string{
			"docker.io": `server = "https://registry-1.docker.io"

[host."https://mirror.example.com"]
  capabilities = ["pull", "resolve"]
  ca = ["/ca.crt"]

[host."https://registry-1.docker.io"]
  capabilities = ["pull", "resolve"]
`, "mirror.example.com": `server = "https://mirror.example.com"

[host."https://mirror.example.com"]
  capabilities = ["pull", "resolve"]
  ca = ["/ca.crt"]
`}, `
[plugins."io.containerd.grpc.v1.cri".registry.configs."mirror.example.com".auth]
  username = "u"
  password = "p\"w"
`},
		"every registry, with a path": {`mirrors: {"*": {endpoint: ["http://198.18.0.1:5000/v2/proxy"]}}`, map[string]string{"_default": `
[host."http://198.18.0.1:5000/v2/proxy"]
  capabilities = ["pull", "resolve"]
  override_path = true
`}, ""},
		"client certificate, unverified": {`configs: {"r:5000": {tls: {cert_file: /c, key_file: /k, insecure_skip_verify: true}}}`, map[string]string{
			"r:5000": `server = "https://r:5000"

[host."https://r:5000"]
  capabilities = ["pull", "resolve"]
  client = [["/c", "/k"]]
  skip_verify = true
`}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := read(t, tt.content)
			require.NoError(t, err)
			require.Equal(t, tt.hosts, f.Hosts())
			require.Equal(t, tt.credentials, f.Credentials())
		})
	}
	f, err := Read(filepath.Join(t.TempDir(), "none"))
	require.NoError(t, err)
	require.Empty(t, f.Hosts())
}

func TestRead_refuses(t *testing.T) {
	for content, says := range map[string]string{
		"mirrors: [":                                    "reading",
		"mirror: {}":                                    "unknown field",
		`mirrors: {"../x": {}}`:                         "not a valid registry name",
		`mirrors: {a: {rewrite: {"^b": c}}}`:            "a rewrite",
		`mirrors: {a: {endpoint: [mirror.example]}}`:    "is no URL",
		`mirrors: {a: {endpoint: ["https://%zz.com"]}}`: "is no URL",
	} {
		_, err := read(t, content)
		require.ErrorContains(t, err, says, content)
	}
}
