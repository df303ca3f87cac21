package node

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/datadir"
)

func newLayout(t *testing.T) layout {
	t.Helper()
	dir, err := datadir.Open(filepath.Join(t.TempDir(), "d"))
	require.NoError(t, err)
	return layout{dir}
}
