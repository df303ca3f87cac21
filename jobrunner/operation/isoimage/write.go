package isoimage

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	sectorSize = 2048

	// Sectors of an image, in their order; file contents follow.
	sectorPrimary       = 16
	sectorJoliet        = 17
	sectorTerminator    = 18
	sectorPathTable     = 19 // Four of them: primary and Joliet, little-endian and big-endian.
	sectorPrimaryRoot   = 23
	sectorJolietRoot    = 24
	sectorFirstFile     = 25
	pathTableSize       = 10
	maxLabel            = 16
	maxName             = 64
	maxContent          = 64 << 20
	identifierOfImages  = "CD001"
	ucs2Escape          = "%/E"
	rockRidgeIdentifier = "RRIP_1991A"
)

// File is one file of an image.
type File struct {
	Name    string
	Content []byte
}

// Image is the content to write.
type Image struct {
	// Label is the volume's name; cloud-init looks for cidata.
	Label string
	// Time of all files.
	Time time.Time
	// Files of the image's only folder.
	Files []File
}

// Bytes returns the image. It fails for names with folders, duplicate names, and too many or too
// large files.
func (i Image) Bytes() ([]byte, error) {
	if err := i.check(); err != nil {
		return nil, err
	}
	entries := make([]entry, 0, len(i.Files))
	total, taken := uint32(sectorFirstFile), map[string]bool{}
	for _, file := range i.Files {
		entries = append(entries, entry{name: file.Name, short: shortName(file.Name, taken), sector: total, content: file.Content})
		total += uint32((len(file.Content) + sectorSize - 1) / sectorSize)
	}
	primaryRoot, err := folder(entries, recordMaker{
		time: i.Time, root: sectorPrimaryRoot, system: rockRidge, identifier: func(e entry) []byte { return []byte(e.short) }})
	if err != nil {
		return nil, err
	}
	jolietRoot, err := folder(entries, recordMaker{
		time: i.Time, root: sectorJolietRoot, system: func(string, bool) []byte { return nil }, identifier: func(e entry) []byte { return ucs2(e.name+";1", 0) }})
	if err != nil {
		return nil, err
	}
	out := make([]byte, int(total)*sectorSize)
	put := func(sector uint32, content []byte) { copy(out[int(sector)*sectorSize:], content) }
	put(sectorPrimary, descriptor{kind: 1, label: padded(strings.ToUpper(i.Label), 32, ' '), total: total,
		pathTable: sectorPathTable, root: sectorPrimaryRoot, time: i.Time}.bytes())
	put(sectorJoliet, descriptor{kind: 2, label: ucs2(i.Label, 32), escape: ucs2Escape, total: total,
		pathTable: sectorPathTable + 2, root: sectorJolietRoot, time: i.Time}.bytes())
	put(sectorTerminator, append([]byte{255}, identifierOfImages+"\x01"...))
	// A path table holds one record, the root, which is its own parent.
	for n, root := range []uint32{sectorPrimaryRoot, sectorJolietRoot} {
		put(sectorPathTable+uint32(2*n), slices.Concat([]byte{1, 0}, le32(root), []byte{1, 0, 0, 0}))
		put(sectorPathTable+uint32(2*n)+1, slices.Concat([]byte{1, 0}, be32(root), []byte{0, 1, 0, 0}))
	}
	put(sectorPrimaryRoot, primaryRoot)
	put(sectorJolietRoot, jolietRoot)
	for _, e := range entries {
		put(e.sector, e.content)
	}
	return out, nil
}

func (i Image) check() error {
	if len(i.Label) > maxLabel {
		return fmt.Errorf("the label %q is longer than %d characters", i.Label, maxLabel)
	}
	seen, size := map[string]bool{}, 0
	for _, file := range i.Files {
		// Joliet forbids some signs, a reader would take others for a folder, and some cannot be
		// written in both namings.
		if name := file.Name; name == "" || name == "." || name == ".." || len(name) > maxName || !utf8.ValidString(name) ||
			strings.ContainsAny(name, "/\\*:;?\x00") || strings.ContainsFunc(name, unicode.IsControl) {
			return fmt.Errorf("%q cannot be a file's name in an image", file.Name)
		}
		if seen[file.Name] {
			return fmt.Errorf("the file %q occurs twice", file.Name)
		}
		seen[file.Name] = true
		if size += len(file.Content); size > maxContent {
			return fmt.Errorf("the files have more than %d bytes", maxContent)
		}
	}
	return nil
}

// entry is a file that has its place in the image.
type entry struct {
	name, short string
	sector      uint32
	content     []byte
}

// shortName is an ISO level 1 name: eight characters, a dot and three. Readers of Rock Ridge or
// Joliet never see it.
func shortName(name string, taken map[string]bool) string {
	base, extension, _ := strings.Cut(strings.Map(func(r rune) rune {
		if (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9') || r == '.' {
			return r
		}
		return '_'
	}, strings.ToUpper(name)), ".")
	base, extension = fmt.Sprintf("%.8s", base), fmt.Sprintf("%.3s", strings.ReplaceAll(extension, ".", "_"))
	short := base + "." + extension + ";1"
	for n := 1; taken[short]; n++ {
		tail := fmt.Sprint(n)
		short = fmt.Sprintf("%.*s%s.%s;1", 8-len(tail), base, tail, extension)
	}
	taken[short] = true
	return short
}

// folder lays out the records of the only folder, in the order of their identifiers.
func folder(entries []entry, records recordMaker) ([]byte, error) {
	sorted := slices.SortedFunc(slices.Values(entries), func(a, b entry) int {
		return bytes.Compare(records.identifier(a), records.identifier(b))
	})
	// The record of the folder and the record of its parent, which is the same folder.
	var out []byte
	for n := range byte(2) {
		own := record{sector: records.root, size: sectorSize, isFolder: true, identifier: []byte{n}, system: records.system("", n == 0), time: records.time}
		out = append(out, own.bytes()...)
	}
	for _, e := range sorted {
		out = append(out, record{
			sector: e.sector, size: uint32(len(e.content)), identifier: records.identifier(e), system: records.system(e.name, false), time: records.time,
		}.bytes()...)
	}
	if len(out) > sectorSize {
		return nil, errors.New("too many files for an image")
	}
	return out, nil
}

// ucs2 is a text in UCS-2, of at least this size.
func ucs2(s string, size int) []byte {
	var out []byte
	for _, unit := range utf16.Encode([]rune(s)) {
		out = append(out, byte(unit>>8), byte(unit))
	}
	for len(out) < size {
		out = append(out, 0, ' ')
	}
	return out
}

func padded(s string, size int, with byte) []byte {
	out := bytes.Repeat([]byte{with}, size)
	copy(out, s)
	return out
}
