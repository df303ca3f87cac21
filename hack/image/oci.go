package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// containerdName is the annotation by which `ctr images import` names an image
	// (containerd, core/images/annotations.go).
	containerdName = "io.containerd.image.name"
	// ociName is the annotation of the OCI image layout for the tag of an image
	// (opencontainers/image-spec, annotations.md).
	ociName = "org.opencontainers.image.ref.name"
)

// writeOCI writes an image as a tarball with an OCI image layout.
func writeOCI(path string, tag name.Tag, img v1.Image) error {
	dir, err := os.MkdirTemp("", "drover-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	img = mutate.ConfigMediaType(mutate.MediaType(img, types.OCIManifestSchema1), types.OCIConfigJSON)
	config, err := img.ConfigFile()
	if err != nil {
		return err
	}
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	err = l.AppendImage(img,
		layout.WithPlatform(v1.Platform{OS: config.OS, Architecture: config.Architecture}),
		layout.WithAnnotations(map[string]string{containerdName: tag.Name(), ociName: tag.TagStr()}))
	if err != nil {
		return err
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(pack(out, dir), out.Close())
}

// pack writes a folder as a tarball.
func pack(out io.Writer, dir string) error {
	files, err := tree(dir, "")
	if err != nil {
		return err
	}
	w := tar.NewWriter(out)
	for _, f := range files {
		if err := add(w, f); err != nil {
			return err
		}
	}
	return w.Close()
}

// readOCI reads the only image of a tarball that writeOCI wrote, with the name that it was given. The
// image reads from the folder dir, into which readOCI unpacks the tarball.
func readOCI(path, dir string) (string, v1.Image, error) {
	if err := unpack(path, dir); err != nil {
		return "", nil, fmt.Errorf("reading %s: %w", path, err)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return "", nil, fmt.Errorf("%s is not an OCI image layout: %w", path, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return "", nil, fmt.Errorf("reading the index of %s: %w", path, err)
	}
	if len(manifest.Manifests) != 1 {
		return "", nil, fmt.Errorf("%s has %d images, want 1", path, len(manifest.Manifests))
	}
	img, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		return "", nil, fmt.Errorf("reading the image of %s: %w", path, err)
	}
	return manifest.Manifests[0].Annotations[containerdName], img, nil
}

// unpack writes the regular files of a tarball below a folder.
func unpack(path, dir string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for r := tar.NewReader(in); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := root.MkdirAll(filepath.Dir(header.Name), 0o750); err != nil {
			return err
		}
		out, err := root.Create(header.Name)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, r) //nolint:gosec // a tarball of the user's own release
		if err := errors.Join(err, out.Close()); err != nil {
			return err
		}
	}
}
