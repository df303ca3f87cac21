package sshkeys_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
)

func TestReadArchive_says_what_is_wrong(t *testing.T) {
	good := rawArchive(t, func(w *tar.Writer) { entry(t, w, &tar.Header{Name: "/m/machines/a/config.json"}, "{}") })
	many := func(count int, header tar.Header, content string) []byte {
		return rawArchive(t, func(w *tar.Writer) {
			for range count {
				entry(t, w, &header, content)
			}
		})
	}
	one := func(header tar.Header, content string) []byte { return many(1, header, content) }
	for name, c := range map[string]struct {
		archive []byte
		want    string
	}{
		"empty":              {archive: []byte{}, want: "EOF"},
		"no gzip":            {archive: []byte("MARKER of something else"), want: "gzip"},
		"no tar inside":      {archive: gzipped(t, bytes.Repeat([]byte("MARKER"), 300)), want: "tar"},
		"cut off":            {archive: good[:len(good)-12], want: "EOF"},
		"a wrong sum":        {archive: flipped(good, len(good)-6), want: "checksum"},
		"a symbolic link":    {archive: one(tar.Header{Typeflag: tar.TypeSymlink, Name: "/m/machines/a/id_rsa", Linkname: "/etc/shadow"}, ""), want: "neither a file nor a directory"},
		"a hard link":        {archive: one(tar.Header{Typeflag: tar.TypeLink, Name: "/m/machines/a/id_rsa", Linkname: "/etc/shadow"}, ""), want: "neither a file nor a directory"},
		"a device":           {archive: one(tar.Header{Typeflag: tar.TypeChar, Name: "/m/machines/a/null"}, ""), want: "neither a file nor a directory"},
		"a line break":       {archive: one(tar.Header{Name: "/m/machines/a/b\nc"}, "x"), want: "no usable name"},
		"too many entries":   {archive: many(sshkeys.MaxArchiveFiles+1, tar.Header{Typeflag: tar.TypeDir, Name: "/m/machines/a"}, ""), want: "256"},
		"a bomb":             {archive: many(20, tar.Header{Name: "/m/machines/a/zero"}, strings.Repeat("\x00", 1<<20)), want: "content"},
		"a pipe":             {archive: one(tar.Header{Typeflag: tar.TypeFifo, Name: "/m/machines/a/p"}, ""), want: "neither a file nor a directory"},
		"a block device":     {archive: one(tar.Header{Typeflag: tar.TypeBlock, Name: "/m/machines/a/sda"}, ""), want: "neither a file nor a directory"},
		"dots in the middle": {archive: one(tar.Header{Name: "/m/machines/a/../../b"}, "x"), want: "leads outside"},
		"dots at the end":    {archive: one(tar.Header{Name: "a/.."}, "x"), want: "leads outside"},
		"only dots":          {archive: one(tar.Header{Name: ".."}, "x"), want: "leads outside"},
		"no name":            {archive: one(tar.Header{Name: "."}, ""), want: "no usable name"},
		"a backslash":        {archive: one(tar.Header{Name: `/m/machines/a/..\b`}, "x"), want: "no usable name"},
		"a tab":              {archive: one(tar.Header{Name: "/m/machines/a/\tb"}, "x"), want: "no usable name"},
		"no UTF-8":           {archive: one(tar.Header{Name: "/m/machines/a/\xff", Format: tar.FormatGNU}, "x"), want: "no usable name"},
		"a long name":        {archive: one(tar.Header{Name: "/m/machines/" + strings.Repeat("a/", 300) + "b"}, "x"), want: "no usable name"},
		"a large file":       {archive: one(tar.Header{Name: "/m/machines/a/b"}, strings.Repeat("\x00", sshkeys.MaxArchiveContent+1)), want: "content"},
		"too many bytes":     {archive: make([]byte, sshkeys.MaxArchiveBytes+1), want: "at most 1048576 are accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := sshkeys.ReadArchive(c.archive)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "reading the state's archive")
			require.NotContains(t, err.Error(), "MARKER")
			require.Empty(t, files)
		})
	}
}

func flipped(data []byte, at int) []byte {
	out := bytes.Clone(data)
	out[at] ^= 0xff
	return out
}

func gzipped(tb testing.TB, content []byte) []byte {
	tb.Helper()
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	_, err := writer.Write(content)
	require.NoError(tb, err)
	require.NoError(tb, writer.Close())
	return out.Bytes()
}

