package access

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-project/drover/sshkeys"
)

// progressInterval is how often the shown numbers change.
const progressInterval = 200 * time.Millisecond

// Progress counts what goes over connections and shows it on a terminal.
type Progress struct{ bytes atomic.Int64 }

// countedDialer counts what goes over the connections that it makes.
type countedDialer struct {
	sshkeys.Dialer

	bytes *atomic.Int64
}

// DialContext implements sshkeys.Dialer.
func (d countedDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	connection, err := d.Dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &countedConn{Conn: connection, bytes: d.bytes}, nil
}

// Show writes the count to a terminal until stop is called. Nothing is shown before the first byte, for until then other
// things may have to be told, such as what is waited for.
func (p *Progress) Show(out io.Writer) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	started := time.Now()
	show := func(format string) {
		if count := p.bytes.Load(); count > 0 {
			_, _ = fmt.Fprintf(out, format, progressLine(count, time.Since(started)))
		}
	}
	running.Go(func() {
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				show("\r%s\n")
				return
			case <-ticker.C:
				show("\r%s")
			}
		}
	})
	return func() { cancel(); running.Wait() }
}

// progressLine has a fixed width, so that it overwrites the one before.
func progressLine(bytes int64, elapsed time.Duration) string {
	perSecond := 0.0
	if seconds := elapsed.Seconds(); seconds > 0 {
		perSecond = float64(bytes) / seconds
	}
	return fmt.Sprintf("%12s  %12s/s  %6s", size(float64(bytes)), size(perSecond), elapsed.Round(time.Second))
}

func size(bytes float64) string {
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if bytes < 1024 {
			return fmt.Sprintf("%.1f %s", bytes, unit)
		}
		bytes /= 1024
	}
	return fmt.Sprintf("%.1f TiB", bytes)
}

// countedConn counts the bytes of a connection, both ways.
type countedConn struct {
	net.Conn

	bytes *atomic.Int64
}

// Read implements io.Reader.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

// Write implements io.Writer.
func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}
