package isoimage_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
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

func TestImageIsTheSameForTheSameFiles(t *testing.T) {
	image := isoimage.Image{Label: "cidata", Time: day, Files: []isoimage.File{{Name: "user-data", Content: []byte("x")}}}
	one, err := image.Bytes()
	require.NoError(t, err)
	two, err := image.Bytes()
	require.NoError(t, err)
	require.Equal(t, one, two)
}

func TestImageRefuses(t *testing.T) {
	many := make([]isoimage.File, 100)
	for i := range many {
		many[i].Name = strings.Repeat("n", i%50+1) + string(rune('a'+i/50))
	}
	cases := map[string]isoimage.Image{
		"longer than":             {Label: strings.Repeat("l", 17)},
		"cannot be a file's name": {Files: []isoimage.File{{Name: "../escape"}}},
		"is there twice":          {Files: []isoimage.File{{Name: "a"}, {Name: "a"}}},
		"too many files":          {Files: many},
	}
	for message, image := range cases {
		t.Run(message, func(t *testing.T) {
			_, err := image.Bytes()
			require.ErrorContains(t, err, message)
		})
	}
}

func TestCommandTakesTheDriversArguments(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	require.NoError(t, os.Mkdir(data, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(data, "user-data"), []byte("#cloud-config\n"), 0o600))
	out := filepath.Join(dir, "user-data.iso")
	require.NoError(t, isoimage.Command([]string{"-J", "-r", "-hfs", "-iso-level", "1", "-V", "cidata", "-output", out, "-graft-points", data}, day))
	content, err := os.ReadFile(out)
	require.NoError(t, err)
	image, err := isoimage.Read(content)
	require.NoError(t, err)
	require.Equal(t, isoimage.Image{Label: "cidata", Files: []isoimage.File{{Name: "user-data", Content: []byte("#cloud-config\n")}}}, image)
}

func TestCommandRefuses(t *testing.T) {
	nested := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(nested, "folder"), 0o700))
	cases := map[string][]string{
		"usage":              {"-J"},
		"-boot-image":        {"-boot-image", "x"},
		"is no plain file":   {"-output", filepath.Join(t.TempDir(), "x"), nested},
		"reading the folder": {"-output", filepath.Join(t.TempDir(), "x"), filepath.Join(nested, "none")},
		"writing the image":  {"-output", filepath.Join(nested, "none", "x"), t.TempDir()},
	}
	for message, args := range cases {
		t.Run(message, func(t *testing.T) {
			require.ErrorContains(t, isoimage.Command(args, day), message)
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
