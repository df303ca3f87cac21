package sshkeys_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteFile_fails(t *testing.T) {
	_, access := serverWithAccess(t)
	client := dial(t, access)
	remote := t.TempDir()
	missing := filepath.Join(remote, "none", "file")
	require.ErrorContains(t, client.WriteFile(t.Context(), missing, nil, 0o600), "writing "+missing+" on the server")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, client.WriteFile(cancelled, filepath.Join(remote, "late"), nil, 0o600), context.Canceled)
	require.NoFileExists(t, filepath.Join(remote, "late"))
}
