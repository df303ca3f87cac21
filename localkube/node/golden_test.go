package node

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares a file below the data directory with the golden file of the
// same name; the directory's own path is written as DATA.
func golden(t *testing.T, l layout, elem ...string) {
	t.Helper()
	raw, err := os.ReadFile(l.Path(elem...))
	require.NoError(t, err)
	goldenText(t, elem[len(elem)-1], strings.ReplaceAll(string(raw), l.Root(), "DATA"))
}

func goldenText(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}
