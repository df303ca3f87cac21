package driver

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"

	v3 "github.com/drover-project/drover/api/management/v3"
)

// elfArchs names the machine field of an ELF header as Go does.
var elfArchs = map[uint16]string{3: "386", 21: "ppc64le", 22: "s390x", 40: "arm", 62: "amd64", 183: "arm64", 243: "riscv64"}

// checkELF reads only the first bytes of the header: enough to explain the problem before the
// kernel says "exec format error".
func checkELF(file io.ReaderAt, arch string) error {
	const headerSize, littleEndian, executable, sharedObject = 20, 1, 2, 3
	header := make([]byte, headerSize)
	if _, err := file.ReadAt(header, 0); err != nil {
		return fail(v3.NotADriverReason, "the driver's file has fewer than %d bytes", headerSize)
	}
	if form := formOf(header); form != formELF {
		return fail(v3.NotADriverReason, "the driver's file is %s, not a Linux binary", form)
	}
	var order binary.ByteOrder = binary.BigEndian
	if header[5] == littleEndian {
		order = binary.LittleEndian
	}
	if kind := order.Uint16(header[16:]); !slices.Contains([]uint16{executable, sharedObject}, kind) {
		return fail(v3.NotADriverReason, "the driver's file is an ELF file, but no program")
	}
	machine := order.Uint16(header[18:])
	if got := cmp.Or(elfArchs[machine], fmt.Sprintf("ELF machine %d", machine)); got != arch {
		return fail(v3.WrongArchitectureReason, "the driver is built for %s, but has to run on %s: set spec.url to the file for %[2]s", got, arch)
	}
	if loader := interpreter(file); loader != "" {
		if _, err := os.Stat(loader); err != nil {
			return fail(v3.DynamicallyLinkedReason, "the driver is linked dynamically: it needs %.200q and the libraries of a libc, which the image that Jobs run does not have. "+
				"Take a static build of the driver (for Go: CGO_ENABLED=0), or run Jobs with an image that has a libc (docs/install.md)", loader)
		}
	}
	return nil
}

// interpreter returns the program that the kernel starts in a binary's place and that loads its
// libraries (elf(5), PT_INTERP); empty for a static binary. It leaves unreadable binaries to the
// kernel.
func interpreter(file io.ReaderAt) string {
	program, err := elf.NewFile(file)
	if err != nil {
		return ""
	}
	for _, segment := range program.Progs {
		if segment.Type != elf.PT_INTERP {
			continue
		}
		path, err := io.ReadAll(io.LimitReader(segment.Open(), maxInterpreter))
		if err != nil {
			return ""
		}
		return string(bytes.TrimRight(path, "\x00"))
	}
	return ""
}

// maxInterpreter is the longest path that the kernel takes.
const maxInterpreter = 4096
