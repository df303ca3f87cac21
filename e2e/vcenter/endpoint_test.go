package vcenter_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/vcenter"
)

func TestEndpointIsKeptForItsOwnerAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "state")
	for _, want := range []vcenter.Endpoint{
		{Address: "127.0.0.1:1", Username: "me", Password: "first"},
		{Address: "[::1]:2", Username: `dom\me`, Password: "\"<&>\u00e4"},
	} {
		require.NoError(t, vcenter.WriteEndpoint(dir, want))
		found, err := vcenter.ReadEndpoint(dir)
		require.NoError(t, err)
		require.Equal(t, want, found)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing partial is left")
	info, err := entries[0].Info()
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}
