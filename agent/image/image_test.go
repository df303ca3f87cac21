package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

type entry struct {
	name, content string
	kind          byte
	link          string
}

func file(name, content string) entry { return entry{name: name, content: content, kind: tar.TypeReg} }

func archive(tb testing.TB, entries ...entry) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		require.NoError(tb, w.WriteHeader(&tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Size: int64(len(e.content)), Mode: 0o4755}))
		_, err := w.Write([]byte(e.content))
		require.NoError(tb, err)
	}
	require.NoError(tb, w.Close())
	return out.Bytes()
}

func imageOf(tb testing.TB, layers ...[]entry) v1.Image {
	tb.Helper()
	img := empty.Image
	for _, entries := range layers {
		content := archive(tb, entries...)
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
		require.NoError(tb, err)
		img, err = mutate.AppendLayers(img, layer)
		require.NoError(tb, err)
	}
	config, err := img.ConfigFile()
	require.NoError(tb, err)
	config.OS, config.Architecture = runtime.GOOS, runtime.GOARCH
	img, err = mutate.ConfigFile(img, config)
	require.NoError(tb, err)
	return img
}

// files are those in a folder, with their content or where they lead.
func files(tb testing.TB, folder string) map[string]string {
	tb.Helper()
	all := map[string]string{}
	require.NoError(tb, filepath.WalkDir(folder, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		at, _ := filepath.Rel(folder, path)
		if e.Type()&os.ModeSymlink != 0 {
			to, err := os.Readlink(path)
			all[at] = "-> " + to
			return err
		}
		content, err := os.ReadFile(path)
		all[at] = string(content)
		return err
	}))
	return all
}

func TestUnpack(t *testing.T) {
	for name, tt := range map[string]struct {
		layers [][]entry
		want   map[string]string
		says   string
	}{
		"layers, and what they take away": {layers: [][]entry{
			{file("run.sh", "1"), file("old/a", "a"), file("old/b", "b"), file("dir/x", "x")},
			{file("run.sh", "2"), file("old/.wh.a", ""), {name: "dir/" + opaque, kind: tar.TypeReg}, file("dir/y", "y")},
		}, want: map[string]string{"run.sh": "2", "old/b": "b", "dir/y": "y"}},
		"links inside": {layers: [][]entry{{file("bin/k3s", "k"), {name: "bin/kubectl", kind: tar.TypeSymlink, link: "k3s"}, {name: "k", kind: tar.TypeLink, link: "bin/k3s"}}},
			want: map[string]string{"bin/k3s": "k", "bin/kubectl": "-> k3s", "k": "k"}},
		"links that lead outside are left out": {layers: [][]entry{{{name: "sh", kind: tar.TypeSymlink, link: "/bin/sh"}, {name: "up", kind: tar.TypeSymlink, link: "../../etc"}, file("a", "a")}},
			want: map[string]string{"a": "a"}},
		"a path that climbs stays inside": {layers: [][]entry{{file("../../../etc/evil", "x"), file("/abs", "y")}}, want: map[string]string{"etc/evil": "x", "abs": "y"}},
		"a hard link to a file of ours":   {layers: [][]entry{{{name: "shadow", kind: tar.TypeLink, link: "/etc/shadow"}}}, says: "no such file"},
		"a link that turns into a way out": {layers: [][]entry{{{name: "a/b", kind: tar.TypeSymlink, link: "../c"}, {name: "c", kind: tar.TypeSymlink, link: "x"}, file("x/keep", "1")},
			{file("a/b", "plain")}}, want: map[string]string{"a/b": "plain", "c": "-> x", "x/keep": "1"}},
		"devices":         {layers: [][]entry{{{name: "dev/null", kind: tar.TypeChar}, {name: "p", kind: tar.TypeFifo}, file("a", "a")}}, want: map[string]string{"a": "a"}},
		"too large":       {layers: [][]entry{{file("a", strings.Repeat("x", 5000))}, {file("b", strings.Repeat("x", 60000))}}, says: "larger than"},
		"too many":        {layers: [][]entry{{file("a", ""), file("b", ""), file("c", ""), file("d", ""), file("e", ""), file("f", ""), file("g", ""), file("h", ""), file("i", "")}}, says: "too many files"},
		"too many layers": {layers: [][]entry{{file("a", "")}, {file("b", "")}, {file("c", "")}, {file("d", "")}}, says: "4 layers"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "in")
			require.NoError(t, os.Mkdir(folder, 0o700))
			err := unpack(t.Context(), imageOf(t, tt.layers...), folder, bounds{layers: 3, entries: 8, bytes: 60000})
			beside, readErr := os.ReadDir(filepath.Dir(folder))
			require.NoError(t, readErr)
			require.Len(t, beside, 1)
			if tt.says != "" {
				require.ErrorContains(t, err, tt.says)
				require.NotContains(t, err.Error(), "\n")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, files(t, folder))
		})
	}
}

