package machinedir

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/drover-project/drover/sshkeys"
)

const (
	configFile   = "config.json"
	maxFileBytes = 512 << 10
	// maxArchived bounds the content of an archive: even if it cannot be compressed, the state
	// Secret has space for the rest.
	maxArchived = 640 << 10
	// maxListed bounds the files that are read.
	maxListed = 10_000
	// isoDir is the directory in which the vSphere driver builds an image from the user data.
	isoDir = "cloudinit"
)

// Directory is a machine's directory.
type Directory struct {
	// Store is the directory above "machines"; drivers call it StorePath.
	Store string
	// Name is the machine's name in rancher/machine's sense.
	Name string
}

// New returns the directory of a machine, which need not exist yet.
func New(home, name string) Directory {
	return Directory{Store: filepath.Join(home, ".docker", "machine"), Name: name}
}

// Path of a file of the machine.
func (d Directory) Path(name string) string {
	return filepath.Join(d.Store, "machines", d.Name, name)
}

// Make makes the directory empty.
func (d Directory) Make() error {
	if err := os.RemoveAll(d.Path("")); err != nil {
		return fmt.Errorf("emptying the machine directory: %w", err)
	}
	if err := os.MkdirAll(d.Path(""), 0o700); err != nil {
		return fmt.Errorf("creating the machine directory: %w", err)
	}
	return nil
}

// Restore writes the files of an archive and returns the directory of the machine in it, which
// bears another name when the machine was taken over. An empty archive makes an empty directory.
func (d Directory) Restore(archive []byte) (Directory, error) {
	if len(archive) == 0 {
		return d, d.Make()
	}
	files, err := sshkeys.ReadArchive(archive)
	if err != nil {
		return d, err
	}
	// The requested name counts, or else the name of the only machine.
	asked := d.Name
	for _, file := range files {
		machine, base := path.Split(file.Path)
		machine = strings.TrimSuffix(machine, "/")
		if base != configFile || machine == "" || strings.Contains(machine, "/") {
			continue
		}
		if d.Name = machine; machine == asked {
			break
		}
	}
	if err := d.Make(); err != nil {
		return d, err
	}
	root, err := os.OpenRoot(filepath.Join(d.Store, "machines"))
	if err != nil {
		return d, fmt.Errorf("restoring the machine directory: %w", err)
	}
	defer func() { _ = root.Close() }()
	for _, file := range files {
		name := filepath.FromSlash(file.Path)
		err := root.MkdirAll(filepath.Dir(name), 0o700)
		if err == nil {
			// Drivers check that keys are not readable by others.
			err = root.WriteFile(name, file.Content, 0o600)
		}
		if err != nil {
			return d, fmt.Errorf("restoring the machine directory: %w", err)
		}
	}
	return d, nil
}

// Archive packs the directory with config as its config.json. Files that are too large or too many,
// that rancher/machine leaves out, or that hold user data are left out; the second result names the
// first kind.
func (d Directory) Archive(config []byte) ([]byte, []string, error) {
	files := []sshkeys.File{{Path: path.Join(d.Name, configFile), Mode: 0o600, Content: config}}
	files, skipped, err := d.pack(files)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("packing the machine directory: %w", err)
	}
	archive, err := sshkeys.WriteArchive(filepath.ToSlash(filepath.Join(d.Store, "machines")), files)
	return archive, skipped, err
}

// pack adds the files of the directory, the smaller ones first, so that keys are kept however much
// a driver adds. It reads below the directory's root, so that no link that a driver makes leads out
// of it.
func (d Directory) pack(files []sshkeys.File) (packed []sshkeys.File, skipped []string, err error) {
	root, err := os.OpenRoot(d.Path(""))
	if err != nil {
		return files, nil, err
	}
	defer func() { _ = root.Close() }()
	found, err := list(root)
	if err != nil {
		return files, nil, err
	}
	room := maxArchived
	for _, file := range files {
		room -= len(file.Content)
	}
	for _, at := range found {
		content, mode, err := readRegular(func() (*os.File, error) { return root.OpenFile(at.name, readOnly, 0) })
		if err != nil || len(content) > room || len(files) >= sshkeys.MaxArchiveFiles/2 {
			skipped = append(skipped, at.name)
			continue
		}
		room -= len(content)
		files = append(files, sshkeys.File{Path: path.Join(d.Name, at.name), Mode: int64(mode.Perm()), Content: content})
	}
	slices.Sort(skipped)
	return files, skipped, nil
}

// listed is a file that is worth to be kept.
type listed struct {
	name string
	size int64
}

func list(root *os.Root) ([]listed, error) {
	var found []listed
	err := fs.WalkDir(root.FS(), ".", func(at string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && at != ".":
			return nil // the file was removed since the listing
		case err != nil:
			return err
		case entry.IsDir() && at == isoDir:
			return fs.SkipDir
		case !entry.Type().IsRegular() || at == configFile || sshkeys.IsSkipped(at):
			return nil
		case len(found) == maxListed:
			return fs.SkipAll
		}
		if info, err := entry.Info(); err == nil {
			found = append(found, listed{name: at, size: info.Size()})
		}
		return nil
	})
	slices.SortStableFunc(found, func(a, b listed) int { return cmp.Compare(a.size, b.size) })
	return found, err
}

// readOnly does not wait for the other end of a pipe.
const readOnly = os.O_RDONLY | syscall.O_NONBLOCK

var errNotPlain = fmt.Errorf("it is not a regular file of at most %d bytes", maxFileBytes)

// readRegular reads a file that a driver names or makes. It rejects devices, which never end,
// pipes, and files beyond the size limit.
func readRegular(open func() (*os.File, error)) ([]byte, fs.FileMode, error) {
	file, err := open()
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errNotPlain
	}
	content, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err == nil && len(content) > maxFileBytes {
		err = errNotPlain
	}
	return content, info.Mode(), err
}

// Keys reads the SSH key pair at the path a driver names; a path outside the directory belongs to a
// key of the user's.
func (d Directory) Keys(keyPath string) (sshkeys.KeyPair, error) {
	if keyPath == "" {
		keyPath = d.Path("id_rsa")
	}
	private, _, err := readRegular(func() (*os.File, error) { return os.OpenFile(filepath.Clean(keyPath), readOnly, 0) })
	if errors.Is(err, fs.ErrNotExist) {
		return sshkeys.KeyPair{}, sshkeys.ErrNoKey
	}
	if err != nil {
		return sshkeys.KeyPair{}, fmt.Errorf("reading the server's SSH key: %w", err)
	}
	public, err := sshkeys.PublicOf(private, d.Name)
	if err != nil {
		return sshkeys.KeyPair{}, err
	}
	return sshkeys.KeyPair{Private: private, Public: public}, nil
}
