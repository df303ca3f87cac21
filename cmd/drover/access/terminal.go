package access

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/term"

	"github.com/drover-project/drover/sshkeys"
)

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// userTerminal is the terminal in front of the user, put into raw mode; restore puts it back. Streams that are no terminal
// give one of the usual size, which never changes.
func userTerminal(ctx context.Context, kind string, in, out any) (terminal *sshkeys.Terminal, restore func(), err error) {
	terminal = &sshkeys.Terminal{Type: kind}
	restore = func() {}
	if file, ok := out.(*os.File); ok && IsTerminal(out) {
		terminal.Size = sizeOf(file)
		terminal.Resize = resizes(ctx, file)
	}
	file, ok := in.(*os.File)
	if !ok || !IsTerminal(in) {
		return terminal, restore, nil
	}
	fd := int(file.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, nil, fmt.Errorf("putting the terminal into raw mode: %w", err)
	}
	return terminal, func() { _ = term.Restore(fd, before) }, nil
}

func sizeOf(file *os.File) sshkeys.Size {
	columns, rows, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return sshkeys.Size{}
	}
	return sshkeys.Size{Columns: columns, Rows: rows}
}
