package sshkeys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/pkg/sftp"
)

// WriteFile writes content to the path remote on the server. The file has its mode before it has
// any content.
func (c *Client) WriteFile(ctx context.Context, remote string, content []byte, mode fs.FileMode) error {
	return c.withSFTP(ctx, func(server *sftp.Client) error {
		return upload(ctx, server, bytes.NewReader(content), remote, mode)
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
	// A server that no longer answers would block the end of SFTP, but not the end of the
	// connection.
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if err := work(server); err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return nil
}

// hangUpGrace is how long a server may take to end SFTP; all data was acknowledged before.
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
