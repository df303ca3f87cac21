package isoimage_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/jobrunner/operation/isoimage"
)

// Places in an image with files, by sector.
const (
	joliet       = 17 * sector
	terminator   = 18 * sector
	jolietFolder = 24 * sector
	// firstFile is where the first file's record begins, behind those of the folder itself and of the one above.
	firstFile = jolietFolder + 2*34
)

// TestRead_refuses images that were damaged, or made to lead a reader astray.
func TestRead_refuses(t *testing.T) {
	for name, damage := range map[string]func(image []byte) []byte{
		"nothing":                             func([]byte) []byte { return nil },
		"text":                                func([]byte) []byte { return []byte("#cloud-config\n") },
		"zeros":                               func(b []byte) []byte { return make([]byte, len(b)) },
		"cut before the descriptors":          func(b []byte) []byte { return b[:16*sector] },
		"cut within Joliet's descriptor":      func(b []byte) []byte { return b[:terminator-1] },
		"cut before the folder":               func(b []byte) []byte { return b[:jolietFolder] },
		"cut within a file":                   func(b []byte) []byte { return b[:len(b)-sector-1] },
		"another identifier":                  set(joliet+1, []byte("CD002")),
		"no Joliet":                           set(joliet, []byte{0}),
		"the end before Joliet":               set(joliet, []byte{255}),
		"another escape":                      set(joliet+88, []byte("(J")),
		"a folder beyond the end":             set(joliet+156+2, le32(1<<31)),
		"a folder that is too large":          set(joliet+156+10, le32(1<<32-1)),
		"a folder whose end overflows":        set(joliet+156+2, append(le32(1<<32-1), 0, 0, 0, 0, 255, 255, 255, 255)),
		"a record that is too short":          set(firstFile, []byte{33}),
		"a record of one byte":                set(firstFile, []byte{1}),
		"a record beyond the folder's end":    set(joliet+156+10, le32(2*34+8)),
		"a name longer than its record":       set(firstFile+32, []byte{200}),
		"a file beyond the end":               set(firstFile+2, le32(1<<20)),
		"a file that is larger than it all":   set(firstFile+10, le32(1<<30)),
		"a file whose start overflows 32 bit": set(firstFile+2, le32(1<<21)),
	} {
		t.Run(name, func(t *testing.T) {
			image := imageOf(t, named("meta-data", "user-data")...).image
			found, err := isoimage.Read(damage(bytes.Clone(image)))
			require.ErrorIs(t, err, isoimage.ErrNotReadable)
			require.Zero(t, found, "no half of an image")
		})
	}
}

func set(at int, value []byte) func([]byte) []byte {
	return func(image []byte) []byte {
		copy(image[at:], value)
		return image
	}
}

func le32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }

// TestRead_takes what differs from our own images but is allowed.
func TestRead_takes(t *testing.T) {
	for name, change := range map[string]func(image []byte) []byte{
		"other kinds of descriptors before":  set(16*sector, []byte{0}),
		"more behind its end":                func(b []byte) []byte { return append(b, make([]byte, 5*sector)...) },
		"the other levels of Joliet":         set(joliet+88, []byte("%/@")),
		"a primary descriptor that is wrong": set(16*sector+156, make([]byte, 34)),
	} {
		t.Run(name, func(t *testing.T) {
			files := named("meta-data", "user-data")
			found, err := isoimage.Read(change(bytes.Clone(imageOf(t, files...).image)))
			require.NoError(t, err)
			require.Equal(t, isoimage.Image{Label: "cidata", Files: files}, found)
		})
	}
	image := imageOf(t, named("folder", "user-data")...).image
	image[firstFile+25] |= 2
	found, err := isoimage.Read(image)
	require.NoError(t, err)
	require.Equal(t, named("user-data"), found.Files, "what lies in folders is left out")
}

