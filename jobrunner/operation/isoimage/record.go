package isoimage

import (
	"encoding/binary"
	"slices"
	"time"
)

// recordMaker makes the records of a folder, in one of the image's two namings.
type recordMaker struct {
	time       time.Time
	root       uint32
	identifier func(entry) []byte
	// system makes the System Use field, which Joliet leaves empty.
	system func(name string, isRoot bool) []byte
}

// record is a Directory Record (ECMA-119, 9.1).
type record struct {
	sector, size uint32
	isFolder     bool
	identifier   []byte
	system       []byte
	time         time.Time
}

func (r record) bytes() []byte {
	flags := byte(0)
	if r.isFolder {
		flags = 2
	}
	t := r.time.UTC()
	at := []byte{byte(t.Year() - 1900), byte(t.Month()), byte(t.Day()), byte(t.Hour()), byte(t.Minute()), byte(t.Second()), 0}
	out := slices.Concat([]byte{0, 0}, both32(r.sector), both32(r.size), at, []byte{flags, 0, 0}, both16(1),
		[]byte{byte(len(r.identifier))}, r.identifier)
	// The name and the System Use field are filled up to an even length.
	out = append(append(out, make([]byte, len(out)%2)...), r.system...)
	out = append(out, make([]byte, len(out)%2)...)
	out[0] = byte(len(out))
	return out
}

const (
	modeFile   = 0o100444
	modeFolder = 0o040555
)

// rockRidge is the System Use field of a record (SUSP 1.10, RRIP 1.10): the POSIX mode, and the
// name of a file. The folder's own record announces both protocols.
func rockRidge(name string, isRoot bool) []byte {
	mode, links := uint32(modeFolder), uint32(2)
	if name != "" {
		mode, links = modeFile, 1
	}
	var out []byte
	if isRoot {
		out = append(out, 'S', 'P', 7, 1, 0xBE, 0xEF, 0)
	}
	out = slices.Concat(out, []byte{'P', 'X', 36, 1}, both32(mode), both32(links), both32(0), both32(0))
	if isRoot {
		out = append(out, 'E', 'R', byte(8+len(rockRidgeIdentifier)), 1, byte(len(rockRidgeIdentifier)), 0, 0, 1)
		out = append(out, rockRidgeIdentifier...)
	}
	if name != "" {
		out = append(out, 'N', 'M', byte(5+len(name)), 1, 0)
		out = append(out, name...)
	}
	return out
}

// descriptor is a Primary or Supplementary Volume Descriptor (ECMA-119, 8.4 and 8.5).
type descriptor struct {
	kind            byte
	label           []byte
	escape          string
	total           uint32
	pathTable, root uint32
	time            time.Time
}

func (d descriptor) bytes() []byte {
	blank := func(size int) []byte {
		if d.kind == 2 {
			return ucs2("", size)
		}
		return padded("", size, ' ')
	}
	return slices.Concat(
		[]byte{d.kind}, []byte(identifierOfImages), []byte{1, 0},
		blank(32), d.label, make([]byte, 8), both32(d.total), padded(d.escape, 32, 0),
		both16(1), both16(1), both16(sectorSize), both32(pathTableSize),
		le32(d.pathTable), le32(0), be32(d.pathTable+1), be32(0),
		record{sector: d.root, size: sectorSize, isFolder: true, identifier: []byte{0}, time: d.time}.bytes(),
		blank(128), blank(128), blank(128), blank(128), blank(36), []byte{0}, blank(36), []byte{0}, blank(36), []byte{0},
		longTime(d.time), longTime(d.time), longTime(time.Time{}), longTime(time.Time{}), []byte{1, 0},
	)
}

func longTime(t time.Time) []byte {
	if t.IsZero() {
		return append(padded("", 16, '0'), 0)
	}
	return append([]byte(t.UTC().Format("20060102150405")+"00"), 0)
}

func le32(v uint32) []byte   { return binary.LittleEndian.AppendUint32(nil, v) }
func be32(v uint32) []byte   { return binary.BigEndian.AppendUint32(nil, v) }
func both32(v uint32) []byte { return append(le32(v), be32(v)...) }
func both16(v uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, v), v)
}
