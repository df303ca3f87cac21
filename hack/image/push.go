package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// push pushes OCI tarballs, one per architecture, as one image, and prints its name and digest. The
// login comes from `docker login` (~/.docker/config.json). Registries on loopback may serve plain
// HTTP.
func push(ctx context.Context, out io.Writer, target string, paths []string) error {
	if len(paths) == 0 {
		return errors.New("no tarballs given; usage: image push IMAGE TARBALL [TARBALL]")
	}
	tag, err := name.NewTag(target)
	if err != nil {
		return fmt.Errorf("reading the image's name: %w", err)
	}
	index, cleanup, err := join(tag, paths)
	defer cleanup()
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("pushing %s: %w", tag, err)
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "pushed %s@%s\n", tag, digest)
	return err
}

// join makes one index of the images in tarballs. The caller calls cleanup when it no longer reads
// the index.
func join(tag name.Tag, paths []string) (index v1.ImageIndex, cleanup func(), err error) {
	var dirs []string
	cleanup = func() {
		for _, dir := range dirs {
			_ = os.RemoveAll(dir)
		}
	}
	index = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	have := map[string]string{}
	for _, path := range paths {
		dir, err := os.MkdirTemp("", "drover-push-")
		if err != nil {
			return nil, cleanup, err
		}
		dirs = append(dirs, dir)
		written, img, err := readOCI(path, dir)
		if err != nil {
			return nil, cleanup, err
		}
		if written != tag.Name() {
			return nil, cleanup, fmt.Errorf("%s was made for the image %s: run `make release REGISTRY=%s` first", path, written, strings.TrimSuffix(tag.Repository.Name(), "/drover"))
		}
		config, err := img.ConfigFile()
		if err != nil {
			return nil, cleanup, fmt.Errorf("reading %s: %w", path, err)
		}
		if other, found := have[config.Architecture]; found {
			return nil, cleanup, fmt.Errorf("%s and %s are both for %s", other, path, config.Architecture)
		}
		have[config.Architecture] = path
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: config.OS, Architecture: config.Architecture},
		}})
	}
	return index, cleanup, nil
}
