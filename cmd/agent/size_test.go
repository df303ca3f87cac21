package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A server on a slow line fetches the agent, and one with a small disk keeps it: `make build` has made those that servers get.
func TestSize(t *testing.T) {
	const most = 40 << 20
	for _, arch := range []string{"amd64", "arm64"} {
		info, err := os.Stat(filepath.Join("..", "..", "bin", "share", "agents", "drover-agent-linux-"+arch))
		require.NoError(t, err, "run make build first")
		require.LessOrEqual(t, info.Size(), int64(most), arch)
	}
}
