package machinedir_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner/operation/machinedir"
	"github.com/drover-project/drover/sshkeys"
)

// TestArchive_leaves_links_out: a driver may put a link into its directory, whose target must not get into the Secret.
func TestArchive_leaves_links_out(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(outside, []byte("MARKER"), 0o600))
	dir := machinedir.New(t.TempDir(), "m1")
	require.NoError(t, dir.Make())
	require.NoError(t, os.Symlink(outside, dir.Path("link")))
	require.NoError(t, os.Symlink(filepath.Dir(outside), dir.Path("folder")))
	require.NoError(t, os.WriteFile(dir.Path("user-data.iso"), []byte("MARKER"), 0o600))
	require.NoError(t, os.WriteFile(dir.Path("config.json"), []byte(`{"MARKER":1}`), 0o600))
	archive, skipped, err := dir.Archive([]byte("{}"))
	require.NoError(t, err)
	require.Empty(t, skipped)
	files, err := sshkeys.ReadArchive(archive)
	require.NoError(t, err)
	require.Equal(t, []sshkeys.File{{Path: "m1/config.json", Mode: 0o600, Content: []byte("{}")}}, files)
}

func TestArchive_has_an_end(t *testing.T) {
	dir := machinedir.New(t.TempDir(), "m1")
	require.NoError(t, dir.Make())
	for i := range 200 {
		require.NoError(t, os.WriteFile(dir.Path(fmt.Sprintf("f%03d", i)), []byte("x"), 0o600))
	}
	archive, skipped, err := dir.Archive([]byte("{}"))
	require.NoError(t, err)
	files, err := sshkeys.ReadArchive(archive)
	require.NoError(t, err)
	require.Len(t, files, 128)
	require.Len(t, skipped, 200-127, "what is left out is named")
}

func TestArchive_without_a_directory(t *testing.T) {
	archive, skipped, err := machinedir.New(t.TempDir(), "m1").Archive([]byte(`{"a":1}`))
	require.NoError(t, err)
	require.Empty(t, skipped)
	files, err := sshkeys.ReadArchive(archive)
	require.NoError(t, err)
	require.Len(t, files, 1)
}

func TestRestore_empties_what_was_there_and_hides_keys(t *testing.T) {
	archive, err := sshkeys.WriteArchive("/root/.docker/machine/machines", []sshkeys.File{
		{Path: "m1/config.json", Mode: 0o644, Content: []byte("{}")}, {Path: "m1/id_rsa", Mode: 0o644, Content: []byte("key")},
	})
	require.NoError(t, err)
	dir := machinedir.New(t.TempDir(), "m1")
	require.NoError(t, dir.Make())
	require.NoError(t, os.WriteFile(dir.Path("stale"), []byte("x"), 0o600))
	dir, err = dir.Restore(archive)
	require.NoError(t, err)
	require.NoFileExists(t, dir.Path("stale"))
	info, err := os.Stat(dir.Path("id_rsa"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode(), "whatever mode the archive names")
	_, err = dir.Keys("")
	require.ErrorContains(t, err, "reading an SSH private key")
}

func TestRestore_takes_the_machine_that_is_asked_for(t *testing.T) {
	archive, err := sshkeys.WriteArchive("/x/machines", []sshkeys.File{
		{Path: "m1/config.json", Content: []byte("{}")}, {Path: "m2/config.json", Content: []byte("{}")}, {Path: "m3/deep/config.json", Content: []byte("{}")},
	})
	require.NoError(t, err)
	for name, want := range map[string]string{"m1": "m1", "m2": "m2", "m3": "m2"} {
		dir, err := machinedir.New(t.TempDir(), name).Restore(archive)
		require.NoError(t, err)
		require.Equal(t, want, dir.Name)
	}
}

func TestRecord_leads_paths_here(t *testing.T) {
	dir := machinedir.New(t.TempDir(), "m1")
	require.NoError(t, dir.Make())
	require.NoError(t, os.WriteFile(dir.Path("config.json"), []byte(`{"Driver":{"StorePath":"/old/store/",
		"SSHKeyPath":"/old/store/machines/m1/id_rsa","Other":"/old/store-2/x","Own":"/home/me/key","ID":7}}`), 0o600))
	record, err := dir.Record()
	require.NoError(t, err)
	require.Equal(t, dir.Store, record.Text("StorePath"))
	require.Equal(t, dir.Path("id_rsa"), record.Text("SSHKeyPath"))
	require.Equal(t, "/old/store-2/x", record.Text("Other"), "another store that begins alike")
	require.Equal(t, "/home/me/key", record.Text("Own"))
	for _, bad := range []string{`{}`, `{"Driver":null}`, `{"Driver":[]}`, `[]`} {
		require.NoError(t, os.WriteFile(dir.Path("config.json"), []byte(bad), 0o600))
		_, err := dir.Record()
		require.Error(t, err, bad)
	}
}

func TestScrub(t *testing.T) {
	record := clouds.Record{"Token": "hunter2", "Encoded": "aHVudGVyMg==", "Around": "x-hunter2", "Short": "abc", "Number": 7}
	require.Equal(t, clouds.Record{"Token": "", "Encoded": "", "Around": "x-hunter2", "Short": "abc", "Number": 7},
		machinedir.Scrub(record, []string{"hunter2", "abc", ""}))
	nested := clouds.Record{"Joined": "#cloud-config\na: 1\nb: 2", "Deep": map[string]any{"Data": "I2Nsb3VkLWNvbmZpZwphOiAx", "List": []any{"#cloud-config\na: 1", "x"}, "Token": "hunter2"}}
	require.Equal(t, clouds.Record{"Joined": "", "Deep": map[string]any{"Data": "", "List": []any{"", "x"}, "Token": "hunter2"}},
		machinedir.Scrub(nested, []string{"hunter2"}, "#cloud-config\na: 1"), "a token deep inside could not be renewed")
	require.Equal(t, "hunter2", record["Token"], "the record itself is not touched")
}

func TestRenew_cases(t *testing.T) {
	for name, c := range map[string]struct{ record, fresh, want clouds.Record }{
		"a rotated credential":            {clouds.Record{"T": "old-token"}, clouds.Record{"T": "new-token"}, clouds.Record{"T": "new-token"}},
		"a credential that never stood":   {clouds.Record{}, clouds.Record{"T": "new-token"}, clouds.Record{"T": "new-token"}},
		"a field that was scrubbed":       {clouds.Record{"K": ""}, clouds.Record{"K": "value"}, clouds.Record{"K": "value"}},
		"a field that is of no concern":   {clouds.Record{}, clouds.Record{"K": "value"}, clouds.Record{}},
		"what the server was made with":   {clouds.Record{"Region": "a"}, clouds.Record{"Region": "b"}, clouds.Record{"Region": "a"}},
		"numbers are the server's own":    {clouds.Record{"ID": 7}, clouds.Record{"ID": 0}, clouds.Record{"ID": 7}},
		"what the fresh one does not say": {clouds.Record{"ID": 7}, nil, clouds.Record{"ID": 7}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, machinedir.Renew(c.record, c.fresh, []string{"new-token", ""}))
		})
	}
}
