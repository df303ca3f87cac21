package sshkeys

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/pkg/sftp"
)

// maxDepth of directories in one another, as in OpenSSH: a server may claim that there is always one more, and a link may lead to
// a directory above itself.
const maxDepth = 64

// modeMask is what a directory takes of its source's mode: the sticky bit too, but not setuid and setgid.
const modeMask = fs.ModePerm | fs.ModeSticky

// transfer is the copying of one tree.
type transfer struct {
	ctx    context.Context //nolint:containedctx // one copy's, and every step of it ends with it
	server *sftp.Client
	tell   func(error)
	left   int
	// alone is a file that was named itself: without it, there is nothing to go on with.
	alone bool
}

// end is how the copy ended, after the error that ended it, if one did.
func (t *transfer) end(err error) error {
	if err == nil && t.left > 0 {
		return &LeftOutError{Count: t.left}
	}
	return err
}

// leaveOut goes on after an error, unless the connection or the context has ended.
func (t *transfer) leaveOut(err error) error {
	if err == nil || t.alone || t.ctx.Err() != nil || errors.Is(err, sftp.ErrSSHFxConnectionLost) || isBroken(err) {
		return err
	}
	t.left++
	if t.tell != nil {
		t.tell(err)
	}
	return nil
}

// upload copies what name is; above are the directories it is in.
func (t *transfer) upload(source fs.FS, name, remote string, above []fs.FileInfo) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	info, err := fs.Stat(source, name)
	switch {
	case err != nil:
		return t.leaveOut(fmt.Errorf("leaving out %s: %w", name, err))
	case info.IsDir():
		return t.uploadDir(source, name, remote, append(above, info))
	case !info.Mode().IsRegular():
		return t.leaveOut(fmt.Errorf("leaving out %s: it is neither a file nor a directory", name))
	}
	file, err := source.Open(name)
	if err != nil {
		return t.leaveOut(fmt.Errorf("leaving out %s: %w", name, err))
	}
	defer func() { _ = file.Close() }()
	mode := info.Mode().Perm()
	if there, err := t.server.Stat(remote); err == nil {
		mode = there.Mode() // a new file gets the mode of its source before it has any content, one that is there keeps its own
	}
	return t.leaveOut(upload(t.ctx, t.server, file, remote, mode))
}

// uploadDir copies the directory that is the last of path.
func (t *transfer) uploadDir(source fs.FS, name, remote string, way []fs.FileInfo) error {
	info, above := way[len(way)-1], way[:len(way)-1]
	if slices.ContainsFunc(above, func(dir fs.FileInfo) bool { return os.SameFile(dir, info) }) {
		return t.leaveOut(fmt.Errorf("leaving out %s: it is a link to a directory that it is in", name))
	}
	if len(above) >= maxDepth {
		return t.leaveOut(fmt.Errorf("leaving out %s: more than %d directories in one another", name, maxDepth))
	}
	entries, err := fs.ReadDir(source, name)
	if err != nil {
		// What could be read of it is copied.
		if err := t.leaveOut(fmt.Errorf("reading the directory %s: %w", name, err)); err != nil {
			return err
		}
	}
	made := true
	if err := t.server.Mkdir(remote); err != nil {
		// SFTP has no error of its own for a directory that is there.
		if there, statErr := t.server.Stat(remote); statErr != nil || !there.IsDir() {
			return t.leaveOut(fmt.Errorf("making the directory %s on the server: %w", remote, err))
		}
		made = false
	}
	for _, entry := range entries {
		if err := t.upload(source, path.Join(name, entry.Name()), path.Join(remote, entry.Name()), way); err != nil {
			return err
		}
	}
	if !made {
		return nil
	}
	// At last, for nothing can be written into a directory that is read only.
	if err := t.server.Chmod(remote, info.Mode()&modeMask); err != nil {
		return t.leaveOut(fmt.Errorf("setting the mode of %s on the server: %w", remote, err))
	}
	return nil
}

// download copies what remote is, which is what info says.
func (t *transfer) download(remote string, target *os.Root, name string, info fs.FileInfo) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	switch {
	case info.IsDir():
		return t.downloadDir(remote, target, name, info.Mode()&modeMask)
	case !info.Mode().IsRegular():
		return t.leaveOut(fmt.Errorf("leaving out %s: it is neither a file nor a directory", remote))
	}
	source, err := t.server.Open(remote)
	if err != nil {
		return t.leaveOut(fmt.Errorf("reading %s on the server: %w", remote, err))
	}
	defer func() { _ = source.Close() }()
	// Its owner may write it, so that it can be copied again.
	file, err := target.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm()|0o200)
	if err != nil {
		return t.leaveOut(err)
	}
	if _, err := source.WriteTo(file); err != nil {
		return t.leaveOut(errors.Join(fmt.Errorf("reading %s on the server: %w", remote, err), file.Close()))
	}
	return t.leaveOut(file.Close())
}

func (t *transfer) downloadDir(remote string, target *os.Root, name string, mode fs.FileMode) error {
	if strings.Count(path.Clean(name), "/") >= maxDepth {
		return t.leaveOut(fmt.Errorf("leaving out %s: more than %d directories in one another", remote, maxDepth))
	}
	made := true
	// Until its end, it must be written into.
	if err := target.Mkdir(name, mode|0o300); err != nil {
		if there, statErr := target.Stat(name); statErr != nil || !there.IsDir() {
			return t.leaveOut(err)
		}
		made = false
	}
	entries, err := t.server.ReadDirContext(t.ctx, remote)
	if err != nil {
		if err := t.leaveOut(fmt.Errorf("reading the directory %s on the server: %w", remote, err)); err != nil {
			return err
		}
	}
	for _, entry := range entries {
		if err := t.downloadEntry(remote, target, name, entry); err != nil {
			return err
		}
	}
	if !made || mode&0o300 == 0o300 {
		return nil
	}
	return t.leaveOut(target.Chmod(name, mode))
}

// downloadEntry copies an entry of a directory.
func (t *transfer) downloadEntry(remote string, target *os.Root, name string, info fs.FileInfo) error {
	base := info.Name()
	switch {
	case base == ".", base == "..":
		return nil
	case base == "", strings.ContainsRune(base, '/'):
		return t.leaveOut(fmt.Errorf("leaving out %q of the directory %s on the server: it is no name", base, remote))
	}
	from := path.Join(remote, base)
	if info.Mode()&fs.ModeSymlink != 0 {
		var err error
		if info, err = t.server.Stat(from); err != nil {
			return t.leaveOut(fmt.Errorf("leaving out %s: following the link: %w", from, err))
		}
		if info.IsDir() && t.isAbove(from) {
			return t.leaveOut(fmt.Errorf("leaving out %s: it is a link to a directory that it is in", from))
		}
	}
	return t.download(from, target, path.Join(name, base), info)
}

// isAbove reports whether a link leads to a directory that it is in, by what the server says; maxDepth is for servers that lie.
func (t *transfer) isAbove(link string) bool {
	dir, err := t.server.RealPath(path.Dir(link))
	if err != nil {
		return false
	}
	to, err := t.server.RealPath(link)
	return err == nil && strings.HasPrefix(strings.TrimSuffix(dir, "/")+"/", strings.TrimSuffix(to, "/")+"/")
}
