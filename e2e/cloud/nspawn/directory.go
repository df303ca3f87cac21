package nspawn

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/drover-project/drover/e2e/cloud/server"
)

// rootMode is what / must have, for logins other than root.
const rootMode = 0o755

// serverDir is the directory of one server.
type serverDir string

func (d serverDir) name() string            { return filepath.Base(string(d)) }
func (d serverDir) in(name string) string   { return filepath.Join(string(d), name) }
func (d serverDir) root() string            { return d.in("root") }
func (d serverDir) upper() string           { return d.in("upper") }
func (d serverDir) work() string            { return d.in("work") }
func (d serverDir) containerd() string      { return d.in("containerd") }
func (d serverDir) complete() string        { return d.in("complete") }
func (d serverDir) copied() string          { return d.in("copied") }
func (d serverDir) file(name string) string { return filepath.Join(d.upper(), name) }
func (d serverDir) processFile() string     { return d.in("process.json") }

// image returns the root file system the server was made from; a later one
// would not fit what the server has written over it.
func (d serverDir) image() (string, error) {
	content, err := os.ReadFile(d.complete())
	if err != nil {
		return "", fmt.Errorf("reading image of %s: %w", d.name(), err)
	}
	image := string(content)
	if !filepath.IsAbs(image) {
		return "", fmt.Errorf("reading image of %s: %q is no path of one", d.name(), image)
	}
	if !exists(image) {
		return "", fmt.Errorf("reading image of %s: %s, which it was made from, is gone", d.name(), image)
	}
	return image, nil
}

// prepare writes everything the server needs before its first boot.
func (d serverDir) prepare(spec server.Spec, opts Options) error {
	for _, path := range []string{d.root(), d.upper(), d.work(), d.containerd()} {
		if err := makeDir(path); err != nil {
			return err
		}
	}
	private, public, machineID, err := identity()
	if err != nil {
		return err
	}
	seedFiles, err := seed(spec, opts.Gateway)
	if err != nil {
		return err
	}
	type file struct {
		name, content string
		mode          os.FileMode
	}
	files := []file{
		{hostKeyFile, private, 0o600}, {hostKeyFile + ".pub", public, 0o644}, {machineIDFile, machineID, 0o444},
	}
	for name, content := range seedFiles {
		files = append(files, file{filepath.Join(seedDir, name), content, 0o600})
	}
	for _, file := range files {
		if err := writeFile(d.file(file.name), file.content, file.mode); err != nil {
			return err
		}
	}
	return replaceFile(d.complete(), opts.Image)
}
