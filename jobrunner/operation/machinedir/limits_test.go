package machinedir_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner/operation/machinedir"
	"github.com/drover-project/drover/sshkeys"
)

func made(t *testing.T) machinedir.Directory {
	t.Helper()
	dir := machinedir.New(t.TempDir(), "m1")
	require.NoError(t, dir.Make())
	return dir
}

func put(t *testing.T, dir machinedir.Directory, name string, content []byte) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(dir.Path(name)), 0o700))
	require.NoError(t, os.WriteFile(dir.Path(name), content, 0o600))
}

func archived(t *testing.T, dir machinedir.Directory, config string) (files map[string]string, skipped []string, size int) {
	t.Helper()
	archive, skipped, err := dir.Archive([]byte(config))
	require.NoError(t, err)
	read, err := sshkeys.ReadArchive(archive)
	require.NoError(t, err)
	files = map[string]string{}
	for _, file := range read {
		files[file.Path] = string(file.Content)
	}
	return files, skipped, len(archive)
}

// TestArchive_keeps_the_key_whatever_lies_beside_it: a state that is too large for its Secret could not be written, and the server
// would be lost.
func TestArchive_keeps_the_key_whatever_lies_beside_it(t *testing.T) {
	dir := made(t)
	for i := range 12 {
		noise := make([]byte, 200<<10)
		_, err := rand.Read(noise)
		require.NoError(t, err)
		put(t, dir, fmt.Sprintf("a-dump-%02d", i), noise)
	}
	put(t, dir, "id_rsa", []byte("the key"))
	put(t, dir, "id_rsa.pub", []byte("its public half"))
	files, skipped, size := archived(t, dir, `{"a":1}`)
	require.Equal(t, "the key", files["m1/id_rsa"])
	require.Equal(t, "its public half", files["m1/id_rsa.pub"])
	require.Equal(t, `{"a":1}`, files["m1/config.json"])
	require.Len(t, skipped, 9)
	require.Equal(t, "a-dump-03", skipped[0])
	require.Less(t, size, 700<<10)
}

// TestArchive_odd_files: what a driver may leave that is no file to keep.
func TestArchive_odd_files(t *testing.T) {
	dir := made(t)
	require.NoError(t, syscall.Mkfifo(dir.Path("pipe"), 0o600))
	put(t, dir, "deep/er/file", []byte("x"))
	put(t, dir, "deep/config.json", []byte("not the machine's"))
	put(t, dir, "cloudinit/data/user-data", []byte("MARKER"))
	put(t, dir, "deep/cloudinit/data", []byte("y"))
	put(t, dir, "exactly", make([]byte, 512<<10))
	put(t, dir, "too-large", make([]byte, 512<<10+1))
	put(t, dir, "empty", nil)
	for _, name := range []string{"boot.iso", "disk.vmdk", "disk.img", "all.tar.gz"} {
		put(t, dir, name, []byte("MARKER"))
	}
	files, skipped, _ := archived(t, dir, "{}")
	require.Equal(t, map[string]string{
		"m1/config.json": "{}", "m1/deep/er/file": "x", "m1/deep/config.json": "not the machine's", "m1/deep/cloudinit/data": "y",
		"m1/exactly": string(make([]byte, 512<<10)), "m1/empty": "",
	}, files)
	require.Equal(t, []string{"too-large"}, skipped)
}

