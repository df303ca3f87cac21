package main

import (
	"bytes"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
)

// A pushed image has the files of its tarball, for the architecture of the tarball.
func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	o := usual(t)
	o.tag, o.format = strings.TrimPrefix(server.URL, "http://")+"/infra/drover:v1.2.3", "oci"
	require.NoError(t, run(o))
	var printed bytes.Buffer
	require.NoError(t, push(t.Context(), &printed, o.tag, []string{o.out}))

	tag, err := name.NewTag(o.tag)
	require.NoError(t, err)
	index, err := remote.Index(tag)
	require.NoError(t, err)
	digest, err := index.Digest()
	require.NoError(t, err)
	require.Equal(t, "pushed "+o.tag+"@"+digest.String()+"\n", printed.String())
	img, err := remote.Image(tag, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	require.NoError(t, err)
	want, err := build(o)
	require.NoError(t, err)
	require.Equal(t, entries(t, want), entries(t, img))
	config, err := img.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, []string{"/manager"}, config.Config.Entrypoint)
}

func TestPush_rejects(t *testing.T) {
	o := usual(t)
	o.tag = "registry.example.org/infra/drover:v1.2.3"
	docker := filepath.Join(t.TempDir(), "docker.tar")
	oci := filepath.Join(t.TempDir(), "oci.tar")
	for format, path := range map[string]string{"docker": docker, "oci": oci} {
		o.format, o.out = format, path
		require.NoError(t, run(o))
	}
	for name, tc := range map[string]struct {
		image string
		paths []string
		want  string
	}{
		"no tarball":             {o.tag, nil, "no tarballs given"},
		"a missing tarball":      {o.tag, []string{"/nowhere.tar"}, "reading /nowhere.tar: open /nowhere.tar: no such file or directory"},
		"an invalid name":        {"Not A Tag", []string{oci}, "reading the image's name: "},
		"a Docker tarball":       {o.tag, []string{docker}, docker + " is not an OCI image layout: "},
		"another registry":       {"registry.example.com/drover:v1.2.3", []string{oci}, oci + " was made for the image " + o.tag + ": run `make release REGISTRY=registry.example.com` first"},
		"one architecture twice": {o.tag, []string{oci, oci}, "are both for " + runtime.GOARCH},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, push(t.Context(), &bytes.Buffer{}, tc.image, tc.paths), tc.want)
		})
	}
	o.format = "zip"
	require.EqualError(t, run(o), `the format "zip" is not docker or oci`)
}