// FuzzUnpack: whatever a layer holds, nothing is written outside the folder, no link leads there, and no file has more than nine bits.
func FuzzUnpack(f *testing.F) {
	f.Add(archive(f, file("a/b", "x"), entry{name: "l", kind: tar.TypeSymlink, link: "a"}, file("l/c", "y"), file("a/.wh.b", "")))
	f.Add(archive(f, entry{name: "l", kind: tar.TypeSymlink, link: ".."}, file("l/c", "y"), entry{name: "h", kind: tar.TypeLink, link: "../x"}))
	f.Fuzz(func(t *testing.T, layer []byte) {
		outside := t.TempDir()
		folder := filepath.Join(outside, "in")
		require.NoError(t, os.Mkdir(folder, 0o700))
		root, err := os.OpenRoot(folder)
		require.NoError(t, err)
		u := &unpacking{root: root, left: bounds{entries: 50, bytes: 1 << 20}}
		_ = u.entries(t.Context(), tar.NewReader(bytes.NewReader(layer)))
		require.NoError(t, root.Close())
		beside, err := os.ReadDir(outside)
		require.NoError(t, err)
		require.Len(t, beside, 1)
		require.NoError(t, filepath.WalkDir(folder, func(path string, e os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			require.NoError(t, err)
			require.Zero(t, info.Mode()&(os.ModeSetuid|os.ModeSetgid|os.ModeDevice))
			if e.Type()&os.ModeSymlink != 0 {
				to, err := os.Readlink(path)
				require.NoError(t, err)
				require.False(t, filepath.IsAbs(to))
			}
			return nil
		}))
	})
}

