package driver

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	v3 "github.com/drover-project/drover/api/management/v3"
)

const (
	// BinaryPrefix comes before a driver's name in the name of its binary.
	BinaryPrefix = "docker-machine-driver-"

	maxMembers = 10_000
	// maxOthers is how many drivers with other names an error lists.
	maxOthers = 5
	// maxDirectoryBytes is far above the size of a zip directory with maxMembers members.
	maxDirectoryBytes = 4 << 20

	tarMagicStart = 257
	headSize      = 512
)

// installFrom installs the driver's binary, which it recognises by the content's first bytes and,
// in an archive, by name. It writes only that one member to disk.
func installFrom(content io.ReaderAt, size int64, opts FetchOptions) (Binary, error) {
	// A zip's offsets are the sender's; outside the section they give an end of file, while an
	// *os.File would report an error of our disk.
	section := io.NewSectionReader(content, 0, size)
	stream := bufio.NewReader(section)
	head, err := stream.Peek(headSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return Binary{}, fmt.Errorf("reading the download: %w", err)
	}
	switch form := formOf(head); form {
	case formGzip:
		return installFromGzip(stream, opts)
	case formZip:
		return installFromZip(section, size, opts)
	case formTar:
		return installFromTar(stream, opts)
	case formELF:
		return install(stream, opts)
	default:
		return Binary{}, fail(v3.NotADriverReason, "the download is %s; a driver comes as a Linux binary, or as .gz, .tar, .tar.gz or .zip with one inside", form)
	}
}

const (
	formELF  = "a Linux binary"
	formGzip = "a gzip file"
	formZip  = "a zip archive"
	formTar  = "a tar archive"
)

func formOf(head []byte) string {
	starts := func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }
	switch {
	case starts("\x7fELF"):
		return formELF
	case starts("\x1f\x8b"):
		return formGzip
	case starts("PK\x03\x04"), starts("PK\x05\x06"):
		return formZip
	case len(head) > tarMagicStart+5 && string(head[tarMagicStart:tarMagicStart+5]) == "ustar":
		return formTar
	case starts("MZ"):
		return "a Windows program"
	case starts("\xcf\xfa\xed\xfe"), starts("\xca\xfe\xba\xbe"), starts("\xce\xfa\xed\xfe"):
		return "a macOS program"
	case starts("#!"):
		return "a script"
	case starts("\xfd7zXZ"), starts("BZh"), starts("\x28\xb5\x2f\xfd"), starts("7z\xbc\xaf"):
		return "compressed in a way that is not understood"
	}
	return "of no known form"
}

func installFromGzip(stream io.Reader, opts FetchOptions) (Binary, error) {
	unzipped, err := gzip.NewReader(stream)
	if err != nil {
		return Binary{}, fail(v3.NotADriverReason, "unpacking the gzip file: %w", err)
	}
	content := bufio.NewReader(&boundedReader{from: unzipped, left: 2 * opts.MaxBytes})
	head, err := content.Peek(headSize)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return Binary{}, badArchive("gzip file", err)
	}
	switch form := formOf(head); form {
	case formELF:
		return install(content, opts)
	case formTar:
		return installFromTar(content, opts)
	default:
		return Binary{}, fail(v3.NotADriverReason, "the gzip file holds something that is %s, neither a Linux binary nor a tar archive", form)
	}
}

func installFromTar(stream io.Reader, opts FetchOptions) (Binary, error) {
	archive := tar.NewReader(&boundedReader{from: stream, left: 2 * opts.MaxBytes})
	seen := members{want: opts.Name}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return Binary{}, seen.notFound()
		}
		if err != nil {
			return Binary{}, badArchive("tar archive", err)
		}
		isWanted, err := seen.add(header.Name)
		if err != nil {
			return Binary{}, err
		}
		if !isWanted || header.Typeflag == tar.TypeDir {
			continue
		}
		if header.Typeflag != tar.TypeReg {
			return Binary{}, fail(v3.NotADriverReason, "the member %s of the tar archive is a link or a special file", shorten(header.Name))
		}
		return install(archive, opts)
	}
}

func installFromZip(content io.ReaderAt, size int64, opts FetchOptions) (Binary, error) {
	if err := refuseHugeZip(content, size); err != nil {
		return Binary{}, err
	}
	// The number of members in the zip's end record may be false, and opening the archive reads
	// them all.
	directory := &meteredReader{from: content, left: maxDirectoryBytes}
	archive, err := zip.NewReader(directory, size)
	if err != nil {
		return Binary{}, badArchive("zip archive", err)
	}
	directory.unlimited = true
	seen := members{want: opts.Name}
	for _, file := range archive.File {
		isWanted, err := seen.add(file.Name)
		if err != nil {
			return Binary{}, err
		}
		if !isWanted || file.FileInfo().IsDir() {
			continue
		}
		if !file.Mode().IsRegular() {
			return Binary{}, fail(v3.NotADriverReason, "the member %s of the zip archive is a link or a special file", shorten(file.Name))
		}
		member, err := file.Open()
		if err != nil {
			return Binary{}, badArchive("zip archive", err)
		}
		defer func() { _ = member.Close() }()
		return install(member, opts)
	}
	return Binary{}, seen.notFound()
}

