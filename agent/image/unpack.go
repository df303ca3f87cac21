package image

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"
)

// bounds of an image. The largest installer image there is, RKE2's, has some 100 MiB and a dozen
// files.
type bounds struct {
	layers, entries int
	bytes           int64
}

var limits = bounds{layers: 128, entries: 100_000, bytes: 4 << 30}

// The names by which a layer removes files of the layers below it (OCI image specification,
// layer.md).
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// unpacking is one image on its way into a folder. os.Root keeps every path, also one through a
// link of the image, inside.
type unpacking struct {
	root *os.Root
	left bounds
}

func unpack(ctx context.Context, img v1.Image, folder string, limits bounds) error {
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	if len(layers) > limits.layers {
		return fmt.Errorf("the image has %d layers, more than %d", len(layers), limits.layers)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	u := &unpacking{root: root, left: limits}
	for i, layer := range layers {
		if err := u.layer(ctx, layer); err != nil {
			return errors.Join(fmt.Errorf("layer %d: %w", i+1, err), root.Close())
		}
	}
	return root.Close()
}

func (u *unpacking) layer(ctx context.Context, layer v1.Layer) error {
	stream, err := layer.Uncompressed()
	if err != nil {
		return err
	}
	bounded := &io.LimitedReader{R: stream, N: u.left.bytes + 1}
	err = u.entries(ctx, tar.NewReader(bounded))
	if err == nil {
		_, err = io.Copy(io.Discard, bounded) // the digest is verified at the very end
	}
	if bounded.N <= 0 {
		err = fmt.Errorf("the image is larger than %d bytes", limits.bytes)
	}
	u.left.bytes = bounded.N - 1
	return errors.Join(err, stream.Close())
}

func (u *unpacking) entries(ctx context.Context, archive *tar.Reader) error {
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if u.left.entries--; u.left.entries < 0 {
			return errors.New("the image has too many files")
		}
		if err := u.entry(header, archive); err != nil {
			return fmt.Errorf("%.200q: %w", header.Name, err)
		}
	}
}

func (u *unpacking) entry(header *tar.Header, content io.Reader) error {
	at := strings.TrimPrefix(path.Clean("/"+header.Name), "/")
	if at == "" {
		return nil
	}
	folder, base := path.Split(at)
	if err := u.root.MkdirAll(path.Clean("./"+folder), 0o755); err != nil {
		return err
	}
	switch {
	case base == opaque:
		entries, err := fs.ReadDir(u.root.FS(), path.Clean("./"+folder))
		for _, entry := range entries {
			err = errors.Join(err, u.root.RemoveAll(path.Join(folder, entry.Name())))
		}
		return err
	case strings.HasPrefix(base, whiteout):
		return u.root.RemoveAll(path.Join(folder, strings.TrimPrefix(base, whiteout)))
	}
	return u.write(header, at, content)
}

func (u *unpacking) write(header *tar.Header, at string, content io.Reader) error {
	mode := os.FileMode(header.Mode & 0o777) // no setuid
	if header.Typeflag == tar.TypeDir {
		if info, err := u.root.Lstat(at); err == nil && !info.IsDir() {
			if err := u.root.Remove(at); err != nil {
				return err
			}
		}
		if err := u.root.MkdirAll(at, 0o755); err != nil {
			return err
		}
		return u.root.Chmod(at, mode|0o700)
	}
	switch header.Typeflag {
	case tar.TypeReg, tar.TypeLink, tar.TypeSymlink:
	default:
		return nil // devices, pipes and the like: no installer has them
	}
	if header.Typeflag == tar.TypeSymlink && !isInside(at, header.Linkname) {
		return nil // /bin/sh of a base image and the like; it would lead to the server's own files
	}
	if err := u.root.RemoveAll(at); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeSymlink:
		return u.root.Symlink(header.Linkname, at)
	case tar.TypeLink:
		return u.root.Link(strings.TrimPrefix(path.Clean("/"+header.Linkname), "/"), at)
	}
	file, err := u.root.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Chmod(mode), file.Close())
}

// isInside reports whether a symbolic link leads to somewhere in the image, by its words.
func isInside(at, to string) bool {
	if path.IsAbs(to) || to == "" {
		return false
	}
	target := path.Join(path.Dir(at), to)
	return target != ".." && !strings.HasPrefix(target, "../")
}

// opener opens a tarball, compressed or not. It returns nil if the file is not a tarball.
func opener(path string) tarball.Opener {
	if !slices.ContainsFunc([]string{".tar", ".tar.gz", ".tgz", ".tar.zst"}, func(form string) bool { return strings.HasSuffix(path, form) }) {
		return nil
	}
	return func() (io.ReadCloser, error) {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		var zip io.ReadCloser
		switch {
		case strings.HasSuffix(path, "gz"):
			zip, err = gzip.NewReader(file)
		case strings.HasSuffix(path, ".zst"):
			var decoder *zstd.Decoder
			if decoder, err = zstd.NewReader(file, zstd.WithDecoderMaxMemory(128<<20), zstd.WithDecoderConcurrency(1)); err == nil {
				zip = decoder.IOReadCloser()
			}
		default:
			return file, nil
		}
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		return packed{zip, file}, nil
	}
}

type packed struct {
	io.ReadCloser
	file *os.File
}

// Close closes the file too.
func (p packed) Close() error { return errors.Join(p.ReadCloser.Close(), p.file.Close()) }
