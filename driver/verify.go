package driver

import (
	"bytes"
	"crypto/md5"  //nolint:gosec // Rancher's NodeDrivers may have md5 checksums; Validate warns about them
	"crypto/sha1" //nolint:gosec // as md5
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
)

// verify compares the file with a checksum whose kind its length tells; an empty checksum accepts anything.
func verify(file *os.File, checksum string) error {
	kind, err := ChecksumKind(checksum)
	if err != nil {
		return fail(ChecksumMismatchReason, "the checksum %w", err)
	}
	sum := newHash(kind)
	if sum == nil {
		return nil
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading the download again: %w", err)
	}
	if _, err := io.Copy(sum, file); err != nil {
		return fmt.Errorf("hashing the download: %w", err)
	}
	got := hex.EncodeToString(sum.Sum(nil))
	if !strings.EqualFold(got, checksum) {
		return fail(ChecksumMismatchReason, "the download's %s is %s, not %s: the file behind the URL changed, or spec.checksum is of another file (it must be of the file itself, before unpacking)",
			kind, got, strings.ToLower(checksum))
	}
	return nil
}

func newHash(kind string) hash.Hash {
	switch kind {
	case "md5":
		return md5.New() //nolint:gosec // see the import
	case "sha1":
		return sha1.New() //nolint:gosec // see the import
	case "sha256":
		return sha256.New()
	case "sha512":
		return sha512.New()
	}
	return nil
}

// refuseWebPage comes before the checksum, because "it is a web page" helps more than two numbers.
func refuseWebPage(file *os.File, url string) error {
	head := make([]byte, 512)
	n, err := file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the download: %w", err)
	}
	start := bytes.ToLower(bytes.TrimLeft(bytes.TrimPrefix(head[:n], []byte("\xef\xbb\xbf")), " \t\r\n"))
	for _, mark := range []string{"<!doctype html", "<html", "<head", "<!--", "<?xml"} {
		if bytes.HasPrefix(start, []byte(mark)) {
			return fail(NotADriverReason, "%s serves a web page, not a file: use the address the download link leads to, and one that needs no login", PublicURL(url))
		}
	}
	return nil
}
