package sshkeys

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/pkg/sftp"
)

// What a copy does with what it finds is what OpenSSH's scp -r does (sftp-client.c, upload_dir and download_dir; links to
// directories since 9.6): symbolic links are followed, files and new directories get the modes of their sources, existing ones keep theirs, and what is neither a file
// nor a directory, or cannot be copied, is left out while the rest is copied.

// LeftOutError is the end of a copy that left something out.
type LeftOutError struct{ Count int }

// Error implements error.
func (e *LeftOutError) Error() string {
	if e.Count == 1 {
		return "1 entry was not copied"
	}
	return fmt.Sprintf("%d entries were not copied", e.Count)
}

// Upload copies a file, or a directory with all it holds, from source to the path remote on the server. If remote is a directory,
// the copy is made in it. What is left out is told to leftOut, and then the end is a LeftOutError.
func (c *Client) Upload(ctx context.Context, source fs.FS, name, remote string, leftOut func(error)) error {
	return c.withSFTP(ctx, func(server *sftp.Client) error {
		info, err := fs.Stat(source, name)
		if err != nil {
			return err
		}
		remote := cmp.Or(remote, ".")
		there, err := server.Stat(remote)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("looking at %s on the server: %w", remote, err)
		}
		if err == nil && there.IsDir() && path.Base(name) != "." {
			remote = path.Join(remote, path.Base(name))
		}
		t := &transfer{ctx: ctx, server: server, tell: leftOut, alone: !info.IsDir()}
		return t.end(t.upload(source, name, remote, nil))
	})
}

// WriteFile writes content to the path remote on the server. The file has its mode before it has any content.
func (c *Client) WriteFile(ctx context.Context, remote string, content []byte, mode fs.FileMode) error {
	return c.withSFTP(ctx, func(server *sftp.Client) error {
		return upload(ctx, server, bytes.NewReader(content), remote, mode)
	})
}

// Download copies a file, or a directory with all it holds, from the server to name below target, out of which nothing the
// server says can lead. What is left out is told as by Upload.
func (c *Client) Download(ctx context.Context, remote string, target *os.Root, name string, leftOut func(error)) error {
	return c.withSFTP(ctx, func(server *sftp.Client) error {
		info, err := server.Stat(remote)
		if err != nil {
			return fmt.Errorf("looking at %s on the server: %w", remote, err)
		}
		t := &transfer{ctx: ctx, server: server, tell: leftOut, alone: !info.IsDir()}
		return t.end(t.download(remote, target, name, info))
	})
}

// withSFTP ends the transfer when the context ends.
func (c *Client) withSFTP(ctx context.Context, work func(*sftp.Client) error) error {
	server, err := sftp.NewClient(c.ssh)
	if err != nil {
		return fmt.Errorf("starting SFTP: %w", err)
	}
	defer func() { // not for ever: a server may keep its side open
		done := make(chan struct{})
		go func() {
			_ = server.Close()
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(hangUpGrace):
		}
	}()
	// A server that answers no more would hold up the end of SFTP, but not that of the connection.
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if err := work(server); err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return nil
}

// hangUpGrace is how long a server may take to end SFTP after us; all that matters was acknowledged before.
const hangUpGrace = time.Second

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
