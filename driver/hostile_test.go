package driver_test

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/driver"
)

// zipDirectory is a zip of nothing but a list of members, whose end claims another number of them.
func zipDirectory(members int, claimed uint16) []byte {
	var out bytes.Buffer
	entry := make([]byte, 46)
	copy(entry, "PK\x01\x02")
	binary.LittleEndian.PutUint16(entry[28:], 1)
	out.WriteString("PK\x03\x04")
	out.Write(make([]byte, 26))
	start := out.Len()
	for range members {
		out.Write(entry)
		out.WriteByte('x')
	}
	out.Write(zipEnd(claimed, out.Len()-start, start))
	return out.Bytes()
}

func zipEnd(claimed uint16, size, offset int) []byte {
	end := make([]byte, 22)
	copy(end, "PK\x05\x06")
	binary.LittleEndian.PutUint16(end[8:], claimed)
	binary.LittleEndian.PutUint16(end[10:], claimed)
	binary.LittleEndian.PutUint32(end[12:], uint32(size&0xffffffff))
	binary.LittleEndian.PutUint32(end[16:], uint32(offset&0xffffffff))
	return end
}

// zip64Directory hides the number of members behind the end that all programs read first.
func zip64Directory(members int) []byte {
	plain := zipDirectory(members, 1)
	body := plain[:len(plain)-22]
	const start = 30
	record := make([]byte, 56)
	copy(record, "PK\x06\x06")
	binary.LittleEndian.PutUint64(record[4:], 44)
	binary.LittleEndian.PutUint64(record[24:], uint64(members&0xffffffff))
	binary.LittleEndian.PutUint64(record[32:], uint64(members&0xffffffff))
	binary.LittleEndian.PutUint64(record[40:], uint64(len(body)-start))
	binary.LittleEndian.PutUint64(record[48:], start)
	locator := make([]byte, 20)
	copy(locator, "PK\x06\x07")
	binary.LittleEndian.PutUint64(locator[8:], uint64(len(body)))
	binary.LittleEndian.PutUint32(locator[16:], 1)
	end := zipEnd(1, 0, 0xffffffff)
	return bytes.Join([][]byte{body, record, locator, end}, nil)
}

// An archive of a million members costs no more memory than the download: what it says about their number is not believed.
func TestFetchIsNotMovedByAMillionMembers(t *testing.T) {
	const million = 15*65536 + 1 // of which a zip's end keeps the last 16 bits
	tarOfNames := func() []byte {
		header := tarred(t, member{name: "x"})[:512]
		return gzipped(t, bytes.Repeat(header, 100_000))
	}
	for name, content := range map[string][]byte{
		"zip that tells":    zipDirectory(65_000, 65_000),
		"zip that says one": zipDirectory(million, 1),
		"zip64":             zip64Directory(million),
		"tar.gz":            tarOfNames(),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := fetch(t, content, nil)
			runtime.ReadMemStats(&after)
			require.Equal(t, v3.TooLargeReason, driver.ReasonOf(err), "%v", err)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(48<<20))
		})
	}
}

func TestFetchRefusesHostileTars(t *testing.T) {
	long := strings.Repeat("d/", 50_000)
	// Members a driver's archive has no business to have; each would be the driver by its name.
	for name, tt := range map[string]struct {
		header  tar.Header
		content string
		message string
	}{
		"symbolic link": {tar.Header{Typeflag: tar.TypeSymlink, Name: wanted, Linkname: "/proc/self/exe"}, "",
			`the member "docker-machine-driver-acme" of the tar archive is a link or a special file`},
		"hard link": {tar.Header{Typeflag: tar.TypeLink, Name: "bin/" + wanted, Linkname: "/etc/shadow"}, "",
			`the member "bin/docker-machine-driver-acme" of the tar archive is a link or a special file`},
		"named pipe": {tar.Header{Typeflag: tar.TypeFifo, Name: wanted}, "",
			`the member "docker-machine-driver-acme" of the tar archive is a link or a special file`},
		"device": {tar.Header{Typeflag: tar.TypeChar, Name: wanted, Devmajor: 1, Devminor: 5}, "",
			`the member "docker-machine-driver-acme" of the tar archive is a link or a special file`},
		"link under a name with colours": {tar.Header{Typeflag: tar.TypeSymlink, Name: "\x1b[31m\u202e/" + wanted, Linkname: "x"}, "",
			`the member "\x1b[31m\u202e/docker-machine-driver-acme" of the tar archive is a link or a special file`},
		"link under an endless name": {tar.Header{Typeflag: tar.TypeSymlink, Name: long + wanted, Linkname: "x"}, "",
			`the member "` + long[:100] + `"… of the tar archive is a link or a special file`},
		"climbing name": {tar.Header{Name: "a/../../" + wanted}, "x",
			`the archive has a member outside its root: "a/../../docker-machine-driver-acme"`},
		"climbing name that is not ours": {tar.Header{Name: "../../../etc/cron.d/x"}, "x",
			`the archive has a member outside its root: "../../../etc/cron.d/x"`},
		"absolute name": {tar.Header{Name: "/usr/bin/" + wanted}, "x",
			`the archive has a member outside its root: "/usr/bin/docker-machine-driver-acme"`},
		"only a folder of that name": {tar.Header{Typeflag: tar.TypeDir, Name: wanted + "/"}, "",
			"the archive has no member docker-machine-driver-acme (it has 1 members)"},
		"only a checksum of that name": {tar.Header{Name: wanted + ".sha256sum"}, "x",
			`the archive has no docker-machine-driver-acme but "docker-machine-driver-acme.sha256sum": set spec.displayName to the driver's own name`},
		"nothing inside": {tar.Header{Name: wanted}, "", "the driver's file has fewer than 20 bytes"},
		"a page inside":  {tar.Header{Name: wanted}, "<!DOCTYPE html><html><head>", "the driver's file is of no known form, not a Linux binary"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			w := tar.NewWriter(&out)
			tt.header.Size = int64(len(tt.content))
			require.NoError(t, w.WriteHeader(&tt.header))
			_, err := w.Write([]byte(tt.content))
			require.NoError(t, err)
			require.NoError(t, w.Close())
			for _, content := range [][]byte{out.Bytes(), gzipped(t, out.Bytes())} {
				_, err = fetch(t, content, nil)
				require.EqualError(t, err, tt.message)
				require.Equal(t, v3.NotADriverReason, driver.ReasonOf(err))
				require.False(t, driver.IsTemporary(err), "it is no use to try again")
			}
		})
	}
}

