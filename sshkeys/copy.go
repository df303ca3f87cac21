package sshkeys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/pkg/sftp"
)

// Upload copies a file, or a directory with all it holds, from source to the path remote on the server. Permission bits are
// kept; what is neither a file nor a directory is refused. If remote is a directory, the copy is made in it.
func (c *Client) Upload(ctx context.Context, source fs.FS, name, remote string) error {
	return c.withSFTP(ctx, func(server *sftp.Client) error {
		remote, err := uploadTarget(server, name, remote)
		if err != nil {
			return err
		}
		return fs.WalkDir(source, name, func(at string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			target := path.Join(remote, strings.TrimPrefix(at, name))
			if at == name {
				target = remote
			}
			return uploadEntry(ctx, server, source, at, target)
		})
	})
}

// WriteFile writes content to the path remote on the server. The file has its mode before it has any content.
func (c *Client) WriteFile(ctx context.Context, remote string, content []byte, mode fs.FileMode) error {
	return c.withSFTP(ctx, func(server *sftp.Client) error {
		return upload(ctx, server, bytes.NewReader(content), remote, mode)
	})
}

// Download copies a file, or a directory with all it holds, from the server to name below target, out of which nothing the
// server says can lead. What is neither a file nor a directory is left out.
func (c *Client) Download(ctx context.Context, remote string, target *os.Root, name string) error {
	return c.withSFTP(ctx, func(server *sftp.Client) error {
		info, err := server.Stat(remote)
		if err != nil {
			return fmt.Errorf("looking at %s on the server: %w", remote, err)
		}
		return downloadEntry(ctx, server, remote, target, name, info)
	})
}

// withSFTP ends the transfer when the context ends.
func (c *Client) withSFTP(ctx context.Context, work func(*sftp.Client) error) error {
	server, err := sftp.NewClient(c.ssh)
	if err != nil {
		return fmt.Errorf("starting SFTP: %w", err)
	}
	defer hangUp(server)
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := work(server); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return nil
}

// hangUpGrace is how long a server may take to end SFTP after us; all that matters was acknowledged before.
const hangUpGrace = time.Second

// hangUp does not wait for ever for a server that keeps its side open, as Close would.
func hangUp(server *sftp.Client) {
	done := make(chan struct{})
	go func() {
		_ = server.Close()
		close(done)
	}()
	grace := time.NewTimer(hangUpGrace)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
	}
}

func uploadTarget(server *sftp.Client, name, remote string) (string, error) {
	if remote == "" {
		remote = "."
	}
	info, err := server.Stat(remote)
	if errors.Is(err, fs.ErrNotExist) {
		return remote, nil
	}
	if err != nil {
		return "", fmt.Errorf("looking at %s on the server: %w", remote, err)
	}
	if info.IsDir() && path.Base(name) != "." {
		return path.Join(remote, path.Base(name)), nil
	}
	return remote, nil
}

func uploadEntry(ctx context.Context, server *sftp.Client, source fs.FS, name, remote string) error {
	info, err := fs.Stat(source, name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		if err := server.MkdirAll(remote); err != nil {
			return fmt.Errorf("making the directory %s on the server: %w", remote, err)
		}
		return nil
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("copying %s: it is neither a file nor a directory", name)
	}
	file, err := source.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return upload(ctx, server, file, remote, info.Mode().Perm())
}

func upload(ctx context.Context, server *sftp.Client, content io.Reader, remote string, mode fs.FileMode) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	file, err := server.OpenFile(remote, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return fmt.Errorf("writing %s on the server: %w", remote, err)
	}
	if err := file.Chmod(mode.Perm()); err != nil {
		return errors.Join(fmt.Errorf("setting the mode of %s on the server: %w", remote, err), file.Close())
	}
	if _, err := file.ReadFrom(content); err != nil {
		return errors.Join(fmt.Errorf("writing %s on the server: %w", remote, err), file.Close())
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("writing %s on the server: %w", remote, err)
	}
	return nil
}

func downloadEntry(ctx context.Context, server *sftp.Client, remote string, target *os.Root, name string, info fs.FileInfo) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if info.IsDir() {
		return downloadDir(ctx, server, remote, target, name)
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	source, err := server.Open(remote)
	if err != nil {
		return fmt.Errorf("reading %s on the server: %w", remote, err)
	}
	defer func() { _ = source.Close() }()
	file, err := target.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	if _, err := source.WriteTo(file); err != nil {
		return errors.Join(fmt.Errorf("reading %s on the server: %w", remote, err), file.Close())
	}
	return file.Close()
}

// maxDepth of directories in one another; a server may claim that there is always one more.
const maxDepth = 100

func downloadDir(ctx context.Context, server *sftp.Client, remote string, target *os.Root, name string) error {
	if strings.Count(path.Clean(name), "/") > maxDepth {
		return fmt.Errorf("reading the directory %s on the server: more than %d directories in one another", remote, maxDepth)
	}
	if err := target.MkdirAll(name, 0o755); err != nil {
		return err
	}
	entries, err := server.ReadDir(remote)
	if err != nil {
		return fmt.Errorf("reading the directory %s on the server: %w", remote, err)
	}
	for _, entry := range entries {
		base := entry.Name()
		if base == "." || base == ".." || strings.ContainsRune(base, '/') {
			continue
		}
		if err := downloadEntry(ctx, server, path.Join(remote, base), target, path.Join(name, base), entry); err != nil {
			return err
		}
	}
	return nil
}
