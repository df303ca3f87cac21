package server

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress prints steps with the time since the start.
type progress struct {
	mu    sync.Mutex
	to    io.Writer
	start time.Time
}

func newProgress(to io.Writer) *progress { return &progress{to: to, start: time.Now()} }

func (p *progress) step(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// A screen that cannot be written to must not stop a server.
	_, _ = fmt.Fprintf(p.to, "localkube %6.2fs  %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
}
