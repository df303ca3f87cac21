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
	for name, script := range map[string]string{
		"ends at once":          "exit 0",
		"talks to somebody":     "echo 198.18.0.9:80; sleep 60",
		"prints something else": "echo hello; sleep 60",
		"prints for ever":       "exec yes | tr -d '\\n'",
		"says nothing":          "exec sleep 60",
		"leaves children":       "sleep 60 & sleep 60",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "docker-machine-driver-x")
			require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			start := time.Now()
			_, err := plugin.Start(ctx, plugin.Options{Name: "x", Path: path, Env: os.Environ(), Output: &output{}})
			require.ErrorIs(t, err, plugin.ErrUnresponsive)
			require.Less(t, time.Since(start), 15*time.Second)
		})
	}
	_, err := plugin.Start(t.Context(), plugin.Options{Name: "x", Path: filepath.Join(t.TempDir(), "missing")})
	require.ErrorIs(t, err, os.ErrNotExist)
}
