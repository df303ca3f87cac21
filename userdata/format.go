package userdata

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// MaxBytes bounds user data, bootstrap data and their merger after unzipping.
const MaxBytes = 4 << 20

// ErrCannotMerge means that data is in no format that can be joined with other data.
var ErrCannotMerge = errors.New("the format cannot be merged")

// Format of user data or bootstrap data.
type Format string

// The formats that Detect distinguishes, after unzipping.
const (
	// Empty: the data has no bytes.
	Empty Format = "empty"
	// Script begins with #!.
	Script Format = "script"
	// CloudConfig begins with #cloud-config.
	CloudConfig Format = "cloud-config"
	// Jinja begins with ## template: jinja; the next line has the format of the rendered text.
	Jinja Format = "jinja"
	// MultiPart is a MIME multi-part message.
	MultiPart Format = "multi-part"
	// Opaque is anything else, such as Ignition; it is handed over as it is or not at all.
	Opaque Format = "opaque"
)

var gzipMagic = []byte{0x1f, 0x8b}

// blanks may stand before the beginning of a text.
const blanks = " \t\r\n"

// Unzip returns data unzipped if it is gzip, and as it is otherwise.
func Unzip(data []byte) ([]byte, error) {
	reader, err := opened(data)
	if err != nil {
		return nil, err
	}
	out := data
	if _, plain := reader.(*bytes.Reader); !plain {
		if out, err = io.ReadAll(io.LimitReader(reader, MaxBytes+1)); err != nil {
			return nil, fmt.Errorf("unzipping: %w", err)
		}
	}
	if len(out) > MaxBytes {
		return nil, errTooLarge
	}
	return out, nil
}

var errTooLarge = fmt.Errorf("the data is larger than %d bytes", MaxBytes)

// withoutMark removes the byte order mark that editors on Windows put before a text; with it
// cloud-init would not recognise the format.
func withoutMark(data []byte) []byte {
	if text, marked := bytes.CutPrefix(data, []byte("\xef\xbb\xbf")); marked && Detect(text) != Opaque {
		return text
	}
	return data
}

// cloudConfig matches the beginning of a cloud-config; #cloud-config-archive and
// #cloud-config-jsonp are other formats.
var cloudConfig = regexp.MustCompile(`^#cloud-config([` + blanks + `]|$)`)

// Detect returns the format of unzipped data like cloud-init: by its beginning, regardless of case.
func Detect(data []byte) Format {
	data = bytes.TrimLeft(data, blanks)
	start := strings.ToLower(string(data[:min(len(data), 64)]))
	switch {
	case start == "":
		return Empty
	case strings.HasPrefix(start, "#!"):
		return Script
	case cloudConfig.MatchString(start):
		return CloudConfig
	case strings.HasPrefix(start, "## template: jinja"):
		return Jinja
	case strings.HasPrefix(start, "mime-version:") || strings.HasPrefix(start, "content-type: multipart/"):
		return MultiPart
	}
	return Opaque
}
