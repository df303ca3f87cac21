// Package golden compares a test's output with a file beside the test. With -update, the test
// writes the file first; then review the difference.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files")

// Require compares a text with a golden file.
func Require(tb testing.TB, path, got string) {
	tb.Helper()
	if *update {
		require.NoError(tb, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(tb, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(tb, err)
	require.Equal(tb, string(want), got, "run go test with -update after looking at the difference")
}
