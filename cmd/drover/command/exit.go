package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/cmd/drover/inventory"
	"github.com/drover-project/drover/sshkeys"
)

// Exit codes.
const (
	codeOK          = 0
	codeError       = 1
	codeUsage       = 2
	codeInterrupted = 130
	// codeNoLogin is the exit code of ssh if a signal ended the command or the login failed;
	// OpenSSH uses the same code.
	codeNoLogin = sshkeys.NoStatus
)

// usageError is a mistake in the command line.
type usageError struct {
	error

	help string
}

// Unwrap gives the cause.
func (e *usageError) Unwrap() error { return e.error }

// exitError ends the process with a code. If it has no cause, no message is printed, because the
// command printed it before.
type exitError struct {
	code  int
	cause error
}

// Error implements error.
func (e *exitError) Error() string { return fmt.Sprintf("exit status %d: %v", e.code, e.cause) }

func usage(cmd *cobra.Command, err error) error {
	return &usageError{err, cmd.CommandPath() + " --help"}
}

func usagef(cmd *cobra.Command, format string, args ...any) error {
	return usage(cmd, fmt.Errorf(format, args...))
}

// oneName wants exactly one NAME.
func oneName(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("one NAME is needed, %d were given", len(args))
	}
	return nil
}

// report writes an error for the user, in one line, and returns the exit code.
func (e *env) report(ctx context.Context, err error) int {
	code := codeOK
	if exit, ok := errors.AsType[*exitError](err); ok {
		code, err = exit.code, exit.cause
	}
	var wrong *usageError
	switch {
	case err == nil, code != codeOK && ctx.Err() != nil:
		return code
	case errors.As(err, &wrong):
		_, _ = fmt.Fprintf(e.Streams.ErrOut, "error: %s; see '%s'\n", inventory.Plain(err), wrong.help)
		return codeUsage
	case ctx.Err() != nil:
		return codeInterrupted
	}
	text := inventory.Plain(err)
	raw, _ := e.flags.ToRawKubeConfigLoader().RawConfig()
	if name := cmp.Or(ptr.Deref(e.flags.Context, ""), raw.CurrentContext); name != "" && inventory.IsUnreachable(err) {
		text += fmt.Sprintf(" (context %q; choose another with --context)", name)
	}
	_, _ = fmt.Fprintf(e.Streams.ErrOut, "error: %s\n", text)
	return cmp.Or(code, codeError)
}
