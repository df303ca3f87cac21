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

// errNoSFTP means that the server does not start SFTP.
var errNoSFTP = errors.New("the server does not offer SFTP")

// WriteFile writes content to the path remote on the server. The file has its mode before it has
// any content. A server without SFTP, such as one whose sshd_config has no Subsystem line, gets the
// content on the standard input of a command.
func (c *Client) WriteFile(ctx context.Context, remote string, content []byte, mode fs.FileMode) error {
	err := c.withSFTP(ctx, func(server *sftp.Client) error {
		return upload(ctx, server, bytes.NewReader(content), remote, mode)
	})
	if !errors.Is(err, errNoSFTP) || ctx.Err() != nil {
		return err
	}
	if commandErr := c.writeByCommand(ctx, remote, content, mode); commandErr != nil {
		return fmt.Errorf("%w; without SFTP: %w", err, commandErr)
	}
	return nil
}

// writeScript empties the file $0, sets its mode $1, and fills it from the standard input.
const writeScript = `umask 077; : >"$0" && chmod "$1" "$0" && cat >"$0"`

func (c *Client) writeByCommand(ctx context.Context, remote string, content []byte, mode fs.FileMode) error {
	var printed bytes.Buffer
	status, err := c.Run(ctx, Command{
		Line:  fmt.Sprintf("sh -c %s %s %04o", Quote(writeScript), Quote(remote), mode.Perm()),
		Stdin: bytes.NewReader(content), Stdout: io.Discard, Stderr: &head{buffer: &printed, left: maxPrinted},
	})
	if err == nil && status != 0 {
		err = fmt.Errorf("exit status %d: %s", status, bytes.TrimSpace(printed.Bytes()))
	}
	if err != nil {
		return fmt.Errorf("writing %s on the server: %w", remote, err)
	}
	return nil
}

// maxPrinted bounds the error output of a command that is kept.
const maxPrinted = 1 << 10

// head keeps the first bytes that are written to it.
type head struct {
	buffer *bytes.Buffer
	left   int
}

func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), h.left)
	h.left -= n
	h.buffer.Write(p[:n])
	return len(p), nil
}

// withSFTP ends the transfer when the context ends.
func (c *Client) withSFTP(ctx context.Context, work func(*sftp.Client) error) error {
	server, err := sftp.NewClient(c.ssh)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoSFTP, err)
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