// refuseHugeZip reads the number of members from the archive's end, because opening a zip allocates
// an entry for each of them.
func refuseHugeZip(content io.ReaderAt, size int64) error {
	const recordSize, maxComment = 22, 1 << 16
	tail := make([]byte, min(size, recordSize+maxComment))
	if _, err := content.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the end of the zip archive: %w", err)
	}
	at := bytes.LastIndex(tail, []byte("PK\x05\x06"))
	if at < 0 || len(tail)-at < recordSize {
		return fail(v3.NotADriverReason, "unpacking the zip archive: its end is missing")
	}
	if count := binary.LittleEndian.Uint16(tail[at+10:]); count > maxMembers {
		return fail(v3.TooLargeReason, "the zip archive has more than %d members", maxMembers)
	}
	return nil
}

// documents are the suffixes of files that are not binaries.
var documents = []string{".md", ".txt", ".json", ".md5", ".sha1", ".sha256", ".sha512", ".sha256sum", ".sha512sum", ".sig", ".asc", ".pem", ".exe"}

// members recognises the driver among the names in an archive, and remembers other candidates.
type members struct {
	want   string
	count  int
	others []string
}

// add reports whether name is the name of the wanted binary.
func (m *members) add(name string) (bool, error) {
	if m.count++; m.count > maxMembers {
		return false, fail(v3.TooLargeReason, "the archive has more than %d members", maxMembers)
	}
	clean := path.Clean(strings.ReplaceAll(name, `\`, "/"))
	if !filepath.IsLocal(clean) {
		return false, fail(v3.NotADriverReason, "the archive has a member outside its root: %s", shorten(name))
	}
	base := path.Base(clean)
	if base == BinaryPrefix+m.want {
		return true, nil
	}
	// Some publishers leave version and platform in the member's name.
	if rest, ok := strings.CutPrefix(base, BinaryPrefix+m.want); ok && strings.ContainsRune("_-.", rune(rest[0])) && !slices.Contains(documents, path.Ext(base)) {
		return true, nil
	}
	if strings.HasPrefix(base, BinaryPrefix) {
		m.others = append(m.others, shorten(base))
	}
	return false, nil
}

func (m *members) notFound() error {
	if len(m.others) > 0 {
		return fail(v3.NotADriverReason, "the archive has no %s%s but %s: set spec.displayName to the driver's own name",
			BinaryPrefix, m.want, strings.Join(m.others[:min(len(m.others), maxOthers)], ", "))
	}
	return fail(v3.NotADriverReason, "the archive has no member %s%s (it has %d members)", BinaryPrefix, m.want, m.count)
}

// shorten quotes a name, which may be long and contain any characters, for display.
func shorten(name string) string {
	const most = 100
	if len(name) > most {
		return strconv.Quote(strings.ToValidUTF8(name[:most], "")) + "…"
	}
	return strconv.Quote(name)
}

// install writes the binary, checks that it can run here, and computes its digest.
func install(content io.Reader, opts FetchOptions) (Binary, error) {
	file, err := os.CreateTemp(opts.Dir, "unpacked-*")
	if err != nil {
		return Binary{}, fmt.Errorf("making a file for the driver: %w", err)
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}()
	digest := sha256.New()
	size, err := io.Copy(io.MultiWriter(file, digest), &boundedReader{from: content, left: opts.MaxBytes})
	if err != nil {
		return Binary{}, badArchive("driver", err)
	}
	if err := checkELF(file, opts.Arch); err != nil {
		return Binary{}, err
	}
	if err := file.Chmod(0o755); err != nil {
		return Binary{}, fmt.Errorf("making the driver executable: %w", err)
	}
	// Closed before it gets its name: Linux does not run a file that is open for writing.
	if err := file.Close(); err != nil {
		return Binary{}, fmt.Errorf("writing the driver: %w", err)
	}
	target := filepath.Join(opts.Dir, BinaryPrefix+opts.Name)
	if err := os.Rename(file.Name(), target); err != nil {
		return Binary{}, fmt.Errorf("naming the driver: %w", err)
	}
	return Binary{Name: opts.Name, Path: target, Digest: hex.EncodeToString(digest.Sum(nil)), Size: size}, nil
}

// errTooLarge is the error of a boundedReader at its bound.
var errTooLarge = errors.New("larger than accepted")

// boundedReader fails, rather than ends, when more than left bytes come.
type boundedReader struct {
	from io.Reader
	left int64
}

// Read implements io.Reader.
func (r *boundedReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if r.left -= int64(n); r.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// meteredReader fails when more than left bytes are read, until it is made unlimited.
type meteredReader struct {
	from      io.ReaderAt
	left      int64
	unlimited bool
}

// ReadAt implements io.ReaderAt.
func (r *meteredReader) ReadAt(p []byte, offset int64) (int, error) {
	if !r.unlimited {
		if r.left -= int64(len(p)); r.left < 0 {
			return 0, errTooLarge
		}
	}
	return r.from.ReadAt(p, offset)
}

// badArchive blames the download unless our own disk failed.
func badArchive(what string, err error) error {
	if errors.Is(err, errTooLarge) {
		return fail(v3.TooLargeReason, "unpacking the %s: it is larger than accepted", what)
	}
	if _, ok := errors.AsType[*os.PathError](err); ok {
		return fmt.Errorf("unpacking the %s: %w", what, err)
	}
	return fail(v3.NotADriverReason, "unpacking the %s: it is damaged: %w", what, err)
}
