package driver

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	v3 "github.com/drover-project/drover/api/management/v3"
)

// program is a 64-bit ELF file for amd64 with one segment of a type and content.
func program(segment uint32, content string) []byte {
	const header, segmentHeader = 64, 56
	out := make([]byte, header+segmentHeader)
	copy(out, "\x7fELF\x02\x01\x01")
	le := binary.LittleEndian
	le.PutUint16(out[16:], 2)
	le.PutUint16(out[18:], 62)
	le.PutUint32(out[20:], 1)
	le.PutUint64(out[32:], header)
	le.PutUint16(out[52:], header)
	le.PutUint16(out[54:], segmentHeader)
	le.PutUint16(out[56:], 1)
	le.PutUint32(out[64:], segment)
	le.PutUint64(out[72:], header+segmentHeader)
	le.PutUint64(out[96:], uint64(len(content)))
	return append(out, content...)
}

// A driver that needs a libc is told before the kernel says "no such file or directory" of a file that is there.
func TestCheckELF_interpreter(t *testing.T) {
	const load, interp = 1, 3
	loader := filepath.Join(t.TempDir(), "ld-linux.so")
	require.NoError(t, os.WriteFile(loader, nil, 0o600))
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"static":                        {program(load, "/lib64/no-such-loader\x00"), ""},
		"a libc that is there":          {program(interp, loader+"\x00"), ""},
		"a libc that is not":            {program(interp, "/lib64/no-such-loader\x00"), `the driver is linked dynamically: it needs "/lib64/no-such-loader"`},
		"a path that a terminal obeys":  {program(interp, "/lib64/\x1b[2J\x00"), `"/lib64/\x1b[2J"`},
		"an end that is missing":        {program(interp, "")[:100], ""},
		"a header, and the rest is not": {program(interp, "")[:64], ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkELF(bytes.NewReader(c.file), "amd64")
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "CGO_ENABLED=0")
			require.Equal(t, v3.DynamicallyLinkedReason, ReasonOf(err))
		})
	}
}
