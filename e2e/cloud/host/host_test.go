package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInotifyLimit(t *testing.T) {
	for name, c := range map[string]struct{ before, raised, err string }{
		"the kernel's default": {"128\n", "8192", ""},
		"enough":               {"16384\n", "16384\n", ""},
		"no number":            {"many\n", "many\n", "reading how many inotify instances there may be"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			limit := filepath.Join(dir, "limit")
			require.NoError(t, os.WriteFile(limit, []byte(c.before), 0o600))
			for range 2 { // a second cloud keeps what was before the first
				if err := raiseInotify(limit, dir); c.err != "" {
					require.ErrorContains(t, err, c.err)
				} else {
					require.NoError(t, err)
				}
			}
			content, err := os.ReadFile(limit)
			require.NoError(t, err)
			require.Equal(t, c.raised, string(content))
			require.NoError(t, restoreInotify(limit, dir))
			content, err = os.ReadFile(limit)
			require.NoError(t, err)
			require.Equal(t, c.before, string(content))
		})
	}
	require.ErrorContains(t, raiseInotify(filepath.Join(t.TempDir(), "none"), t.TempDir()), "reading how many inotify instances there may be")
}
