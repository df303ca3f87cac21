//go:build unix

package access

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/drover-project/drover/sshkeys"
)

// resizes tells the terminal's size each time it changes, until the context ends.
func resizes(ctx context.Context, terminal *os.File) <-chan sshkeys.Size {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGWINCH)
	sizes := make(chan sshkeys.Size)
	go func() {
		defer close(sizes)
		defer signal.Stop(signals)
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
			}
			select {
			case <-ctx.Done():
				return
			case sizes <- sizeOf(terminal):
			}
		}
	}()
	return sizes
}
