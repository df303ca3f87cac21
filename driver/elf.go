package driver

import (
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
)

// hostArch is the architecture this program runs on.
const hostArch = runtime.GOARCH

// elfArch names the machine field of an ELF header as Go does.
func elfArch(machine uint16) string {
	switch machine {
	case 3:
		return "386"
	case 21:
		return "ppc64le"
	case 22:
		return "s390x"
	case 40:
		return "arm"
	case 62:
		return "amd64"
	case 183:
		return "arm64"
	case 243:
		return "riscv64"
	}
	return fmt.Sprintf("ELF machine %d", machine)
}

// checkELF reads only the first bytes of the header: enough to tell people what is wrong before the kernel says "exec
// format error".
func checkELF(file io.ReaderAt, arch string) error {
	const headerSize, littleEndian, executable, sharedObject = 20, 1, 2, 3
	header := make([]byte, headerSize)
	if _, err := file.ReadAt(header, 0); err != nil {
		return fail(NotADriverReason, "the driver's file has fewer than %d bytes", headerSize)
	}
	if form := formOf(header); form != formELF {
		return fail(NotADriverReason, "the driver's file is %s, not a Linux binary", form)
	}
	var order binary.ByteOrder = binary.BigEndian
	if header[5] == littleEndian {
		order = binary.LittleEndian
	}
	if kind := order.Uint16(header[16:]); kind != executable && kind != sharedObject {
		return fail(NotADriverReason, "the driver's file is an ELF file, but no program")
	}
	if got := elfArch(order.Uint16(header[18:])); got != arch {
		return fail(WrongArchitectureReason, "the driver is built for %s, but has to run on %s: set spec.url to the file for %[2]s", got, arch)
	}
	return nil
}
