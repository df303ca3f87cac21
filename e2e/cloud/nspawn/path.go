package nspawn

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// lockEvery is how often a lock that another process holds is tried again.
const lockEvery = 200 * time.Millisecond

// realPath is absolute and without links, as the kernel tells of mounts; its end may be yet to be made.
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

// replaceFile writes a file of ours: whoever finds it finds all of it, also after a crash.
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

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// lockFile waits for the lock on a file, and tells once when it has to.
func lockFile(ctx context.Context, path string, waiting func()) (func(), error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening lock: %w", err)
	}
	for told := false; syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil; told = true {
		if !told {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("waiting for %s: %w", path, ctx.Err()), file.Close())
		case <-time.After(lockEvery):
		}
	}
	return func() { _ = file.Close() }, nil
}
