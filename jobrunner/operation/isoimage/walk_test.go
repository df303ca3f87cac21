package isoimage_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/jobrunner/operation/isoimage"
	"github.com/drover-project/drover/testkit/golden"
)

const sector = 2048

// walker reads an image as Linux does: the primary descriptor, and Rock Ridge in the System Use fields (ECMA-119, SUSP, RRIP). It
// shares nothing with package isoimage, whose Read goes by Joliet.
type walker struct {
	t     *testing.T
	image []byte
}

// walked is a directory record.
type walked struct {
	identifier, name string
	sector, size     uint32
	mode, links      uint32
	flags            byte
	time             []byte
	content          []byte
}

// number reads a field that stands there in both byte orders.
func (w walker) number(field []byte) uint32 {
	w.t.Helper()
	low, high := binary.LittleEndian.Uint32(field), binary.BigEndian.Uint32(field[4:])
	require.Equal(w.t, low, high, "both byte orders say the same")
	return low
}

func (w walker) short(field []byte) uint16 {
	w.t.Helper()
	low, high := binary.LittleEndian.Uint16(field), binary.BigEndian.Uint16(field[2:])
	require.Equal(w.t, low, high, "both byte orders say the same")
	return low
}

func (w walker) sectors(start, size uint32) []byte {
	w.t.Helper()
	from := int(start) * sector
	require.LessOrEqual(w.t, from+int(size), len(w.image))
	return w.image[from : from+int(size)]
}

// descriptor of a kind: 1 is the primary one, 2 that of Joliet.
func (w walker) descriptor(kind byte) []byte {
	w.t.Helper()
	for at := 16; ; at++ {
		d := w.image[at*sector : (at+1)*sector]
		require.Equal(w.t, "CD001\x01", string(d[1:7]), "sector %d is a descriptor", at)
		if d[0] == kind {
			return d
		}
		require.NotEqual(w.t, byte(255), d[0], "there is no descriptor %d", kind)
	}
}

// records of the folder to which a descriptor's root points.
func (w walker) records(kind byte) []walked {
	w.t.Helper()
	root := w.record(w.descriptor(kind)[156:190])
	require.Equal(w.t, byte(2), root.flags&2)
	folder := w.sectors(root.sector, root.size)
	var out []walked
	for at := 0; at < len(folder) && folder[at] != 0; at += int(folder[at]) {
		require.Zero(w.t, folder[at]%2, "records have even lengths")
		out = append(out, w.record(folder[at:at+int(folder[at])]))
	}
	require.GreaterOrEqual(w.t, len(out), 2)
	require.Equal(w.t, []string{"\x00", "\x01"}, []string{out[0].identifier, out[1].identifier}, "the folder itself, and the one above")
	for _, own := range out[:2] {
		require.Equal(w.t, root.sector, own.sector)
		require.Equal(w.t, byte(2), own.flags)
	}
	return out
}

func (w walker) record(r []byte) walked {
	w.t.Helper()
	out := walked{
		sector: w.number(r[2:]), size: w.number(r[10:]), time: r[18:25], flags: r[25], identifier: string(r[33 : 33+int(r[32])]),
	}
	require.Equal(w.t, uint16(1), w.short(r[28:]), "there is one volume")
	out.content = w.sectors(out.sector, out.size)
	use := 33 + int(r[32])
	for at := use + use%2; at+4 <= len(r) && r[at+2] >= 4; at += int(r[at+2]) {
		field := r[at : at+int(r[at+2])]
		require.Equal(w.t, byte(1), field[3], "the version of a field")
		switch string(field[:2]) {
		case "NM":
			out.name = string(field[5:])
		case "PX":
			out.mode, out.links = w.number(field[4:]), w.number(field[12:])
			require.Zero(w.t, w.number(field[20:])+w.number(field[28:]), "all belongs to root")
		}
	}
	return out
}

func imageOf(t *testing.T, files ...isoimage.File) walker {
	t.Helper()
	content, err := isoimage.Image{Label: "cidata", Time: day, Files: files}.Bytes()
	require.NoError(t, err)
	return walker{t: t, image: content}
}

func named(names ...string) []isoimage.File {
	files := make([]isoimage.File, 0, len(names))
	for _, name := range names {
		files = append(files, isoimage.File{Name: name, Content: []byte("content of " + name)})
	}
	return files
}

