package sshkeys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// Command is a command to run on a server.
type Command struct {
	// Line is given to the user's login shell; use Quote for arguments.
	Line string
	// Stdin may be nil; Stdout and Stderr may be nil to drop the output.
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Terminal, if set, runs the command in a terminal; an empty Line with a terminal is a login
	// shell.
	Terminal *Terminal
}

// Terminal describes the terminal in front of the user.
type Terminal struct {
	// Type as in $TERM; xterm when empty.
	Type string
	// Size at the start, and its changes; Resize may be nil.
	Size   Size
	Resize <-chan Size
}

// Size of a terminal in characters.
type Size struct {
	Columns int
	Rows    int
}

// Quote makes one word of a POSIX shell from text.
func Quote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// NoStatus is the exit status of OpenSSH's client without a login, and of a command that a signal
// ended.
const NoStatus = 255

// endGrace is how long a command may take to end after the signal; then the connection is closed.
const endGrace = time.Second

// Run runs a command and returns its exit status. An error means that the status is unknown: the
// connection broke, the context ended, or the server rejected the command. A command killed by a
// signal has NoStatus. When the context ends, the command gets SIGTERM, and then the connection is
// closed: sshd answers the end of a session only after its command has ended.
func (c *Client) Run(ctx context.Context, command Command) (int, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	session, err := c.ssh.NewSession()
	if err != nil {
		return 0, fmt.Errorf("opening an SSH session: %w", err)
	}
	defer func() { _ = session.Close() }()
	session.Stdout, session.Stderr = command.Stdout, command.Stderr
	if command.Stdin != nil {
		pipe, err := session.StdinPipe()
		if err != nil {
			return 0, fmt.Errorf("opening the standard input: %w", err)
		}
		defer func() { _ = pipe.Close() }()
		// A separate goroutine: the session's Wait would otherwise wait for a stdin that is never
		// closed.
		go func() {
			_, _ = io.Copy(pipe, command.Stdin)
			_ = pipe.Close()
		}()
	}
	err = start(ctx, session, command)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return 0, fmt.Errorf("starting a command over SSH: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = c.interrupt(ctx, session, ended)
	}
	status, err := exitStatus(ctx, err)
	if err != nil && c.silent.Load() {
		err = errors.Join(ErrSilent, err)
	}
	return status, err
}

// interrupt ends the command of a session or, if that fails, the connection.
func (c *Client) interrupt(ctx context.Context, session *ssh.Session, ended <-chan error) error {
	// A server that no longer reads must not block Run.
	go func() { _ = session.Signal(ssh.SIGTERM) }()
	grace := time.NewTimer(endGrace)
	defer grace.Stop()
	select {
	case err := <-ended:
		return err
	case <-grace.C:
	}
	_ = c.Close()
	grace.Reset(endGrace)
	select {
	case err := <-ended:
		return err
	case <-grace.C: // the reader of the output is blocked
		return context.Cause(ctx)
	}
}

// start runs the command, in a terminal if there is one.
func start(ctx context.Context, session *ssh.Session, command Command) error {
	if terminal := command.Terminal; terminal != nil {
		size := terminal.Size
		if size.Columns <= 0 || size.Rows <= 0 {
			size = Size{Columns: 80, Rows: 24}
		}
		if err := session.RequestPty(cmp.Or(terminal.Type, "xterm"), size.Rows, size.Columns, ssh.TerminalModes{}); err != nil {
			return err
		}
		// The sizes are followed until the context, the channel or the session ends.
		go func() {
			for terminal.Resize != nil {
				select {
				case <-ctx.Done():
					return
				case size, ok := <-terminal.Resize:
					if !ok || session.WindowChange(size.Rows, size.Columns) != nil {
						return
					}
				}
			}
		}()
	}
	if command.Line == "" {
		return session.Shell()
	}
	return session.Start(command.Line)
}

func exitStatus(ctx context.Context, err error) (int, error) {
	var exit *ssh.ExitError
	switch {
	case err == nil:
		return 0, nil
	case ctx.Err() != nil:
		return 0, fmt.Errorf("running a command over SSH: %w", context.Cause(ctx))
	case errors.As(err, &exit):
		if exit.Signal() != "" {
			return NoStatus, nil
		}
		return exit.ExitStatus(), nil
	}
	return 0, fmt.Errorf("running a command over SSH: %w", err)
}
