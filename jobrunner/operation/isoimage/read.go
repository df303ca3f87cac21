package isoimage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf16"
)

// ErrNotReadable is the error for content that is not an image with Joliet names.
var ErrNotReadable = errors.New("this is not a CD image with Joliet names")

const (
	lastDescriptor   = 64
	recordHeaderSize = 33
	maxFiles         = 1024
)

// Read returns the label and the files of an image's topmost folder. It takes any image that has
// Joliet names.
func Read(image []byte) (Image, error) {
	root, label, err := findJoliet(image)
	if err != nil {
		return Image{}, err
	}
	folder, err := extent(image, root)
	if err != nil {
		return Image{}, err
	}
	found := Image{Label: label}
	for at := 0; at < len(folder) && len(found.Files) < maxFiles; {
		size := int(folder[at])
		if size == 0 {
			// A record never crosses a sector: the rest of this one is empty.
			at = (at/sectorSize + 1) * sectorSize
			continue
		}
		if size <= recordHeaderSize || at+size > len(folder) {
			return Image{}, ErrNotReadable
		}
		record := folder[at : at+size]
		length := int(record[32])
		if recordHeaderSize+length > len(record) {
			return Image{}, ErrNotReadable
		}
		at += size
		if isFolder := record[25]&2 != 0; isFolder {
			continue
		}
		content, err := extent(image, record)
		if err != nil {
			return Image{}, err
		}
		name, _, _ := strings.Cut(fromUCS2(record[recordHeaderSize:recordHeaderSize+length]), ";")
		found.Files = append(found.Files, File{Name: name, Content: content})
	}
	return found, nil
}

// findJoliet returns the record of the root folder in the supplementary descriptor.
func findJoliet(image []byte) (root []byte, label string, err error) {
	for sector := sectorPrimary; sector < lastDescriptor; sector++ {
		start := sector * sectorSize
		if start+sectorSize > len(image) {
			break
		}
		d := image[start : start+sectorSize]
		if string(d[1:6]) != identifierOfImages || d[0] == 255 {
			break
		}
		if d[0] == 2 && bytes.HasPrefix(d[88:], []byte("%/")) {
			return d[156:190], strings.TrimRight(fromUCS2(d[40:72]), " \x00"), nil
		}
	}
	return nil, "", ErrNotReadable
}

// extent returns the content that a record points at.
func extent(image, record []byte) ([]byte, error) {
	start := uint64(binary.LittleEndian.Uint32(record[2:])) * sectorSize
	size := uint64(binary.LittleEndian.Uint32(record[10:]))
	if start+size > uint64(len(image)) {
		return nil, ErrNotReadable
	}
	return image[start : start+size], nil
}

func fromUCS2(b []byte) string {
	units := make([]uint16, 0, len(b)/2)
	for i := 0; i+1 < len(b); i += 2 {
		units = append(units, binary.BigEndian.Uint16(b[i:]))
	}
	return string(utf16.Decode(units))
}
