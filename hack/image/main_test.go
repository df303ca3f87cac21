package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
)

// programs builds static programs with the given names, once for all tests of a run.
func programs(t *testing.T, names ...string) []string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600))
	built := filepath.Join(dir, "built")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", built, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	content, err := os.ReadFile(built)
	require.NoError(t, err)
	var paths []string
	for _, name := range names {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		paths = append(paths, path)
	}
	return paths
}

func bundle(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "certs.crt")
	require.NoError(t, os.WriteFile(path, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), 0o600))
	return path
}

// usual is what make image asks for.
func usual(t *testing.T) options {
	t.Helper()
	return options{
		tag: "drover.local/drover:dev", out: filepath.Join(t.TempDir(), "image.tar"), format: "docker", certs: bundle(t), entrypoint: "/manager", arch: runtime.GOARCH,
		links: []string{"mkisofs=machine"}, binaries: programs(t, "manager", "machine"),
	}
}

// entries lists the files of an image, as a container would see them.
func entries(t *testing.T, img v1.Image) []string {
	t.Helper()
	layers, err := img.Layers()
	require.NoError(t, err)
	var found []string
	for i, layer := range layers {
		stream, err := layer.Uncompressed()
		require.NoError(t, err)
		for r := tar.NewReader(stream); ; {
			header, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.Zero(t, header.ModTime.Unix(), "the same files give the same image")
			require.Zero(t, header.Uid+header.Gid, "nothing belongs to the user that runs")
			found = append(found, strings.TrimSpace(fmt.Sprintf("%d %s %c %04o %s", i, header.Name, header.Typeflag, header.Mode, header.Linkname)))
		}
		require.NoError(t, stream.Close())
	}
	return found
}

func TestRun(t *testing.T) {
	o := usual(t)
	require.NoError(t, run(o))
	require.NoFileExists(t, o.out+".partial")
	img, err := tarball.ImageFromPath(o.out, nil)
	require.NoError(t, err)
	require.Equal(t, []string{
		"0 etc/ 5 0755", "0 etc/passwd 0 0644", "0 etc/ssl/ 5 0755", "0 etc/ssl/certs/ 5 0755", "0 etc/ssl/certs/ca-certificates.crt 0 0644",
		"0 home/ 5 0755", "0 home/machine/ 5 0755", "0 tmp/ 5 1777", "0 mkisofs 2 0777 machine", "1 manager 0 0755", "2 machine 0 0755",
	}, entries(t, img))
	config, err := img.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, v1.Config{
		User: "1000:1000", WorkingDir: "/", Entrypoint: []string{"/manager"},
		Env: []string{"PATH=/", "HOME=/home/machine", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
	}, config.Config)
	require.Equal(t, "linux", config.OS)
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(o.out) })
	require.NoError(t, err)
	require.Equal(t, []string{"drover.local/drover:dev"}, manifest[0].RepoTags)
}

