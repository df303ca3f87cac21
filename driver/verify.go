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

	v3 "github.com/drover-project/drover/api/management/v3"
)

var hashes = map[string]func() hash.Hash{"md5": md5.New, "sha1": sha1.New, "sha256": sha256.New, "sha512": sha512.New}

// verify compares the file with a checksum whose length decides its kind; an empty checksum accepts
// any file.
func verify(file *os.File, checksum string) error {
	kind, err := ChecksumKind(checksum)
	if err != nil {
		return fail(v3.ChecksumMismatchReason, "the checksum %w", err)
	}
	newHash, ok := hashes[kind]
	if !ok {
		return nil
	}
	sum := newHash()
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading the download again: %w", err)
	}
	if _, err := io.Copy(sum, file); err != nil {
		return fmt.Errorf("hashing the download: %w", err)
	}
	got := hex.EncodeToString(sum.Sum(nil))
	if !strings.EqualFold(got, checksum) {
		return fail(v3.ChecksumMismatchReason, "the download's %s is %s, not %s: the file behind the URL changed, or spec.checksum is of another file (it must be of the file itself, before unpacking)",
			kind, got, strings.ToLower(checksum))
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
			return fail(v3.NotADriverReason, "%s serves a web page, not a file: use the address the download link leads to, and one that needs no login", PublicURL(url))
		}
	}
	return nil
}