func TestReadArchive_names_and_modes(t *testing.T) {
	for name, want := range map[string]string{
		"/home/machine/.docker/machine/machines/p1/id_rsa":      "p1/id_rsa",
		"home/machine/.docker/machine/machines/p1/certs/ca.pem": "p1/certs/ca.pem",
		"/management-state/node/nodes/p1/machines/p1/id_rsa":    "p1/id_rsa",
		"p1/id_rsa":    "p1/id_rsa",
		"./p1//id_rsa": "p1/id_rsa",
		"/root/.docker/machine/machines/machines/config.json":              "machines/config.json",
		"/root/.docker/machine/machines/p1/machines/x":                     "p1/machines/x",
		"/var/machines/x/.docker/machine/machines/p1/config.json":          "p1/config.json",
		"/a/.docker/machine/machines/b/.docker/machine/machines/p1/id_rsa": "p1/id_rsa",
	} {
		files, err := sshkeys.ReadArchive(rawArchive(t, func(w *tar.Writer) {
			entry(t, w, &tar.Header{Typeflag: tar.TypeDir, Name: path.Dir(name), Mode: 0o700}, "")
			entry(t, w, &tar.Header{Name: name, Mode: 0o4755}, "x")
		}))
		require.NoError(t, err, name)
		require.Equal(t, []sshkeys.File{{Path: want, Mode: 0o755, Content: []byte("x")}}, files, name)
	}
}

func TestReadArchive_at_its_limits(t *testing.T) {
	files, err := sshkeys.ReadArchive(rawArchive(t, func(w *tar.Writer) {
		for i := range sshkeys.MaxArchiveFiles {
			entry(t, w, &tar.Header{Name: fmt.Sprintf("/m/machines/a/%d", i)}, "x")
		}
	}))
	require.NoError(t, err)
	require.Len(t, files, sshkeys.MaxArchiveFiles)
	files, err = sshkeys.ReadArchive(rawArchive(t, func(w *tar.Writer) {
		entry(t, w, &tar.Header{Name: "/m/machines/a/b"}, strings.Repeat("\x00", sshkeys.MaxArchiveContent))
	}))
	require.NoError(t, err)
	require.Len(t, files[0].Content, sshkeys.MaxArchiveContent)
}

func TestWriteArchive_refuses(t *testing.T) {
	for _, name := range []string{"", ".", "..", "../a", "/etc/passwd", "a/../b", "a//b", "a/", "a\nb", "a\x00b", `a\b`, strings.Repeat("a", 513)} {
		_, err := sshkeys.WriteArchive("/m/machines", []sshkeys.File{{Path: name, Content: []byte("MARKER")}})
		require.ErrorContains(t, err, "no usable name", "%q", name)
		require.NotContains(t, err.Error(), "MARKER")
	}
	large := make([]byte, 2<<20)
	state := uint32(1)
	for i := range large {
		state = state*1664525 + 1013904223
		large[i] = byte(state >> 24)
	}
	_, err := sshkeys.WriteArchive("/m/machines", []sshkeys.File{{Path: "a/b", Content: large}})
	require.ErrorContains(t, err, "at most 1048576 fit into a Secret")
}

// TestWriteArchive_of_any_machine: what is written is read back under the same names.
func TestWriteArchive_of_any_machine(t *testing.T) {
	for _, machine := range []string{"pool-1", "machines", "machine", "x.machines", ".docker"} {
		files := []sshkeys.File{
			{Path: machine + "/config.json", Mode: 0o600, Content: []byte("{}")},
			{Path: machine + "/machines/note", Mode: 0o600, Content: []byte("x")},
		}
		archive, err := sshkeys.WriteArchive("/home/machine/.docker/machine/machines", files)
		require.NoError(t, err)
		read, err := sshkeys.ReadArchive(archive)
		require.NoError(t, err)
		require.Equal(t, files, read, machine)
	}
}

func TestIsSkipped(t *testing.T) {
	for name, want := range map[string]bool{
		"a/boot2docker.iso": true, "a/disk.vmdk": true, "a/disk.img": true, "a/cache.tar.gz": true,
		"a/config.json": false, "a/isolated": false, "a/iso": false, "a.iso/id_rsa": false,
	} {
		require.Equal(t, want, sshkeys.IsSkipped(name), name)
	}
}

