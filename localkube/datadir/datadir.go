package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxRoot keeps every unix socket below the data directory within the 108
// bytes a socket address can hold.
const maxRoot = 72

// Dir is one data directory.
type Dir struct {
	root string
}

// Open names a data directory and makes it when it is missing.
func Open(path string) (Dir, error) {
	d, err := Locate(path)
	if err != nil {
		return Dir{}, err
	}
	if err := os.MkdirAll(d.root, 0o700); err != nil {
		return Dir{}, fmt.Errorf("making data directory: %w", err)
	}
	return d, nil
}

// Locate names a data directory that may not exist.
func Locate(path string) (Dir, error) {
	if path == "" {
		return Dir{}, errors.New("no data directory given: set --data-dir")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return Dir{}, fmt.Errorf("resolving data directory: %w", err)
	}
	if len(abs) > maxRoot {
		return Dir{}, fmt.Errorf("data directory %s is %d bytes long: unix sockets below it allow at most %d", abs, len(abs), maxRoot)
	}
	return Dir{root: abs}, nil
}

// Empty tells whether there is nothing in the directory, or no directory.
func (d Dir) Empty() (bool, error) {
	entries, err := os.ReadDir(d.root)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking into data directory: %w", err)
	}
	return len(entries) == 0, nil
}

// Exists tells whether the directory is on disk.
func (d Dir) Exists() bool {
	info, err := os.Stat(d.root)
	return err == nil && info.IsDir()
}

// Root is the absolute path of the directory.
func (d Dir) Root() string { return d.root }

// Path joins elements below the directory.
func (d Dir) Path(elem ...string) string {
	return filepath.Join(append([]string{d.root}, elem...)...)
}

// Make joins elements below the directory and makes that directory.
func (d Dir) Make(elem ...string) (string, error) {
	path := d.Path(elem...)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("making %s: %w", path, err)
	}
	return path, nil
}

// Write stores a file below the directory, atomically and readable by its
// owner only: most of what localkube writes is, or leads to, a credential.
func (d Dir) Write(content []byte, elem ...string) error {
	return WriteFile(d.Path(elem...), content)
}

// WriteFile stores content at path, atomically and with mode 0600. Sync makes
// it last.
func WriteFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("making directory of %s: %w", path, err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	_, err = tmp.Write(content)
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
}

// Sync puts everything written so far on disk: a key cut short by a power
// failure would take the cluster with it. It is one call for all files, because
// one for each takes longer than everything else a start does.
func (d Dir) Sync() (err error) {
	root, err := os.Open(d.root)
	if err != nil {
		return fmt.Errorf("syncing data directory: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if err := unix.Syncfs(int(root.Fd())); err != nil {
		return fmt.Errorf("syncing data directory: %w", err)
	}
	return nil
}

// Room is how much can still be written, in bytes.
func (d Dir) Room() (uint64, error) {
	var state unix.Statfs_t
	if err := unix.Statfs(d.root, &state); err != nil {
		return 0, fmt.Errorf("asking for the room left for %s: %w", d.root, err)
	}
	return state.Bavail * uint64(max(state.Bsize, 1)), nil
}

// Kubeconfig is where the administrator's kubeconfig is kept.
func (d Dir) Kubeconfig() string { return d.Path("kubeconfig") }

// Log is the log file of a component.
func (d Dir) Log(component string) string { return d.Path("logs", component+".log") }
