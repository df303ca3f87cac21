package machinedir_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner/operation/machinedir"
	"github.com/drover-project/drover/sshkeys"
)

func TestDirectory_round_trip(t *testing.T) {
	dir := machinedir.New(t.TempDir(), "m1")
	require.NoError(t, dir.Make())
	pair, err := sshkeys.Generate("m1")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(dir.Path("id_rsa"), pair.Private, 0o600))
	require.NoError(t, os.MkdirAll(dir.Path("cloudinit/data"), 0o700))
	require.NoError(t, os.WriteFile(dir.Path("cloudinit/data/user-data"), []byte("token"), 0o600))
	require.NoError(t, os.WriteFile(dir.Path("large"), make([]byte, 600<<10), 0o600))
	record := clouds.Record{"StorePath": dir.Store, "SSHKeyPath": dir.Path("id_rsa"), "AccessToken": "tok-123", "UserData": "dG9rLTEyMw==", "DropletID": 7}

	config, err := dir.Config("digitalocean", record, []string{"tok-123", ""})
	require.NoError(t, err)
	require.NotContains(t, string(config), "tok-123")
	require.NotContains(t, string(config), "dG9rLTEyMw")
	archive, skipped, err := dir.Archive(config)
	require.NoError(t, err)
	require.Equal(t, []string{"large"}, skipped)

	other, err := machinedir.New(t.TempDir(), "another-name").Restore(archive)
	require.NoError(t, err)
	require.Equal(t, "m1", other.Name, "the archive says the machine's name")
	require.NoFileExists(t, other.Path("cloudinit/data/user-data"))
	read, err := other.Record()
	require.NoError(t, err)
	require.Equal(t, "7", read.Text("DropletID"))
	require.Equal(t, other.Path("id_rsa"), read.Text("SSHKeyPath"), "paths are led to the new place")
	keys, err := other.Keys(read.Text("SSHKeyPath"))
	require.NoError(t, err)
	require.Equal(t, pair.Private, keys.Private)
	again, err := other.Config("digitalocean", read, nil)
	require.NoError(t, err)
	require.Contains(t, string(again), "EngineOptions", "what is not the driver's is kept")
}

func TestDirectory_without_archive(t *testing.T) {
	dir, err := machinedir.New(t.TempDir(), "m1").Restore(nil)
	require.NoError(t, err)
	require.DirExists(t, dir.Path(""))
	record, err := dir.Record()
	require.NoError(t, err)
	require.Nil(t, record)
	_, err = dir.Keys("")
	require.ErrorIs(t, err, sshkeys.ErrNoKey)
	_, err = dir.Restore([]byte("broken"))
	require.Error(t, err)
	require.NoError(t, os.WriteFile(dir.Path("config.json"), []byte("MARKER"), 0o600))
	_, err = dir.Record()
	require.Error(t, err)
	require.NotContains(t, err.Error(), "MARKER")
	require.Equal(t, filepath.Join(dir.Store, "machines", "m1", "x"), dir.Path("x"))
}
