package userdata

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/drover-project/drover/clouds"
)

// Summary describes data without parsing it.
type Summary struct {
	// Format by the data's beginning.
	Format Format
	// Bytes after unzipping; Visible counts the bytes that are not blanks: YAML that is written
	// again has at least as many.
	Bytes, Visible int
	// Head is the beginning of the text.
	Head string
}

const (
	headBytes = 256
	// maxPacked bounds the scripts that Check packs to learn their size.
	maxPacked = 1 << 20
)

// Inspect reads data once, in pieces: whatever its unzipped size, it needs only the memory of a
// buffer.
func Inspect(data []byte) (Summary, error) {
	reader, err := opened(data)
	if err != nil {
		return Summary{}, err
	}
	var (
		s     Summary
		head  []byte
		piece [32 << 10]byte
	)
	for {
		n, err := reader.Read(piece[:])
		read := piece[:n]
		s.Bytes += n
		for _, b := range read {
			if b > ' ' {
				s.Visible++
			}
		}
		if len(head) == 0 {
			read = bytes.TrimLeft(read, blanks)
		}
		head = append(head, read[:min(len(read), headBytes-len(head))]...)
		if s.Bytes > MaxBytes {
			return Summary{}, errTooLarge
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Summary{}, fmt.Errorf("unzipping: %w", err)
		}
	}
	s.Head = string(withoutMark(head))
	s.Format = Detect([]byte(s.Head))
	return s, nil
}

func opened(data []byte) (io.Reader, error) {
	if !bytes.HasPrefix(data, gzipMagic) {
		return bytes.NewReader(data), nil
	}
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("unzipping: %w", err)
	}
	return reader, nil
}

// Check rejects data that certainly cannot be handed over, without parsing it: it runs in the
// manager, which many tenants share. UserData in the Job validates the rest. Errors can be
// *TooLargeError and ErrCannotMerge.
func Check(driver string, input Input) error {
	user, err := Inspect(input.User)
	if err != nil {
		return fmt.Errorf("reading %s: %w", ofUser, err)
	}
	boot, err := Inspect(input.Bootstrap)
	if err != nil {
		return fmt.Errorf("reading %s: %w", ofBootstrap, err)
	}
	if _, _, err := passOpaque(source{name: ofUser, format: user.Format}, source{name: ofBootstrap, format: boot.Format}); err != nil {
		return err
	}
	limit := clouds.Of(driver).UserData.Limit
	if limit.Gzip {
		return nil
	}
	largest := cmp.Or(limit.Bytes, MaxBytes)
	size := 0 // the larger one's size: it may contain the other
	for data, s := range map[*[]byte]Summary{&input.User: user, &input.Bootstrap: boot} {
		atLeast, err := s.atLeast(*data, largest)
		if err != nil {
			return err
		}
		size = max(size, atLeast)
	}
	if size > largest {
		return &TooLargeError{Driver: driver, Size: size, Limit: largest}
	}
	return nil
}

// atLeast returns the minimum number of bytes of user data that the source becomes. It returns 0
// for a script that fits unpacked, because packing takes the memory of the whole script.
func (s Summary) atLeast(data []byte, largest int) (int, error) {
	switch {
	case s.Format != Script:
		return s.Visible, nil
	case s.Bytes > maxPacked, base64.StdEncoding.EncodedLen(s.Bytes) <= largest:
		return 0, nil
	}
	script, err := Unzip(data)
	if err != nil {
		return 0, err
	}
	packed, err := zip(script)
	return base64.StdEncoding.EncodedLen(len(packed)), err
}

// programs are the beginnings of texts for other programs than cloud-init's three main handlers.
// Sources: cloud-init 22.4, cloudinit/handlers/__init__.py INCLUSION_TYPES_MAP; Ignition,
// docs/specs.md (JSON); Talos, machine configuration (YAML documents with version: v1alpha1 or
// apiVersion: v1alpha1); cloudbase-init, "Userdata"; Bottlerocket, "Using user data" (TOML).
var programs = []string{
	"#include", "#part-handler", "#cloud-boothook", "#upstart-job", "#cloud-config-archive", "#cloud-config-jsonp", "## template:",
	"content-type:", "{", "version: v1alpha1", "apiversion: v1alpha1", "debug:", "machine:", "---", "#ps1", "<powershell>", "<script>", "rem cmd", "[settings", "variant:",
}

// IsUnexplained reports whether no known program reads such data, so that the server most likely
// ignores it.
func (s Summary) IsUnexplained() bool {
	if s.Format != Opaque {
		return false
	}
	head := strings.ToLower(s.Head)
	for _, begin := range programs {
		if strings.HasPrefix(head, begin) {
			return false
		}
	}
	return true
}