// TestRead_has_an_end: a folder may have many records that all mean the same large file.
func TestRead_has_an_end(t *testing.T) {
	image := imageOf(t, named("a")...).image
	record := bytes.Clone(image[firstFile : firstFile+int(image[firstFile])])
	folder := bytes.Repeat(append(record, make([]byte, sector-len(record))...), 3000)
	copy(image[joliet+156+2:], le32(uint32(len(image)/sector)))
	copy(image[joliet+156+10:], le32(3000*sector))
	found, err := isoimage.Read(append(image, folder...))
	require.NoError(t, err)
	require.Len(t, found.Files, 1024)
}

// TestImage_limits: what fits exactly is taken, and one more is refused with its reason.
func TestImage_limits(t *testing.T) {
	for name, c := range map[string]struct {
		image isoimage.Image
		err   string
	}{
		"a label of 16":               {image: isoimage.Image{Label: strings.Repeat("l", 16)}},
		"a label of 17":               {image: isoimage.Image{Label: strings.Repeat("l", 17)}, err: `the label "` + strings.Repeat("l", 17) + `" is longer than 16 characters`},
		"a name of 64":                {image: isoimage.Image{Files: named(strings.Repeat("n", 64))}},
		"a name of 65":                {image: isoimage.Image{Files: named(strings.Repeat("n", 65))}, err: "cannot be a file's name in an image"},
		"no name":                     {image: isoimage.Image{Files: named("")}, err: `"" cannot be a file's name in an image`},
		"a path":                      {image: isoimage.Image{Files: named("../escape")}, err: `"../escape" cannot be a file's name in an image`},
		"the folder itself":           {image: isoimage.Image{Files: named(".")}, err: `"." cannot be a file's name in an image`},
		"the folder above":            {image: isoimage.Image{Files: named("..")}, err: `".." cannot be a file's name in an image`},
		"a name with a version":       {image: isoimage.Image{Files: named("a;1")}, err: `"a;1" cannot be a file's name in an image`},
		"a name with a line's end":    {image: isoimage.Image{Files: named("a\nb")}, err: `"a\nb" cannot be a file's name in an image`},
		"a name that is no text":      {image: isoimage.Image{Files: named("a\xff")}, err: `"a\xff" cannot be a file's name in an image`},
		"the same name twice":         {image: isoimage.Image{Files: named("a", "b", "a")}, err: `the file "a" occurs twice`},
		"the same letters, not twice": {image: isoimage.Image{Files: named("a", "A")}},
		"all that a folder holds":     {image: isoimage.Image{Files: many(16)}},
		"more than a folder holds":    {image: isoimage.Image{Files: many(40)}, err: "too many files for an image"},
		"more bytes than are sent":    {image: isoimage.Image{Files: []isoimage.File{{Name: "a", Content: make([]byte, 64<<20+1)}}}, err: "the files have more than 67108864 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := c.image.Bytes()
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.Nil(t, content)
				return
			}
			require.NoError(t, err)
			found, err := isoimage.Read(content)
			require.NoError(t, err)
			require.ElementsMatch(t, c.image.Files, found.Files)
		})
	}
}

func many(count int) []isoimage.File {
	names := make([]string, count)
	for i := range names {
		names[i] = "file-" + string(rune('a'+i%26)) + string(rune('a'+i/26))
	}
	return named(names...)
}

