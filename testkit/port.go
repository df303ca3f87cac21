package testkit

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// FreePort returns a port of this computer without a listener. The port lies below the kernel's
// range for outgoing connections, so that none of them takes it before the test does, and below
// localkube's ports.
func FreePort(tb testing.TB) string {
	tb.Helper()
	const low, high = 10_000, 20_000
	for range 100 {
		port := strconv.Itoa(low + rand.IntN(high-low)) //nolint:gosec // where the search begins is no secret
		if listener, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = listener.Close()
			return port
		}
	}
	tb.Fatalf("testkit: no port is free between %d and %d", low, high)
	return ""
}