func TestAccessFrom_documents_that_cannot_be_read(t *testing.T) {
	archive := func(name, content string) []byte {
		return rawArchive(t, func(w *tar.Writer) { entry(t, w, &tar.Header{Name: name}, content) })
	}
	for name, c := range map[string]struct {
		data map[string][]byte
		want string
	}{
		"server.json":      {data: map[string][]byte{"server.json": []byte("{MARKER"), "ssh-privatekey": []byte("k")}, want: "reading server.json"},
		"the archive":      {data: map[string][]byte{"extractedConfig": []byte("MARKER")}, want: "reading the state's archive"},
		"its config":       {data: map[string][]byte{"extractedConfig": archive("/m/machines/p1/config.json", "MARKER")}, want: "reading p1/config.json"},
		"an empty config":  {data: map[string][]byte{"extractedConfig": archive("/m/machines/p1/config.json", "{}")}, want: "no SSH private key"},
		"no config":        {data: map[string][]byte{"extractedConfig": archive("/m/machines/p1/id_rsa", "key")}, want: "no SSH private key"},
		"no key there":     {data: map[string][]byte{"extractedConfig": archive("/m/machines/p1/config.json", `{"Driver":{"IPAddress":"198.18.0.1"}}`)}, want: "no SSH private key"},
		"no address there": {data: map[string][]byte{"ssh-privatekey": []byte("k"), "extractedConfig": archive("/m/machines/p1/config.json", `{"Driver":{}}`)}, want: "no address"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sshkeys.AccessFrom(state.Of(c.data))
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "MARKER")
		})
	}
}

func TestAccessFrom_the_archive(t *testing.T) {
	for name, c := range map[string]struct {
		config, key string
		data        map[string]string
		want        sshkeys.Access
	}{
		"a key under another name": {config: `{"Driver":{"IPAddress":"198.18.0.1","SSHKeyPath":"/x/machines/p1/mykey"}}`, key: "mykey",
			want: sshkeys.Access{User: "root", Host: "198.18.0.1", Port: 22, PrivateKey: []byte("key")}},
		"a key nobody names": {config: `{"Driver":{"IPAddress":"198.18.0.1"}}`, key: "id_ed25519",
			want: sshkeys.Access{User: "root", Host: "198.18.0.1", Port: 22, PrivateKey: []byte("key")}},
		"only a private address": {config: `{"Driver":{"PrivateIPAddress":"10.0.0.1","SSHUser":"core"}}`, key: "id_rsa",
			want: sshkeys.Access{User: "core", Host: "10.0.0.1", Port: 22, PrivateKey: []byte("key")}},
		"a port that is none": {config: `{"Driver":{"IPAddress":"198.18.0.1","SSHPort":70000}}`, key: "id_rsa",
			want: sshkeys.Access{User: "root", Host: "198.18.0.1", Port: 22, PrivateKey: []byte("key")}},
		"our address goes before the archive's": {config: `{"Driver":{"IPAddress":"198.18.0.1","SSHUser":"old"}}`, key: "id_rsa",
			data: map[string]string{"server.json": `{"sshHost":"198.18.0.2","sshUser":"new","sshPort":23}`},
			want: sshkeys.Access{User: "new", Host: "198.18.0.2", Port: 23, PrivateKey: []byte("key")}},
		"our key goes before the archive's": {config: `{"Driver":{"IPAddress":"198.18.0.1"}}`, key: "id_rsa",
			data: map[string]string{"ssh-privatekey": "ours"},
			want: sshkeys.Access{User: "root", Host: "198.18.0.1", Port: 22, PrivateKey: []byte("ours")}},
	} {
		t.Run(name, func(t *testing.T) {
			data := map[string][]byte{"extractedConfig": rawArchive(t, func(w *tar.Writer) {
				entry(t, w, &tar.Header{Name: "/h/.docker/machine/machines/p1/config.json"}, c.config)
				entry(t, w, &tar.Header{Name: "/h/.docker/machine/machines/p1/" + c.key}, "key")
			})}
			for key, value := range c.data {
				data[key] = []byte(value)
			}
			got, err := sshkeys.AccessFrom(state.Of(data))
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestAccess_address(t *testing.T) {
	require.Equal(t, "198.18.0.1:22", sshkeys.Access{Host: "198.18.0.1", Port: 22}.Address())
	require.Equal(t, "[2001:db8::1]:2022", sshkeys.Access{Host: "2001:db8::1", Port: 2022}.Address())
}
