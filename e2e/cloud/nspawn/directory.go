package nspawn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/moby/sys/mountinfo"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/drover-project/drover/e2e/cloud/server"
)

// rootMode is the mode that / must have for logins other than root.
const rootMode = 0o755

// serverDir is the directory of one server.
type serverDir string

// The content of a server's directory.
const (
	rootDir = "root"
	// upperDir is the root's upper layer, and workDir that layer's work directory.
	upperDir, workDir = "upper", "work"
	// completeFile names the image, once everything is there for the first boot.
	completeFile = "complete"
	// copiedFile is there once the root is a whole copy of the image.
	copiedFile  = "copied"
	processFile = "process.json"
	// containerdDir is containerd's directory, which must not be an overlay itself.
	containerdDir = "containerd"
)

func (d serverDir) name() string          { return filepath.Base(string(d)) }
func (d serverDir) in(name string) string { return filepath.Join(string(d), name) }

// prepare writes everything the server needs before its first boot.
func (d serverDir) prepare(spec server.Spec, opts Options) error {
	for _, path := range []string{d.in(rootDir), d.in(upperDir), d.in(workDir), d.in(containerdDir)} {
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
		if err := writeFile(filepath.Join(d.in(upperDir), file.name), file.content, file.mode); err != nil {
			return err
		}
	}
	return replaceFile(d.in(completeFile), opts.Image)
}

// mountRoot puts a writable root over the image: an overlay where the file
// system can, else a copy, for which it is noted when it is whole.
func (b *Backend) mountRoot(ctx context.Context, image string, dir serverDir) error {
	if isMounted(dir.in(rootDir)) || exists(dir.in(copiedFile)) {
		return nil
	}
	// A comma ends an option, a colon a lower layer.
	option, layer := strings.NewReplacer(`\`, `\\`, `,`, `\,`), strings.NewReplacer(`\`, `\\`, `,`, `\,`, `:`, `\:`)
	mountErr := b.host.mountOverlay(dir.in(rootDir), fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s",
		layer.Replace(image), option.Replace(dir.in(upperDir)), option.Replace(dir.in(workDir))))
	if mountErr == nil {
		return nil
	}
	if err := copyRoot(ctx, image, dir); err != nil {
		return fmt.Errorf("making root of %s: overlay: %w; copy: %w", dir.name(), mountErr, err)
	}
	return replaceFile(dir.in(copiedFile), "")
}

// copyRoot is for state directories on file systems that cannot carry an overlay.
func copyRoot(ctx context.Context, image string, dir serverDir) error {
	if err := os.RemoveAll(dir.in(rootDir)); err != nil { // the remains of an interrupted copy
		return err
	}
	if err := makeDir(dir.in(rootDir)); err != nil {
		return err
	}
	for _, from := range []string{image, dir.in(upperDir)} {
		output, err := exec.CommandContext(ctx, "cp", "-a", "--reflink=auto", from+"/.", dir.in(rootDir)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, bytes.TrimSpace(output))
		}
	}
	return nil
}

// unmountBelow unmounts everything mounted at or below path, innermost first.
func unmountBelow(path string) error {
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(path))
	if err != nil {
		return fmt.Errorf("reading mounts: %w", err)
	}
	for _, mount := range slices.Backward(mounts) {
		if err := syscall.Unmount(mount.Mountpoint, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
			return fmt.Errorf("unmounting %s: %w", mount.Mountpoint, err)
		}
	}
	return nil
}

func isMounted(path string) bool {
	mounts, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(path))
	return err == nil && len(mounts) > 0
}

// lockEvery is how often a lock that another process holds is tried again.
const lockEvery = 200 * time.Millisecond

// realPath returns an absolute path without links, as the kernel reports mounts; the end of the
// path need not exist.
func realPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return resolved, err
	}
	parent, err := realPath(filepath.Dir(path))
	return filepath.Join(parent, filepath.Base(path)), err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// makeDir makes a directory and its parents. Each can be entered by every
// login, whatever our umask: they end up in a server's root.
func makeDir(path string) error {
	if exists(path) {
		return nil
	}
	if err := makeDir(filepath.Dir(path)); err != nil {
		return err
	}
	if err := os.Mkdir(path, rootMode); err != nil {
		return fmt.Errorf("making directory: %w", err)
	}
	if err := os.Chmod(path, rootMode); err != nil {
		return fmt.Errorf("making directory: %w", err)
	}
	return nil
}

// writeFile writes a file of a server's root, with the mode it shall have whatever our umask.
func writeFile(path, content string, mode os.FileMode) error {
	if err := makeDir(filepath.Dir(path)); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		return fmt.Errorf("writing file: %w", err)
	}
	if err := os.Chmod(path, mode); err != nil {
		return fmt.Errorf("writing file: %w", err)
	}
	return nil
}

// replaceFile writes a file atomically: a reader finds either version complete, even after a crash.
func replaceFile(path, content string) error {
	fresh := path + ".new"
	if err := os.WriteFile(fresh, []byte(content), 0o600); err != nil {
		return fmt.Errorf("writing file: %w", err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return fmt.Errorf("writing file: %w", err)
	}
	return nil
}

// lockFile waits for the lock on a file.
func lockFile(ctx context.Context, path string) (func(), error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening lock: %w", err)
	}
	err = wait.PollUntilContextCancel(ctx, lockEvery, true, func(context.Context) (bool, error) {
		return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil, nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for %s: %w", path, err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}