// TestImage_as_Linux_reads_it finds all files by their Rock Ridge names, with content and mode.
func TestImage_as_Linux_reads_it(t *testing.T) {
	for name, files := range map[string][]isoimage.File{
		"nothing":           {},
		"cloud-init's seed": named("meta-data", "user-data", "network-config"),
		"long names":        named(strings.Repeat("a", 63)+"1", strings.Repeat("a", 63)+"2"),
		"odd lengths":       named("a", "ab", "abc", "abcd", "abcde"),
		"other letters":     named("größe.txt", "文件", "🙂.cfg"),
		"points":            named(".hidden", "a.b.c.d", "trailing.", "..."),
		"an empty file":     {{Name: "empty"}, {Name: "behind", Content: []byte("x")}},
		"over many sectors": {{Name: "large", Content: bytes.Repeat([]byte("0123456789"), 5000)}, {Name: "behind", Content: []byte("x")}},
	} {
		t.Run(name, func(t *testing.T) {
			w := imageOf(t, files...)
			found := map[string]string{}
			for _, r := range w.records(1)[2:] {
				require.Equal(t, uint32(0o100444), r.mode, r.name)
				require.Equal(t, uint32(1), r.links)
				require.Zero(t, r.flags)
				found[r.name] = string(r.content)
			}
			want := map[string]string{}
			for _, file := range files {
				want[file.Name] = string(file.Content)
			}
			require.Equal(t, want, found)
			require.Equal(t, uint32(0o040555), w.records(1)[0].mode)
		})
	}
}

// TestImage_both_namings_show_the_same: whoever reads Joliet gets what whoever reads Rock Ridge gets.
func TestImage_both_namings_show_the_same(t *testing.T) {
	w := imageOf(t, named("user-data", "meta-data", "größe", "vendor-data")...)
	places := map[uint32]string{}
	for _, r := range w.records(1)[2:] {
		places[r.sector] = r.name
	}
	previous := ""
	for _, r := range w.records(2)[2:] {
		require.Greater(t, r.identifier, previous, "the records are in the order of their names")
		previous = r.identifier
		require.Empty(t, r.name, "Joliet has no Rock Ridge")
		want := ""
		for _, unit := range places[r.sector] + ";1" {
			want += string([]byte{byte(unit >> 8), byte(unit)})
		}
		require.Equal(t, want, r.identifier)
	}
}

// TestImage_descriptors: the fields of both descriptors, and the path tables that old readers go by.
func TestImage_descriptors(t *testing.T) {
	w := imageOf(t, named("user-data")...)
	require.Equal(t, make([]byte, 16*sector), w.image[:16*sector], "the first sectors are nobody's")
	for kind, label := range map[byte]string{1: "CIDATA" + strings.Repeat(" ", 26), 2: wide("cidata")} {
		d := w.descriptor(kind)
		require.Equal(t, label, string(d[40:72]))
		require.Equal(t, uint32(len(w.image)/sector), w.number(d[80:]), "its size")
		require.Equal(t, uint16(sector), w.short(d[128:]), "the size of a sector")
		require.Equal(t, map[byte]string{1: "", 2: "%/E"}[kind], string(bytes.TrimRight(d[88:120], "\x00")))
		root := w.record(d[156:190]).sector
		table := w.sectors(binary.LittleEndian.Uint32(d[140:]), w.number(d[132:]))
		require.Equal(t, root, binary.LittleEndian.Uint32(table[2:]))
		table = w.sectors(binary.BigEndian.Uint32(d[148:]), w.number(d[132:]))
		require.Equal(t, root, binary.BigEndian.Uint32(table[2:]))
		require.Equal(t, "2026090807060500\x00", string(d[813:830]), "when it was made")
		require.Equal(t, strings.Repeat("0", 16)+"\x00", string(d[847:864]), "it never ends")
	}
	require.Equal(t, []byte{126, 9, 8, 7, 6, 5, 0}, w.records(1)[2].time)
}

func wide(text string) string {
	var out strings.Builder
	for range 16 - len(text) {
		text += " "
	}
	for _, r := range text {
		out.WriteString("\x00" + string(r))
	}
	return out.String()
}

func TestImage_time_is_in_UTC(t *testing.T) {
	content, err := isoimage.Image{Time: day.In(time.FixedZone("east", 5*3600)), Files: named("a")}.Bytes()
	require.NoError(t, err)
	require.Equal(t, []byte{126, 9, 8, 7, 6, 5, 0}, walker{t: t, image: content}.records(1)[2].time)
}

// TestImage_short_names are for readers that know neither Rock Ridge nor Joliet: eight letters, three, and each only once.
func TestImage_short_names(t *testing.T) {
	var lines []string
	for _, names := range [][]string{
		{"user-data", "meta-data", "network-config"},
		{"network-config-1", "network-config-2", "network-config-3"},
		{"a.txt", "A.txt", "a.TXT"},
		{"größe.text", ".hidden", "many.points.in.it", "文件"},
	} {
		w := imageOf(t, named(names...)...)
		seen := map[string]bool{}
		for _, r := range w.records(1)[2:] {
			require.Regexp(t, `^[A-Z0-9_]{0,8}\.[A-Z0-9_]{0,3};1$`, r.identifier)
			require.False(t, seen[r.identifier], "%s occurs twice", r.identifier)
			seen[r.identifier] = true
			lines = append(lines, fmt.Sprintf("%-20s %s", r.name, r.identifier))
		}
		lines = append(lines, "")
	}
	golden.Require(t, "testdata/short-names.golden", strings.Join(lines, "\n"))
}