// A member may claim any size; only what comes is counted, and only up to the bound.
func TestFetchDoesNotBelieveSizes(t *testing.T) {
	var sparse bytes.Buffer
	w := tar.NewWriter(&sparse)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: wanted, Size: 1 << 40, Format: tar.FormatGNU}))
	_, err := w.Write(hostELF("the rest never comes"))
	require.NoError(t, err)
	_, err = fetch(t, sparse.Bytes(), nil)
	require.Equal(t, v3.NotADriverReason, driver.ReasonOf(err))
	require.EqualError(t, err, "unpacking the driver: it is damaged: unexpected EOF")

	// The size in a zip's list is another than what is packed.
	lying := zipped(t, member{name: wanted, content: hostELF("the driver")})
	at := bytes.LastIndex(lying, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(lying[at+24:], 3)
	_, err = fetch(t, lying, nil)
	require.Equal(t, v3.NotADriverReason, driver.ReasonOf(err))
	require.ErrorContains(t, err, "damaged")
}

// Of several members that could be the driver the first is taken, and no other is looked at.
func TestFetchTakesTheFirstOfSeveral(t *testing.T) {
	first, second := hostELF("first"), hostELF("second, with more")
	for name, content := range map[string][]byte{
		"tar": tarred(t, member{name: wanted, content: first}, member{name: "b/" + wanted, content: second}, member{name: "../" + wanted, content: second}),
		"zip": zipped(t, member{name: wanted, content: first}, member{name: "b/" + wanted, content: second}, member{name: "../" + wanted, content: second}),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := fetch(t, content, nil)
			require.NoError(t, err)
			require.Equal(t, sha256Hex(first), got.Digest)
		})
	}
}

func TestNoNameLeadsOutOfTheFolder(t *testing.T) {
	// Names of drivers that would be paths, options or several words if they were believed.
	for _, name := range []string{"", ".", "..", "../x", "/etc/passwd", "a/b", `a\b`, "-rf", "a b", "a\nb", "a\x00b", "Acme", "acme-", "9lives", "ümlaut",
		strings.Repeat("a", 300)} {
		t.Run(fmt.Sprintf("%.20q", name), func(t *testing.T) {
			_, err := fetch(t, hostELF("x"), func(o *driver.FetchOptions) { o.Name = name })
			require.Equal(t, v3.NotADriverReason, driver.ReasonOf(err))
			require.ErrorContains(t, err, "naming the driver's file: driver name")
			_, err = driver.Load(t.Context(), nil, name, sha256Hex(nil), t.TempDir())
			require.ErrorContains(t, err, "naming the driver's file: driver name", "before anything is read")
		})
	}
}

func TestFetchKnowsEveryArchitecture(t *testing.T) {
	for arch, tt := range map[string]struct {
		machine uint16
		big     bool
	}{
		"386": {3, false}, "ppc64le": {21, false}, "s390x": {22, true}, "arm": {40, false}, "amd64": {62, false}, "arm64": {183, false}, "riscv64": {243, false},
	} {
		t.Run(arch, func(t *testing.T) {
			header := make([]byte, 64)
			copy(header, "\x7fELF\x02\x01\x01")
			var order binary.ByteOrder = binary.LittleEndian
			if tt.big {
				header[5], order = 2, binary.BigEndian
			}
			order.PutUint16(header[16:], 3)
			order.PutUint16(header[18:], tt.machine)
			_, err := fetch(t, header, func(o *driver.FetchOptions) { o.Arch = arch })
			require.NoError(t, err, "a position-independent program")
			_, err = fetch(t, header, func(o *driver.FetchOptions) { o.Arch = "mips" })
			require.EqualError(t, err, "the driver is built for "+arch+", but has to run on mips: set spec.url to the file for mips")
			require.Equal(t, v3.WrongArchitectureReason, driver.ReasonOf(err))
		})
	}
}
