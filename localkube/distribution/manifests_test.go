package distribution

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestManifests(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "manifests")
	found, err := manifests(folder)
	require.NoError(t, err)
	require.Empty(t, found)
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "rancher"), 0o700))
	for name, content := range map[string]string{"rancher/addons.yaml": "", "a.yml": "kind: A", "b.json": "{}", "c.skip": "x"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	found, err = manifests(folder)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"rancher/addons.yaml": "", "a.yml": "kind: A", "b.json": "{}"}, found)
}
