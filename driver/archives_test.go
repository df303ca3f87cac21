package driver_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io/fs"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// elfFile is the beginning of a Linux program for arch and some content after it.
func elfFile(arch, content string) []byte {
	machines := map[string]uint16{"amd64": 62, "arm64": 183}
	header := make([]byte, 64)
	copy(header, "\x7fELF\x02\x01\x01")
	binary.LittleEndian.PutUint16(header[16:], 2)
	binary.LittleEndian.PutUint16(header[18:], machines[arch])
	return append(header, content...)
}

func hostELF(content string) []byte { return elfFile(runtime.GOARCH, content) }

type member struct {
	name    string
	content []byte
	link    string
}

func gzipped(tb testing.TB, content []byte) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(content)
	require.NoError(tb, err)
	require.NoError(tb, w.Close())
	return out.Bytes()
}

func tarred(tb testing.TB, members ...member) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, m := range members {
		header := &tar.Header{Name: m.name, Mode: 0o755, Size: int64(len(m.content)), Typeflag: tar.TypeReg}
		if m.link != "" {
			header.Typeflag, header.Linkname = tar.TypeSymlink, m.link
		}
		require.NoError(tb, w.WriteHeader(header))
		_, err := w.Write(m.content)
		require.NoError(tb, err)
	}
	require.NoError(tb, w.Close())
	return out.Bytes()
}

func zipped(tb testing.TB, members ...member) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, m := range members {
		header := &zip.FileHeader{Name: m.name, Method: zip.Deflate}
		header.SetMode(0o755)
		content := m.content
		if m.link != "" {
			header.SetMode(fs.ModeSymlink | 0o777)
			content = []byte(m.link)
		}
		part, err := w.CreateHeader(header)
		require.NoError(tb, err)
		_, err = part.Write(content)
		require.NoError(tb, err)
	}
	require.NoError(tb, w.Close())
	return out.Bytes()
}
