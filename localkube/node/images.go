package node

import (
	"archive/tar"
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/drover-project/drover/localkube/datadir"
)

// PauseImage is the sandbox image; it exists only in localkube's own image store.
const PauseImage = "localkube.internal/pause:1"

// imageNamespace is containerd's namespace for the images pods use.
const imageNamespace = "k8s.io"

//go:generate env CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o assets/pause ../pause

// assets holds the pause program, built by go generate before this package. A
// build without it is still good for everything but a node.
//
//go:embed assets
var assets embed.FS

// ImportImage loads an image archive (docker save or OCI layout, tarred) into
// the image store of a running node; "-" is standard input.
func ImportImage(ctx context.Context, dir datadir.Dir, stdin io.Reader, file string) error {
	cmd := exec.CommandContext(ctx, "ctr", "--address", socket(dir), "--namespace", imageNamespace,
		"images", "import", "--digests=false", file)
	cmd.Stdin = stdin
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("asking containerd: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// importPause puts the sandbox image into the image store.
func importPause(ctx context.Context, dir datadir.Dir) error {
	image, err := pauseImage()
	if err != nil {
		return err
	}
	tag, err := name.NewTag(PauseImage)
	if err != nil {
		return fmt.Errorf("naming the sandbox image: %w", err)
	}
	var archive bytes.Buffer
	if err := tarball.Write(tag, image, &archive); err != nil {
		return fmt.Errorf("writing the sandbox image: %w", err)
	}
	return ImportImage(ctx, dir, &archive, "-")
}

func pauseImage() (v1.Image, error) {
	program, err := assets.ReadFile("assets/pause")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("this localkube was built without its sandbox image: run go generate ./node before go build, as make build does")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the sandbox program: %w", err)
	}
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	err = w.WriteHeader(&tar.Header{Name: "pause", Mode: 0o755, Size: int64(len(program)), Typeflag: tar.TypeReg})
	if err == nil {
		_, err = w.Write(program)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("packing the sandbox program: %w", err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content.Bytes())), nil
	})
	if err != nil {
		return nil, fmt.Errorf("packing the sandbox image: %w", err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, fmt.Errorf("packing the sandbox image: %w", err)
	}
	config := &v1.ConfigFile{}
	if have, err := image.ConfigFile(); err == nil {
		config = have.DeepCopy()
	}
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Entrypoint = []string{"/pause"}
	config.Config.User = "65535:65535"
	return mutate.ConfigFile(image, config)
}
