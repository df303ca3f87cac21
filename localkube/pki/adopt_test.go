package pki_test

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/pki"
)

func TestAdopt_is_all_or_nothing(t *testing.T) {
	founder, err := pki.Open(t.TempDir())
	require.NoError(t, err)
	for _, role := range []pki.Role{pki.RoleServer, pki.RoleAgent} {
		_, err := founder.Token(role)
		require.NoError(t, err)
	}
	all, err := founder.Shared()
	require.NoError(t, err)
	for name := range all {
		for what, spoil := range map[string]func(map[string][]byte){
			"missing": func(files map[string][]byte) { delete(files, name) },
			"empty":   func(files map[string][]byte) { files[name] = nil },
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				files := maps.Clone(all)
				spoil(files)
				dir := t.TempDir()
				require.EqualError(t, pki.Adopt(dir, files), "adopting the cluster's identities: "+name+" is missing")
				left, err := os.ReadDir(dir)
				require.NoError(t, err)
				require.Empty(t, left, "half a cluster's identities would look like a cluster")
			})
		}
	}
}

func TestAdopt_writes_nowhere_else(t *testing.T) {
	founder, err := pki.Open(t.TempDir())
	require.NoError(t, err)
	for _, role := range []pki.Role{pki.RoleServer, pki.RoleAgent} {
		_, err := founder.Token(role)
		require.NoError(t, err)
	}
	files, err := founder.Shared()
	require.NoError(t, err)
	want := len(files)
	files["../escaped"], files["apiserver.crt"] = []byte("x"), []byte("x")
	dir := filepath.Join(t.TempDir(), "pki")
	require.NoError(t, pki.Adopt(dir, files))
	require.NoFileExists(t, filepath.Join(dir, "..", "escaped"))
	have, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, have, want)
}
