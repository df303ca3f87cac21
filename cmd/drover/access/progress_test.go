package access

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProgressLine(t *testing.T) {
	for _, c := range []struct {
		bytes   int64
		elapsed time.Duration
		want    string
	}{
		{0, 0, "       0.0 B         0.0 B/s      0s"},
		{1, time.Second, "       1.0 B         1.0 B/s      1s"},
		{1023, time.Second, "    1023.0 B      1023.0 B/s      1s"},
		{1024, 2 * time.Second, "     1.0 KiB       512.0 B/s      2s"},
		{5 << 20, 1500 * time.Millisecond, "     5.0 MiB       3.3 MiB/s      2s"},
		{3 << 30, 90 * time.Second, "     3.0 GiB      34.1 MiB/s   1m30s"},
		{2 << 40, time.Hour, "     2.0 TiB     582.5 MiB/s  1h0m0s"},
		{5000 << 40, time.Minute, "  5000.0 TiB      83.3 TiB/s    1m0s"},
	} {
		require.Equal(t, c.want, progressLine(c.bytes, c.elapsed))
		require.Len(t, progressLine(c.bytes, c.elapsed), len(progressLine(0, 0)), "each line covers the one before")
	}
}

// TestProgressIsSilentBeforeTheFirstByte: until then the terminal is for what is waited for.
func TestProgressIsSilentBeforeTheFirstByte(t *testing.T) {
	p := &Progress{}
	var shown bytes.Buffer
	p.Show(&shown)()
	require.Empty(t, shown.String())

	here, there := net.Pipe()
	counted := &countedConn{Conn: here, bytes: &p.bytes}
	stop := p.Show(&shown)
	go func() { _, _ = io.WriteString(there, "four"); _, _ = io.ReadFull(there, make([]byte, 3)) }()
	_, err := io.ReadFull(counted, make([]byte, 4))
	require.NoError(t, err)
	_, err = io.WriteString(counted, "six")
	require.NoError(t, err)
	stop()
	require.EqualValues(t, 7, p.bytes.Load())
	lines := strings.Split(shown.String(), "\r")
	require.Contains(t, lines[len(lines)-1], " 7.0 B  ")
	require.True(t, strings.HasSuffix(shown.String(), "\n"), "what follows begins on a line of its own")
}

func TestProgressTellsWhyThereIsNoConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	_, err = countedDialer{Dialer: &net.Dialer{}, bytes: &(&Progress{}).bytes}.DialContext(t.Context(), "tcp", listener.Addr().String())
	require.ErrorContains(t, err, "connection refused")
}