// TestCommand_options are those of mkisofs in the forms in which it takes them.
func TestCommand_options(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(data, "user-data"), []byte("x"), 0o600))
	more := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(more, "meta-data"), []byte("y"), 0o600))
	for name, c := range map[string]struct {
		args  []string
		label string
		files []string
	}{
		"the driver's":   {args: []string{"-J", "-r", "-hfs", "-iso-level", "1", "-V", "cidata", "-output", "OUT", "-graft-points", data}, label: "cidata", files: []string{"user-data"}},
		"short":          {args: []string{"-o", "OUT", "-V", "one", data}, label: "one", files: []string{"user-data"}},
		"long":           {args: []string{"-output", "OUT", "-volid", "one", "-joliet", "-rational-rock", data}, label: "one", files: []string{"user-data"}},
		"both, one wins": {args: []string{"-o", "/nowhere/x", "-output", "OUT", "-volid", "two", "-V", "one", data}, label: "one", files: []string{"user-data"}},
		"folders first":  {args: []string{data, "-o", "OUT"}, files: []string{"user-data"}},
		"two folders":    {args: []string{"-o", "OUT", data, more}, files: []string{"meta-data", "user-data"}},
		"an empty value": {args: []string{"-o", "OUT", "-V", "", data}, files: []string{"user-data"}},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "x.iso")
			for i := range c.args {
				if c.args[i] == "OUT" {
					c.args[i] = out
				}
			}
			require.NoError(t, isoimage.Command(c.args, day))
			content, err := os.ReadFile(out)
			require.NoError(t, err)
			image, err := isoimage.Read(content)
			require.NoError(t, err)
			require.Equal(t, c.label, image.Label)
			var names []string
			for _, file := range image.Files {
				names = append(names, file.Name)
			}
			require.Equal(t, c.files, names)
			info, err := os.Stat(out)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode(), "user data is secret")
		})
	}
}

func TestCommand_refusals(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(data, "user-data"), []byte("x"), 0o600))
	linked := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(data, "user-data"), filepath.Join(linked, "user-data")))
	out := filepath.Join(t.TempDir(), "x.iso")
	for name, c := range map[string]struct {
		args []string
		err  string
	}{
		"nothing":                 {err: "usage: mkisofs [-J] [-r] -V LABEL -output FILE FOLDER"},
		"no folder":               {args: []string{"-o", out}, err: "usage"},
		"no output":               {args: []string{data}, err: "usage"},
		"an option without value": {args: []string{data, "-o"}, err: "the option -o needs a value"},
		"an option of others":     {args: []string{"-eltorito-boot", "x", "-o", out, data}, err: "the option -eltorito-boot is not known"},
		"a file for a folder":     {args: []string{"-o", out, filepath.Join(data, "user-data")}, err: "reading the folder of the image"},
		"a link out of it":        {args: []string{"-o", out, linked}, err: "user-data is not a regular file"},
		"the same file twice":     {args: []string{"-o", out, data, data}, err: `the file "user-data" occurs twice`},
		"a label that is long":    {args: []string{"-V", strings.Repeat("l", 17), "-o", out, data}, err: "is longer than 16 characters"},
		"nowhere to write":        {args: []string{"-o", filepath.Join(data, "none", "x"), data}, err: "writing the image"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, isoimage.Command(c.args, day), c.err)
			require.NoFileExists(t, out)
		})
	}
}

// FuzzImage: what can be written is read again, byte for byte.
func FuzzImage(f *testing.F) {
	f.Add("cidata", "user-data", []byte("#cloud-config\n"), "meta-data", []byte{}, int64(1e9))
	f.Add("", "größe", []byte("x"), "🙂", bytes.Repeat([]byte("y"), 5000), int64(0))
	f.Add("ß", "a", []byte{0}, "A", []byte{255}, int64(-1))
	f.Fuzz(func(t *testing.T, label, name1 string, content1 []byte, name2 string, content2 []byte, seconds int64) {
		files := []isoimage.File{{Name: name1, Content: content1}, {Name: name2, Content: content2}}
		content, err := isoimage.Image{Label: label, Time: time.Unix(seconds, 0), Files: files}.Bytes()
		if err != nil {
			return
		}
		found, err := isoimage.Read(content)
		require.NoError(t, err)
		require.Len(t, found.Files, 2)
		for _, file := range found.Files {
			at := 0
			if file.Name == name2 {
				at = 1
			}
			require.Equal(t, files[at].Name, file.Name)
			require.True(t, bytes.Equal(files[at].Content, file.Content))
		}
	})
}