// shop is a registry over TLS that wants a password or a certificate, and a file with its own: to trust, and with the key to show.
func shop(t *testing.T, password string) (*httptest.Server, string) {
	t.Helper()
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, is, _ := r.BasicAuth(); password != "" && is != password && len(r.TLS.PeerCertificates) == 0 {
			w.Header().Set("WWW-Authenticate", `Basic realm="shop"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	require.NoError(t, err)
	pair := filepath.Join(t.TempDir(), "pair.pem")
	require.NoError(t, os.WriteFile(pair, append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...), 0o600))
	return server, pair
}

func host(s *httptest.Server) string { return strings.SplitN(s.URL, "://", 2)[1] }

// push puts an image into a registry that wants no password.
func push(t *testing.T, s *httptest.Server, repository string, img v1.Image) {
	t.Helper()
	ref, err := name.ParseReference(host(s) + "/" + repository)
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, img, remote.WithTransport(authed{s.Client().Transport})))
}

type authed struct{ next http.RoundTripper }

func (a authed) RoundTrip(r *http.Request) (*http.Response, error) {
	r.SetBasicAuth("user", "secret")
	return a.next.RoundTrip(r)
}

func TestPull(t *testing.T) {
	mirror, ca := shop(t, "secret")
	img := imageOf(t, []entry{file("run.sh", "#!/bin/sh\n")})
	push(t, mirror, "rancher/installer:v1", img)
	push(t, mirror, "proxy/hub/rancher/installer:v1", img)
	push(t, mirror, "library/installer:v1", img)
	digest, err := img.Digest()
	require.NoError(t, err)
	plain := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer plain.Close()
	push(t, plain, "rancher/installer:v1", img)

	config := func(auth string) string {
		return fmt.Sprintf("configs:\n  %s:\n    tls: {ca_file: %s}\n    %s\n", host(mirror), ca, auth)
	}
	good := config("auth: {username: user, password: secret}")
	for what, tt := range map[string]struct{ registries, image, says string }{
		"straight":                     {good, host(mirror) + "/rancher/installer:v1", ""},
		"by digest":                    {good, host(mirror) + "/rancher/installer@" + digest.String(), ""},
		"by a mirror of its registry":  {good + "mirrors: {example.com: {endpoint: ['https://" + host(mirror) + "']}}", "example.com/rancher/installer:v1", ""},
		"by a mirror of all":           {good + "mirrors: {'*': {endpoint: ['" + host(mirror) + "']}}", "example.com/rancher/installer:v1", ""},
		"by a mirror of Docker Hub":    {good + "mirrors: {docker.io: {endpoint: ['https://" + host(mirror) + "/v2']}}", "rancher/installer:v1", ""},
		"by a mirror with a path":      {good + "mirrors: {docker.io: {endpoint: ['https://" + host(mirror) + "/v2/proxy/hub']}}", "rancher/installer:v1", ""},
		"by a rewrite":                 {good + "mirrors: {docker.io: {endpoint: ['https://" + host(mirror) + "'], rewrite: {'^rancher/(.*)': 'library/$1'}}}", "rancher/installer:v1", ""},
		"by the second mirror":         {good + "mirrors: {127.0.0.1:1: {endpoint: ['https://127.0.0.1:1', 'https://" + host(mirror) + "']}}", "127.0.0.1:1/rancher/installer:v1", ""},
		"with the credential as one":   {config("auth: {auth: dXNlcjpzZWNyZXQ=}"), host(mirror) + "/rancher/installer:v1", ""},
		"without TLS, when it says so": {"mirrors: {127.0.0.1:1: {endpoint: ['http://" + host(plain) + "']}}", "127.0.0.1:1/rancher/installer:v1", ""},
		"never without TLS by itself":  {"", host(plain) + "/rancher/installer:v1", "without TLS"},
		"with a certificate":           {fmt.Sprintf("configs: {%q: {tls: {ca_file: %[2]s, cert_file: %[2]s, key_file: %[2]s}}}", host(mirror), ca), host(mirror) + "/rancher/installer:v1", ""},
		"with a certificate unchecked": {fmt.Sprintf("configs: {%q: {tls: {insecure_skip_verify: true}, auth: {username: user, password: secret}}}", host(mirror)), host(mirror) + "/rancher/installer:v1", ""},
		"with a certificate missing":   {fmt.Sprintf("configs: {%q: {tls: {cert_file: none, key_file: none}}}", host(mirror)), host(mirror) + "/rancher/installer:v1", "client certificate"},
		"with a wrong password":        {config("auth: {username: user, password: wrong}"), host(mirror) + "/rancher/installer:v1", "401"},
		"by an unknown certificate":    {"", host(mirror) + "/rancher/installer:v1", "unknown authority"},
		"what is not there":            {good, host(mirror) + "/rancher/installer:v9", "MANIFEST_UNKNOWN"},
		"two registries fail, in one line": {good + "mirrors: {127.0.0.1:1: {endpoint: ['https://127.0.0.1:2', 'https://" + host(mirror) + "']}}", "127.0.0.1:1/rancher/installer:v9",
			"if that is wanted; from " + host(mirror) + ": "},
		"no name":          {good, "In Valid", "parsing image name"},
		"no configuration": {"mirrors: [", "a", "it is not YAML"},
	} {
		t.Run(what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "registries.yaml")
			require.NoError(t, os.WriteFile(path, []byte(tt.registries), 0o600))
			folder := t.TempDir()
			err := (&Puller{Registries: []string{filepath.Join(folder, "none"), path}, Log: logr.Discard()}).Unpack(t.Context(), tt.image, folder)
			if tt.says != "" {
				require.ErrorContains(t, err, tt.says)
				require.NotContains(t, err.Error(), "secret")
				return
			}
			require.NoError(t, err)
			require.Equal(t, map[string]string{"run.sh": "#!/bin/sh\n"}, files(t, folder))
		})
	}
}

// TestLayerIsVerified: a registry that sends another layer than it promised has its image refused, however small the change.
func TestLayerIsVerified(t *testing.T) {
	img := imageOf(t, []entry{file("run.sh", "good")})
	layers, err := img.Layers()
	require.NoError(t, err)
	digest, err := layers[0].Digest()
	require.NoError(t, err)
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, digest.String()) {
			recorder := httptest.NewRecorder()
			inner.ServeHTTP(recorder, r)
			content := recorder.Body.Bytes()
			content[9]++ // the operating system that packed it: what comes out is the same
			_, _ = w.Write(content)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	defer server.Close()
	push(t, server, "installer:v1", img)
	registries := filepath.Join(t.TempDir(), "registries.yaml")
	require.NoError(t, os.WriteFile(registries, []byte("mirrors: {127.0.0.1:1: {endpoint: ['"+server.URL+"']}}"), 0o600))
	err = (&Puller{Registries: []string{registries}, Log: logr.Discard()}).Unpack(t.Context(), "127.0.0.1:1/installer:v1", t.TempDir())
	require.ErrorContains(t, err, "verif")
}

func TestLocal(t *testing.T) {
	images := t.TempDir()
	tag, err := name.NewTag("rancher/installer:v1")
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, tarball.Write(tag, imageOf(t, []entry{file("run.sh", "local")}), &out))
	var zipped, packed bytes.Buffer
	zip := gzip.NewWriter(&zipped)
	_, err = zip.Write(out.Bytes())
	require.NoError(t, err)
	require.NoError(t, zip.Close())
	zst, err := zstd.NewWriter(&packed)
	require.NoError(t, err)
	_, err = zst.Write(out.Bytes())
	require.NoError(t, err)
	require.NoError(t, zst.Close())
	for form, content := range map[string][]byte{"a.tar": out.Bytes(), "a.tar.gz": zipped.Bytes(), "a.tar.zst": packed.Bytes()} {
		t.Run(form, func(t *testing.T) {
			require.NoError(t, os.WriteFile(filepath.Join(images, "0.tar"), []byte("broken"), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(images, form), content, 0o600))
			folder := t.TempDir()
			require.NoError(t, (&Puller{Images: images, Log: logr.Discard()}).Unpack(t.Context(), "docker.io/rancher/installer:v1", folder))
			require.Equal(t, map[string]string{"run.sh": "local"}, files(t, folder))
			require.NoError(t, os.Remove(filepath.Join(images, form)))
		})
	}
}

// The agent rejects a pattern that costs too much before it compiles the pattern.
func TestParseRegistries_largePattern(t *testing.T) {
	_, err := parseRegistries([]byte("mirrors: {docker.io: {rewrite: {'(?:" + strings.Repeat("a", 500) + "){1000}': x}}}"))
	require.ErrorContains(t, err, "has more than 256 bytes")
	_, err = parseRegistries([]byte("mirrors: {docker.io: {rewrite: {'(?:" + strings.Repeat("a", 200) + "){1000}': x}}}"))
	require.ErrorContains(t, err, "compiles to more than 2000 instructions")
}

// FuzzRegistries: refused, or places to pull from for any image, the registry itself last.
func FuzzRegistries(f *testing.F) {
	f.Add([]byte("mirrors: {docker.io: {endpoint: ['https://m.example/v2/p'], rewrite: {'a(.*)': 'b$1'}}}\nconfigs: {m.example: {auth: {auth: dTpw}}}"), "rancher/a:v1")
	f.Fuzz(func(t *testing.T, content []byte, image string) {
		r, err := parseRegistries(content)
		if err != nil {
			return
		}
		sources, err := sources(r, image)
		if err != nil {
			return
		}
		require.NotEmpty(t, sources)
		last := sources[len(sources)-1]
		require.False(t, last.plain)
		for _, s := range sources {
			_, _ = authenticator(s.config.Auth)
			require.NotEmpty(t, s.ref.Context().RegistryStr())
		}
	})
}
