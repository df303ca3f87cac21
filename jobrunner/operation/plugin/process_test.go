package plugin_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/jobrunner/operation/plugin"
)

// TestStart_refuses programs that are no drivers.
func TestStart_refuses(t *testing.T) {
	for name, tt := range map[string]struct{ script, says string }{
		"ends at once":          {"exit 0", "its process ended immediately"},
		"says why and ends":     {"echo no licence >&2; exit 3", "its process ended immediately"},
		"stops in a line":       {"printf 127.0.0.1; exit 0", "its process ended immediately"},
		"closes its output":     {"exec >&-; sleep 60", "it printed no address"},
		"talks to somebody":     {"echo 198.18.0.9:80; sleep 60", "its first line is not a loopback address"},
		"prints something else": {"echo hello; sleep 60", "its first line is not a loopback address"},
		"prints for ever":       {"exec yes | tr -d '\\n'", "its first line is not a loopback address"},
		"says nothing":          {"exec sleep 60", "it printed no address"},
		"leaves children":       {"sleep 60 & sleep 60", "it printed no address"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "docker-machine-driver-x")
			require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+tt.script+"\n"), 0o700))
			// All scripts are written before one runs: a fork inherits the file that is being written, and the kernel runs no such file.
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			start := time.Now()
			_, err := plugin.Start(ctx, plugin.Options{Name: "x", Path: path, Env: os.Environ(), Output: &output{}})
			require.ErrorIs(t, err, plugin.ErrUnresponsive)
			require.ErrorContains(t, err, tt.says)
			require.Less(t, time.Since(start), 15*time.Second)
		})
	}
	_, err := plugin.Start(t.Context(), plugin.Options{Name: "x", Path: filepath.Join(t.TempDir(), "missing")})
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestStart_ofABinaryThatIsBusy: while something still holds it open for writing, as a child forked in that moment does, it is tried again.
func TestStart_ofABinaryThatIsBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "docker-machine-driver-x")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o700)
	require.NoError(t, err)
	_, err = file.WriteString("#!/bin/sh\nexit 0\n")
	require.NoError(t, err)
	held := time.AfterFunc(100*time.Millisecond, func() { _ = file.Close() })
	t.Cleanup(func() { held.Stop() })
	_, err = plugin.Start(t.Context(), plugin.Options{Name: "x", Path: path, Env: os.Environ(), Output: &output{}})
	require.ErrorIs(t, err, plugin.ErrUnresponsive, "it ran, and is no driver")
}
