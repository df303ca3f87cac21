package isoimage_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/jobrunner/operation/isoimage"
)

var day = time.Date(2026, 9, 8, 7, 6, 5, 0, time.UTC)

func TestImageKeepsItsFiles(t *testing.T) {
	cases := map[string][]isoimage.File{
		"nothing":            {},
		"cloud-init's seed":  {{Name: "meta-data", Content: []byte("local-hostname: one\n")}, {Name: "user-data", Content: []byte("#cloud-config\n{}\n")}},
		"an empty file":      {{Name: "empty", Content: []byte{}}, {Name: "full", Content: []byte("x")}},
		"over many sectors":  {{Name: "large", Content: bytes.Repeat([]byte("0123456789"), 10_000)}, {Name: "small", Content: []byte("after it")}},
		"one sector exactly": {{Name: "a", Content: bytes.Repeat([]byte("a"), 2048)}, {Name: "b", Content: []byte("b")}},
		"names alike":        {{Name: "network-config-1", Content: []byte("1")}, {Name: "network-config-2", Content: []byte("2")}},
		"letters of others":  {{Name: "größe.txt", Content: []byte("3")}},
	}
	for name, files := range cases {
		t.Run(name, func(t *testing.T) {
			content, err := isoimage.Image{Label: "cidata", Time: day, Files: files}.Bytes()
			require.NoError(t, err)
			require.Zero(t, len(content)%2048)
			found, err := isoimage.Read(content)
			require.NoError(t, err)
			require.Equal(t, "cidata", found.Label)
			require.ElementsMatch(t, files, found.Files)
		})
	}
}

func FuzzRead(f *testing.F) {
	good, err := isoimage.Image{Label: "cidata", Time: day, Files: []isoimage.File{{Name: "user-data", Content: []byte("x")}}}.Bytes()
	require.NoError(f, err)
	f.Add(good)
	f.Add(good[:40_000])
	f.Fuzz(func(t *testing.T, content []byte) {
		image, err := isoimage.Read(content)
		if err != nil {
			require.Empty(t, image.Files)
		}
	})
}
