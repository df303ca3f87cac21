package sshkeys_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/sshkeys"
)

func TestArchive_round_trip(t *testing.T) {
	files := []sshkeys.File{
		{Path: "m1/config.json", Mode: 0o600, Content: []byte("{}")},
		{Path: "m1/certs/deep/ca.pem", Mode: 0o644, Content: []byte("pem")},
		{Path: "m1/id_rsa", Mode: 0o600, Content: []byte("key")},
		{Path: "m1/boot2docker.iso", Mode: 0o600, Content: []byte("image")},
	}
	archive, err := sshkeys.WriteArchive("/home/machine/.docker/machine/machines", files)
	require.NoError(t, err)
	again, err := sshkeys.WriteArchive("/home/machine/.docker/machine/machines", []sshkeys.File{files[2], files[0], files[1]})
	require.NoError(t, err)
	require.Equal(t, archive, again, "the same files give the same bytes")

	read, err := sshkeys.ReadArchive(archive)
	require.NoError(t, err)
	require.ElementsMatch(t, files[:3], read)
}

func rawArchive(tb testing.TB, write func(*tar.Writer)) []byte {
	tb.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	writer := tar.NewWriter(zipped)
	write(writer)
	require.NoError(tb, writer.Close())
	require.NoError(tb, zipped.Close())
	return out.Bytes()
}

func entry(tb testing.TB, writer *tar.Writer, header *tar.Header, content string) {
	tb.Helper()
	header.Size = int64(len(content))
	require.NoError(tb, writer.WriteHeader(header))
	_, err := writer.Write([]byte(content))
	require.NoError(tb, err)
}

func FuzzReadArchive(f *testing.F) {
	f.Add(rawArchive(f, func(w *tar.Writer) { entry(f, w, &tar.Header{Name: "/m/machines/a/config.json"}, "{}") }))
	f.Add([]byte("not gzip"))
	f.Fuzz(func(t *testing.T, data []byte) {
		files, err := sshkeys.ReadArchive(data)
		if err != nil {
			return
		}
		root := t.TempDir()
		for _, file := range files {
			relative, err := filepath.Rel(root, filepath.Join(root, file.Path))
			require.NoError(t, err)
			require.False(t, strings.HasPrefix(relative, "..") || filepath.IsAbs(file.Path), file.Path)
		}
		_, err = sshkeys.WriteArchive("/home/machine/.docker/machine/machines", files)
		require.NoError(t, err)
	})
}

func FuzzHostKeys(f *testing.F) {
	pair, err := sshkeys.Generate("host")
	require.NoError(f, err)
	f.Add([]byte("[198.18.0.9]:2222 " + string(pair.Public)))
	f.Add([]byte("@revoked * " + string(pair.Public) + "# comment\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := sshkeys.HostKeys(data)
		if err != nil {
			return
		}
		renamed, err := sshkeys.RenameKnownHosts(data, "m1")
		require.NoError(t, err)
		again, err := sshkeys.HostKeys(renamed)
		require.NoError(t, err)
		require.Len(t, again, len(keys))
	})
}
