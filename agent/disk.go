package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-project/drover/api/plan"
)

// owner of a file; -1 leaves it as it is.
type owner struct{ uid, gid int }

// temporary ends the names of files that are being written. A crash leaves at most one beside each
// file, and the next write of that file takes it away.
const temporary = ".drover-tmp"

// WriteFile writes a file as a whole, or leaves the old content. After it returns, a power cut does
// not undo the write.
func WriteFile(path string, content []byte, mode os.FileMode) error {
	return writeOwned(path, content, mode, owner{-1, -1})
}

func writeOwned(path string, content []byte, mode os.FileMode, own owner) error {
	folder, name := filepath.Split(path)
	beside := filepath.Join(folder, "."+name+temporary)
	if err := ignoreMissing(os.Remove(beside)); err != nil {
		return err
	}
	file, err := os.OpenFile(beside, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(beside)))
	}
	_, err = file.Write(content)
	if err == nil {
		err = errors.Join(file.Chmod(mode), chown(beside, own), file.Sync())
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(beside, path)
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(beside)))
	}
	return syncFolder(folder)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// putFile makes one file of a plan true and touches nothing that is.
func putFile(f plan.File) error {
	path := filepath.Clean(f.Path)
	if f.Action == plan.ActionDelete {
		return deleteFile(path, f.Directory)
	}
	perm, err := f.Mode()
	if err != nil {
		return err
	}
	mode, own := os.FileMode(perm), owner{f.UID, f.GID}
	if f.Directory {
		if err := os.MkdirAll(path, mode|0o700); err != nil {
			return err
		}
		return errors.Join(os.Chmod(path, mode), chown(path, own))
	}
	content, err := f.Bytes()
	if err != nil {
		return err
	}
	if isWritten(path, content, mode, own) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), plan.DefaultDirectoryMode); err != nil {
		return err
	}
	return writeOwned(path, content, mode, own)
}

// isWritten reports whether a file is there as the plan wants it.
func isWritten(path string, content []byte, mode os.FileMode, own owner) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != mode || info.Size() != int64(len(content)) || !isOwner(info, own) {
		return false
	}
	is, err := ReadBounded(path, int64(len(content)))
	return err == nil && string(is) == string(content)
}

// deleteFile removes a file or, when the plan says that it is one, a folder with all that is in it.
func deleteFile(path string, folder bool) error {
	if !folder {
		return ignoreMissing(os.Remove(path))
	}
	rest := strings.Trim(filepath.ToSlash(path[len(filepath.VolumeName(path)):]), "/")
	if !strings.Contains(rest, "/") {
		return fmt.Errorf("deleting %s: a folder at the root is not deleted", path)
	}
	return os.RemoveAll(path)
}
