package distribution

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// installer holds the files of the image beside the binary.
//
//go:embed installer
var installer embed.FS

// file is one of an image.
type file struct {
	name    string
	mode    int64
	content []byte
}

// Installer is an image that installs a localkube as k3s.
func Installer(localkube string) (v1.Image, error) {
	program, err := os.ReadFile(localkube)
	if err != nil {
		return nil, fmt.Errorf("reading localkube: %w", err)
	}
	files := []file{{"k3s", 0o755, program}}
	entries, err := installer.ReadDir("installer")
	if err != nil {
		return nil, fmt.Errorf("reading the installer: %w", err)
	}
	for _, entry := range entries {
		content, err := installer.ReadFile(path.Join("installer", entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading the installer: %w", err)
		}
		mode := int64(0o644)
		if path.Ext(entry.Name()) == ".sh" {
			mode = 0o755
		}
		files = append(files, file{entry.Name(), mode, content})
	}
	return imageOf(files, "/run.sh")
}

// Program is an image that runs a static program, for pods.
func Program(binary string) (v1.Image, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("reading the program: %w", err)
	}
	return imageOf([]file{{"program", 0o755, content}}, "/program")
}

func imageOf(files []file, entrypoint string) (v1.Image, error) {
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	for _, f := range files {
		err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), Typeflag: tar.TypeReg})
		if err == nil {
			_, err = w.Write(f.content)
		}
		if err != nil {
			return nil, fmt.Errorf("packing %s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("packing an image: %w", err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil },
		tarball.WithCompressionLevel(gzip.BestSpeed), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("packing an image: %w", err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, fmt.Errorf("packing an image: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, errors.Join(errors.New("reading an image's configuration"), err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config.Entrypoint = "linux", runtime.GOARCH, []string{entrypoint}
	return mutate.ConfigFile(image, config)
}
