package sshkeys

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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
	// Terminal, if set, runs the command in a terminal; an empty Line with a terminal is a login shell.
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

// NoStatus is the exit status of a command that a signal ended, and of an ssh that has none to tell: OpenSSH's client exits so.
const NoStatus = 255

// Interrupted is the cause of a context that a signal to this process ended: the remote command is to get the same one.
type Interrupted struct{ Signal os.Signal }

// Error implements error.
func (i Interrupted) Error() string { return i.Signal.String() }

// endGrace is how long a command may take to end after the signal; then the connection is closed.
const endGrace = time.Second

// Run runs a command and returns its exit status. An error means that there is no exit status: the connection broke, the
// context ended, or the server refused; a command killed by a signal has NoStatus. When the context ends, the command gets a
// signal, and then the connection is closed: sshd answers the end of a session only when its command has ended.
func (c *Client) Run(ctx context.Context, command Command) (int, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	session, err := c.ssh.NewSession()
	if err != nil {
		return 0, fmt.Errorf("opening an SSH session: %w", err)
	}
	defer func() { _ = session.Close() }()
	session.Stdout, session.Stderr = command.Stdout, command.Stderr
	closeStdin, err := feedStdin(session, command.Stdin)
	if err != nil {
		return 0, err
	}
	defer closeStdin()
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

// interrupt ends the command of a session and, where that does not, the connection.
func (c *Client) interrupt(ctx context.Context, session *ssh.Session, ended <-chan error) error {
	signal := ssh.SIGTERM
	if cause, ok := errors.AsType[Interrupted](context.Cause(ctx)); ok && cause.Signal == os.Interrupt {
		signal = ssh.SIGINT
	}
	// A server that reads no more must not hold us up.
	go func() { _ = session.Signal(signal) }()
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
	case <-grace.C: // whoever reads the output does not
		return context.Cause(ctx)
	}
}

// Shell runs a login shell in a terminal.
func (c *Client) Shell(ctx context.Context, terminal Terminal, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	return c.Run(ctx, Command{Stdin: stdin, Stdout: stdout, Stderr: stderr, Terminal: &terminal})
}

// feedStdin copies in a goroutine of its own, for the session's Wait would otherwise wait for a stdin that nobody closes.
func feedStdin(session *ssh.Session, stdin io.Reader) (func(), error) {
	if stdin == nil {
		return func() {}, nil
	}
	pipe, err := session.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("opening the standard input: %w", err)
	}
	go func() {
		_, _ = io.Copy(pipe, stdin)
		_ = pipe.Close()
	}()
	return func() { _ = pipe.Close() }, nil
}

func start(ctx context.Context, session *ssh.Session, command Command) error {
	if command.Terminal != nil {
		if err := requestTerminal(ctx, session, *command.Terminal); err != nil {
			return err
		}
	}
	if command.Line == "" {
		return session.Shell()
	}
	return session.Start(command.Line)
}

func requestTerminal(ctx context.Context, session *ssh.Session, terminal Terminal) error {
	if terminal.Type == "" {
		terminal.Type = "xterm"
	}
	if terminal.Size.Columns <= 0 || terminal.Size.Rows <= 0 {
		terminal.Size = Size{Columns: 80, Rows: 24}
	}
	if err := session.RequestPty(terminal.Type, terminal.Size.Rows, terminal.Size.Columns, ssh.TerminalModes{}); err != nil {
		return err
	}
	if terminal.Resize != nil {
		go followSize(ctx, session, terminal.Resize)
	}
	return nil
}

// followSize ends with the context, with the channel, or with the session.
func followSize(ctx context.Context, session *ssh.Session, sizes <-chan Size) {
	for {
		select {
		case <-ctx.Done():
			return
		case size, ok := <-sizes:
			if !ok || session.WindowChange(size.Rows, size.Columns) != nil {
				return
			}
		}
	}
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