func TestBuild_is_reproducible_layer_by_layer(t *testing.T) {
	o := usual(t)
	first, second := digests(t, o), digests(t, o)
	require.Equal(t, first, second)
	content, err := os.ReadFile(o.binaries[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(o.binaries[0], append(content, 0), 0o600))
	third := digests(t, o)
	require.Equal(t, first[0], third[0])
	require.NotEqual(t, first[1], third[1], "a new manager")
	require.Equal(t, first[2], third[2], "changes no other layer")
}

func digests(t *testing.T, o options) []string {
	t.Helper()
	img, err := build(o)
	require.NoError(t, err)
	layers, err := img.Layers()
	require.NoError(t, err)
	var all []string
	for _, layer := range layers {
		digest, err := layer.Digest()
		require.NoError(t, err)
		all = append(all, digest.String())
	}
	return all
}

func TestRun_refuses(t *testing.T) {
	base := usual(t)
	dynamic, err := exec.LookPath("sh")
	require.NoError(t, err)
	script := filepath.Join(t.TempDir(), "manager")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o600))
	etc := programs(t, "etc")
	for name, tc := range map[string]struct {
		change func(o *options)
		want   string
	}{
		"no binaries":            {func(o *options) { o.binaries = nil }, "no binaries given; usage: image [flags] BINARY [BINARY]"},
		"a tag that is none":     {func(o *options) { o.tag = "Not A Tag" }, "reading tag: repository can only contain the characters `abcdefghijklmnopqrstuvwxyz0123456789_-./`: Not A Tag"},
		"a binary that is gone":  {func(o *options) { o.binaries[1] = "/nowhere/machine" }, "reading binary: open /nowhere/machine: no such file or directory"},
		"a script":               {func(o *options) { o.binaries[0] = script }, script + " is no Linux program: EOF"},
		"shared libraries":       {func(o *options) { o.binaries = append(o.binaries, dynamic) }, dynamic + " needs shared libraries, which the image does not have: build it with CGO_ENABLED=0"},
		"the same name twice":    {func(o *options) { o.binaries = append(o.binaries, "/other/manager") }, "/other/manager: the image has another /manager"},
		"a folder's name":        {func(o *options) { o.binaries = append(o.binaries, etc[0]) }, etc[0] + ": the image has another /etc"},
		"half a link":            {func(o *options) { o.links = []string{"mkisofs"} }, `"mkisofs" is not NAME=BINARY`},
		"a link without name":    {func(o *options) { o.links = []string{"=machine"} }, `"=machine" is not NAME=BINARY`},
		"a link to nothing":      {func(o *options) { o.links = []string{"mkisofs=xorriso"} }, "link mkisofs=xorriso: no binary xorriso is packed"},
		"a link to a link":       {func(o *options) { o.links = []string{"a=machine", "b=a"} }, "link b=a: no binary a is packed"},
		"a link over a binary":   {func(o *options) { o.links = []string{"manager=machine"} }, "link manager=machine: the image has another /manager, or it is not a plain name"},
		"a link over a link":     {func(o *options) { o.links = []string{"a=machine", "a=manager"} }, "link a=manager: the image has another /a, or it is not a plain name"},
		"a link elsewhere":       {func(o *options) { o.links = []string{"../a=machine"} }, "link ../a=machine: the image has another /../a, or it is not a plain name"},
		"entry point not packed": {func(o *options) { o.entrypoint = "/sh" }, "entry point /sh is neither a binary nor a link of the image"},
		"entry point below":      {func(o *options) { o.entrypoint = "/bin/manager" }, "entry point /bin/manager is neither a binary nor a link of the image"},
		"no certificates":        {func(o *options) { o.certs = "/nowhere" }, "reading CA certificates (apt-get install ca-certificates): open /nowhere: no such file or directory"},
		"an empty bundle":        {func(o *options) { o.certs = script }, "reading CA certificates: no certificate in " + script},
		"nowhere to write":       {func(o *options) { o.out = "/nowhere/image.tar" }, "writing /nowhere/image.tar: open /nowhere/image.tar.partial: no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			o := base
			o.binaries = append([]string{}, base.binaries...)
			tc.change(&o)
			require.EqualError(t, run(o), tc.want)
			require.NoFileExists(t, o.out)
		})
	}
}

func TestRun_leaves_nothing_of_a_failure(t *testing.T) {
	o := usual(t)
	require.NoError(t, os.Mkdir(o.out, 0o700)) // cannot be replaced
	require.ErrorContains(t, run(o), "writing "+o.out+": rename ")
	require.NoFileExists(t, o.out+".partial")
}

func TestEntrypoint_may_be_a_link(t *testing.T) {
	o := usual(t)
	o.entrypoint = "/mkisofs"
	require.NoError(t, run(o))
}

// A base with a libc lies under everything else; what is ours wins.
func TestRun_base(t *testing.T) {
	o := usual(t)
	o.base = t.TempDir()
	require.ErrorContains(t, run(o), "is empty")
	require.NoError(t, os.MkdirAll(filepath.Join(o.base, "lib64"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(o.base, "lib64", "ld.so.2"), []byte("loader"), 0o755))
	require.NoError(t, os.Symlink("lib64", filepath.Join(o.base, "lib")))
	require.NoError(t, run(o))
	img, err := tarball.ImageFromPath(o.out, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"0 lib 2 0777 lib64", "0 lib64/ 5 0755", "0 lib64/ld.so.2 0 0755", "1 etc/ 5 0755"}, entries(t, img)[:4])
}

// What servers fetch is a layer of its own, after the binaries.
func TestRun_share(t *testing.T) {
	o := usual(t)
	o.share = t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(o.share, "agents"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(o.share, "agents", "drover-agent-linux-arm64"), []byte("of any architecture"), 0o755))
	require.NoError(t, run(o))
	img, err := tarball.ImageFromPath(o.out, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"3 usr/ 5 0755", "3 usr/share/ 5 0755", "3 usr/share/drover/ 5 0755", "3 usr/share/drover/agents/ 5 0755",
		"3 usr/share/drover/agents/drover-agent-linux-arm64 0 0755"}, entries(t, img)[11:])
}

func TestRun_architecture(t *testing.T) {
	o := usual(t)
	o.arch = map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	require.ErrorContains(t, run(o), "not for "+o.arch)
	o.arch = "vax"
	require.ErrorContains(t, run(o), `architecture "vax" is not supported`)
}
