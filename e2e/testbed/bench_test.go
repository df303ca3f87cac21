package testbed

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/testkit/golden"
)

// screen takes what is shown, from several writers.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// bench is a testbed whose binaries are scripts that tell how they were called.
type bench struct {
	*Testbed
	dir    string
	screen *screen
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "my project") // a blank in it finds what is not quoted
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o700))
	t.Chdir(dir)
	b := &bench{dir: dir, screen: &screen{}}
	var err error
	b.Testbed, err = New(Options{Out: b.screen})
	require.NoError(t, err)
	b.isRoot = true
	require.NoError(t, os.MkdirAll(b.in(logsDir), 0o700))
	return b
}

// program makes a binary out of a shell script; $CALLS gets a line for each call.
func (b *bench) program(t *testing.T, name, script string) {
	t.Helper()
	text := fmt.Sprintf("#!/bin/sh\ncd %s\nprintf '%%s' %s >> calls; for arg; do printf ' [%%s]' \"$arg\" >> calls; done; echo >> calls\n%s\n", quote(b.dir), name, script)
	require.NoError(t, os.WriteFile(filepath.Join(b.BinDir, name), []byte(text), 0o700))
}

// programs makes all binaries; those without a script do nothing.
func (b *bench) programs(t *testing.T, scripts map[string]string) {
	t.Helper()
	for _, name := range []string{"localcloud", "localkube", "manager", "drover"} {
		b.program(t, name, scripts[name])
	}
	require.NoError(t, b.writeKubectl())
}

// calls returns how the binaries were called, one a line, without what differs from run to run.
func (b *bench) calls(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(b.dir, "calls"))
	if os.IsNotExist(err) {
		return ""
	}
	require.NoError(t, err)
	return b.stable(string(content))
}

var (
	port    = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	seconds = regexp.MustCompile(`( +\d+\.\ds|\d+s)(\n|\x1b)`)
)

func (b *bench) stable(text string) string {
	text = strings.ReplaceAll(text, b.dir, "DIR")
	text = port.ReplaceAllString(text, "127.0.0.1:PORT")
	return seconds.ReplaceAllString(text, " TIME$2")
}

// cloud starts a local cloud in the testbed's directory, with servers that are entries in a table.
func (b *bench) cloud(t *testing.T) *cloud.Cloud {
	t.Helper()
	c, err := cloud.New(cloud.Options{StateDir: b.CloudDir()})
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func requireGolden(t *testing.T, name, text string) {
	t.Helper()
	require.NotEmpty(t, startDir, "it is found before a test changes its directory")
	golden.Require(t, filepath.Join(startDir, "testdata", name), text)
}

var startDir string

func TestMain(m *testing.M) {
	startDir, _ = os.Getwd() // checked where it is used
	os.Exit(m.Run())
}
