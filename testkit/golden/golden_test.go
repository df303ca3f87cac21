package golden

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What -update writes is what a run without it takes, and nothing else is written.
func TestRequire(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "x.golden")
	*update = true
	Require(t, path, "one\n")
	*update = false
	Require(t, path, "one\n")
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "one\n", string(got))
}