// TestKeys_of_what_a_driver_names: neither a device nor a pipe holds a Job up, and no content of others gets into an error.
func TestKeys_of_what_a_driver_names(t *testing.T) {
	dir := made(t)
	pair, err := sshkeys.Generate("m1")
	require.NoError(t, err)
	put(t, dir, "id_rsa", pair.Private)
	put(t, dir, "token", []byte("MARKER"))
	put(t, dir, "empty", nil)
	put(t, dir, "large", append(pair.Private, make([]byte, 1<<20)...))
	require.NoError(t, syscall.Mkfifo(dir.Path("pipe"), 0o600))
	require.NoError(t, os.Symlink(dir.Path("id_rsa"), dir.Path("link")))
	for name, c := range map[string]struct{ path, err string }{
		"its own":         {path: ""},
		"by its path":     {path: dir.Path("id_rsa")},
		"through a link":  {path: dir.Path("link")},
		"a missing file":  {path: dir.Path("none"), err: "no SSH private key"},
		"a folder":        {path: dir.Path(""), err: "it is not a regular file of at most 524288 bytes"},
		"a device":        {path: "/dev/zero", err: "it is not a regular file of at most 524288 bytes"},
		"a pipe":          {path: dir.Path("pipe"), err: "it is not a regular file of at most 524288 bytes"},
		"a large file":    {path: dir.Path("large"), err: "it is not a regular file of at most 524288 bytes"},
		"a file of ours":  {path: dir.Path("token"), err: "reading an SSH private key"},
		"an empty file":   {path: dir.Path("empty"), err: "reading an SSH private key"},
		"a path of zeros": {path: "\x00", err: "reading the server's SSH key"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := dir.Keys(c.path)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.NotContains(t, err.Error(), "MARKER")
				require.Empty(t, got.Private)
				return
			}
			require.NoError(t, err)
			require.Equal(t, pair.Private, got.Private)
			require.Equal(t, strings.Fields(string(pair.Public))[:2], strings.Fields(string(got.Public))[:2])
		})
	}
}

// TestConfig_keeps_what_is_not_ours: rancher/machine finds its own settings again, and only the driver's part is new.
func TestConfig_keeps_what_is_not_ours(t *testing.T) {
	dir := made(t)
	put(t, dir, "config.json", []byte(`{"ConfigVersion":2,"Driver":{"Old":1},"DriverName":"old","HostOptions":{"EngineOptions":{"X":[1,2]}},"Name":"old"}`))
	config, err := dir.Config("digitalocean", clouds.Record{"DropletID": json.Number("12345678901234567890"), "Token": "secret-1"}, []string{"secret-1"})
	require.NoError(t, err)
	require.JSONEq(t, `{"ConfigVersion":3,"Driver":{"DropletID":12345678901234567890,"Token":""},"DriverName":"digitalocean",
		"HostOptions":{"EngineOptions":{"X":[1,2]}},"Name":"m1"}`, string(config))
	put(t, dir, "config.json", []byte("broken"))
	config, err = dir.Config("x", clouds.Record{}, nil)
	require.NoError(t, err, "a broken one is replaced")
	require.Contains(t, string(config), `"SwarmOptions"`)
}

// FuzzRestore: whatever lies in a state Secret as an archive, all that is written lies below the machines directory, and what was
// restored is archived and restored as the same again.
func FuzzRestore(f *testing.F) {
	for _, files := range [][]sshkeys.File{
		{{Path: "m1/config.json", Content: []byte(`{"Driver":{"ID":7,"StorePath":"/old"}}`)}, {Path: "m1/id_rsa", Content: []byte("key")}},
		{{Path: "other/config.json", Content: []byte("{}")}, {Path: "m1/x/y/z"}},
		{{Path: "config.json", Content: []byte("[]")}},
	} {
		archive, err := sshkeys.WriteArchive("/root/.docker/machine/machines", files)
		require.NoError(f, err)
		f.Add(archive, "m1")
	}
	f.Add([]byte("broken"), "m2")
	f.Fuzz(func(t *testing.T, archive []byte, name string) {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") || len(name) > 100 {
			return // requests are held to names that can be directories
		}
		home := t.TempDir()
		outside := filepath.Join(home, "outside")
		require.NoError(t, os.WriteFile(outside, []byte("x"), 0o600))
		dir, err := machinedir.New(home, name).Restore(archive)
		entries, readErr := os.ReadDir(home)
		require.NoError(t, readErr)
		for _, entry := range entries {
			require.Contains(t, []string{"outside", ".docker"}, entry.Name())
		}
		if err != nil {
			return
		}
		record, err := dir.Record()
		if err != nil || record == nil {
			return
		}
		require.Equal(t, dir.Store, record["StorePath"])
		config, err := dir.Config("x", record, nil)
		require.NoError(t, err)
		packed, _, err := dir.Archive(config)
		require.NoError(t, err)
		again, err := machinedir.New(t.TempDir(), dir.Name).Restore(packed)
		require.NoError(t, err)
		require.Equal(t, dir.Name, again.Name)
	})
}
