package live_test

import (
	"bytes"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// buffer takes a running program's output and may be read meanwhile.
type buffer struct {
	mu      sync.Mutex
	content bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.content.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.content.String()
}

// logged waits until the server has said something and returns the pattern's first group: the log is another stream than
// the line that says the server is ready.
func (i *instance) logged(t *testing.T, pattern string) string {
	t.Helper()
	expression := regexp.MustCompile(pattern)
	var found []string
	require.Eventually(t, func() bool {
		found = expression.FindStringSubmatch(i.log.String())
		return len(found) == 2
	}, time.Minute, 50*time.Millisecond, "%s is not in the log", pattern)
	return found[1]
}
