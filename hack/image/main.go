// Command image packs static binaries into a container image tarball, and pushes such tarballs to a
// registry, without Docker.
//
//	image [flags] BINARY [BINARY]
//	image push IMAGE TARBALL [TARBALL]
//
// The image has no shell and no package manager. It contains the binaries at /, the CA certificates
// of the building machine, /etc/passwd with user 1000, and the files of -base. The same files give
// the same image digest.
package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const passwd = "root:x:0:0:root:/root:/sbin/nologin\nmachine:x:1000:1000:machine:/home/machine:/sbin/nologin\n"

// options are the command line.
type options struct {
	tag, out, certs, entrypoint string
	// format of the tarball: docker or oci.
	format string
	// arch is the architecture of the binaries, base a folder whose files are copied into the image
	// before them. share is a folder whose files go to /usr/share/drover.
	arch, base, share string
	links             []string
	binaries          []string
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "push" {
		exit(pushArgs(os.Args[2:]))
	}
	var o options
	flag.StringVar(&o.tag, "tag", "drover.local/drover:dev", "name and tag of the image")
	flag.StringVar(&o.out, "out", "bin/drover-image.tar", "tarball to write")
	flag.StringVar(&o.format, "format", "docker", "format of the tarball: docker (docker load) or oci (OCI image layout)")
	flag.StringVar(&o.certs, "certs", "/etc/ssl/certs/ca-certificates.crt", "CA certificates to put into the image")
	flag.StringVar(&o.entrypoint, "entrypoint", "/manager", "entry point")
	flag.StringVar(&o.arch, "arch", runtime.GOARCH, "architecture of the image, as Go names it")
	flag.StringVar(&o.base, "base", "", "folder whose files go into the image too, such as a libc for drivers that are linked dynamically")
	flag.StringVar(&o.share, "share", "", "folder whose files go to /usr/share/drover, such as agents/ with the agents that servers fetch")
	flag.Func("link", "second name of a binary, as NAME=BINARY; may be repeated", func(link string) error {
		o.links = append(o.links, link)
		return nil
	})
	flag.Parse()
	o.binaries = flag.Args()
	exit(run(o))
}

func pushArgs(args []string) error {
	if len(args) == 0 {
		return errors.New("no image given; usage: image push IMAGE TARBALL [TARBALL]")
	}
	return push(context.Background(), os.Stdout, args[0], args[1:])
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(o options) error {
	if len(o.binaries) == 0 {
		return errors.New("no binaries given; usage: image [flags] BINARY [BINARY]")
	}
	tag, err := name.NewTag(o.tag)
	if err != nil {
		return fmt.Errorf("reading tag: %w", err)
	}
	img, err := build(o)
	if err != nil {
		return err
	}
	partial := o.out + ".partial"
	switch o.format {
	case "docker":
		err = tarball.WriteToFile(partial, tag, img)
	case "oci":
		err = writeOCI(partial, tag, img)
	default:
		return fmt.Errorf("the format %q is not docker or oci", o.format)
	}
	if err == nil {
		err = os.Rename(partial, o.out)
	}
	if err != nil {
		_ = os.Remove(partial) // may be half an image, or not exist
		return fmt.Errorf("writing %s: %w", o.out, err)
	}
	return nil
}

// build lays one layer for the base files and one per binary, so that a rebuild of one binary
// changes one layer.
func build(o options) (v1.Image, error) {
	links, err := linksOf(o.links)
	if err == nil {
		err = o.check(links)
	}
	if err != nil {
		return nil, err
	}
	base, err := baseLayer(o.certs, links)
	if err != nil {
		return nil, err
	}
	layers := []v1.Layer{base}
	if o.base != "" {
		files, err := tree(o.base, "")
		if err != nil {
			return nil, err
		}
		layer, err := layerOf(files...)
		if err != nil {
			return nil, err
		}
		layers = []v1.Layer{layer, base} // the certificates and users are ours
	}
	for _, path := range o.binaries {
		content, err := readStatic(path, o.arch)
		if err != nil {
			return nil, err
		}
		layer, err := layerOf(file{name: filepath.Base(path), mode: 0o755, content: content})
		if err != nil {
			return nil, err
		}
		layers = append(layers, layer)
	}
	if o.share != "" {
		const share = "usr/share/drover/"
		files, err := tree(o.share, share)
		if err != nil {
			return nil, err
		}
		layer, err := layerOf(append([]file{{name: "usr/", mode: 0o755}, {name: "usr/share/", mode: 0o755}, {name: share, mode: 0o755}}, files...)...)
		if err != nil {
			return nil, err
		}
		layers = append(layers, layer)
	}
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		return nil, fmt.Errorf("appending layers: %w", err)
	}
	config, err := configFile(img, o)
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(img, config)
}

func configFile(img v1.Image, o options) (*v1.ConfigFile, error) {
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the image's configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", o.arch
	config.Config = v1.Config{
		User:       "1000:1000",
		WorkingDir: "/",
		Entrypoint: []string{o.entrypoint},
		Env:        []string{"PATH=/", "HOME=/home/machine", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
	}
	return config, nil
}

// file is one entry of a layer; a name that ends in a slash is a folder, one with a target a
// symbolic link.
type file struct {
	name    string
	mode    int64
	content []byte
	target  string
}

// add writes a file into a tarball.
func add(w *tar.Writer, f file) error {
	header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), Typeflag: tar.TypeReg}
	if strings.HasSuffix(f.name, "/") {
		header.Typeflag = tar.TypeDir
	}
	if f.target != "" {
		header.Typeflag, header.Linkname = tar.TypeSymlink, f.target
	}
	err := w.WriteHeader(header)
	if err == nil {
		_, err = w.Write(f.content)
	}
	if err != nil {
		return fmt.Errorf("packing %s: %w", f.name, err)
	}
	return nil
}

func linksOf(links []string) ([]file, error) {
	var files []file
	for _, link := range links {
		name, target, found := strings.Cut(link, "=")
		if !found || name == "" || target == "" {
			return nil, fmt.Errorf("%q is not NAME=BINARY", link)
		}
		files = append(files, file{name: name, mode: 0o777, target: target})
	}
	return files, nil
}

func baseLayer(certs string, links []file) (v1.Layer, error) {
	bundle, err := os.ReadFile(certs)
	if err != nil {
		return nil, fmt.Errorf("reading CA certificates (apt-get install ca-certificates): %w", err)
	}
	if !bytes.Contains(bundle, []byte("-----BEGIN CERTIFICATE-----")) {
		return nil, fmt.Errorf("reading CA certificates: no certificate in %s", certs)
	}
	return layerOf(append([]file{
		{name: "etc/", mode: 0o755},
		{name: "etc/passwd", mode: 0o644, content: []byte(passwd)},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: bundle},
		{name: "home/", mode: 0o755},
		{name: "home/machine/", mode: 0o755},
		{name: "tmp/", mode: 0o1777},
	}, links...)...)
}

func layerOf(files ...file) (v1.Layer, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		if err := add(w, f); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("closing layer: %w", err)
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
}
