package driver_test

import (
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/driver"
)

const wanted = "docker-machine-driver-acme"

func sha256Hex(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// serve answers every request with content.
func serve(t *testing.T, content []byte) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }))
	t.Cleanup(server.Close)
	return server.URL
}

func fetch(t *testing.T, content []byte, change func(*driver.FetchOptions)) (driver.Binary, error) {
	t.Helper()
	opts := driver.FetchOptions{Name: "acme", URL: serve(t, content), Checksum: sha256Hex(content), Dir: t.TempDir()}
	if change != nil {
		change(&opts)
	}
	got, err := driver.Fetch(context.Background(), opts)
	if err != nil {
		left, readErr := os.ReadDir(opts.Dir)
		require.NoError(t, readErr)
		require.Empty(t, left, "a failed fetch must leave nothing behind")
	}
	return got, err
}

func TestFetchTakesEveryForm(t *testing.T) {
	program := hostELF("the driver")
	readme := member{name: "README.md", content: []byte("read me")}
	for name, content := range map[string][]byte{
		"binary":                  program,
		"gzip":                    gzipped(t, program),
		"tar":                     tarred(t, readme, member{name: wanted, content: program}),
		"tar with a folder":       tarred(t, member{name: "./dist/" + wanted, content: program}),
		"tar.gz":                  gzipped(t, tarred(t, readme, member{name: wanted, content: program})),
		"tar.gz with other links": gzipped(t, tarred(t, member{name: "latest", link: "/etc/passwd"}, member{name: wanted, content: program})),
		"zip":                     zipped(t, readme, member{name: wanted, content: program}),
		"zip with version":        zipped(t, member{name: wanted + ".sha256", content: []byte("x")}, member{name: wanted + "_v1.2.3", content: program}),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := fetch(t, content, nil)
			require.NoError(t, err)
			require.Equal(t, sha256Hex(program), got.Digest)
			require.Equal(t, int64(len(program)), got.Size)
			require.Equal(t, wanted, filepath.Base(got.Path))
			data, err := os.ReadFile(got.Path)
			require.NoError(t, err)
			require.Equal(t, program, data)
			info, err := os.Stat(got.Path)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o755), info.Mode())
			left, err := os.ReadDir(filepath.Dir(got.Path))
			require.NoError(t, err)
			require.Len(t, left, 1)
		})
	}
}

func TestFetchRefusesWhatIsNoDriver(t *testing.T) {
	program := hostELF("the driver")
	other := "arm64"
	if hostELF("")[18] == elfFile("arm64", "")[18] {
		other = "amd64"
	}
	rest := strings.Repeat(".", 100)
	object := hostELF("an object file")
	object[16], object[17] = 1, 0
	foreign := hostELF("for a processor without a name")
	foreign[18], foreign[19] = 0xfe, 0x7f
	for name, test := range map[string]struct {
		content []byte
		reason  string
		message string
	}{
		"xz":                {[]byte("\xfd7zXZ" + rest), v3.NotADriverReason, "compressed in a way that is not understood"},
		"bzip2":             {[]byte("BZh9" + rest), v3.NotADriverReason, "compressed in a way that is not understood"},
		"zstd":              {[]byte("\x28\xb5\x2f\xfd" + rest), v3.NotADriverReason, "compressed in a way that is not understood"},
		"7z":                {[]byte("7z\xbc\xaf" + rest), v3.NotADriverReason, "a driver comes as a Linux binary, or as .gz"},
		"universal macOS":   {[]byte("\xca\xfe\xba\xbe" + rest), v3.NotADriverReason, "a macOS program"},
		"page with a mark":  {[]byte("\xef\xbb\xbf<HTML>" + rest), v3.NotADriverReason, "serves a web page"},
		"page with remarks": {[]byte("<!-- sign in -->" + rest), v3.NotADriverReason, "serves a web page"},
		"XML of a bucket":   {[]byte("<?xml version='1.0'?><Error>" + rest), v3.NotADriverReason, "serves a web page"},
		"object file":       {object, v3.NotADriverReason, "but no program"},
		"unknown processor": {foreign, v3.WrongArchitectureReason, "ELF machine 32766"},
		"web page":          {[]byte("\n <!DOCTYPE html><html>sign in"), v3.NotADriverReason, "serves a web page"},
		"Windows program":   {[]byte("MZ......................................"), v3.NotADriverReason, "a Windows program"},
		"macOS program":     {append([]byte("\xcf\xfa\xed\xfe"), program...), v3.NotADriverReason, "a macOS program"},
		"script":            {[]byte("#!/bin/sh\nexit 0\n"), v3.NotADriverReason, "a script"},
		"text":              {[]byte("Not Found"), v3.NotADriverReason, "of no known form"},
		"short binary":      {[]byte("\x7fELF"), v3.NotADriverReason, "fewer than"},
		"wrong processor":   {elfFile(other, "x"), v3.WrongArchitectureReason, "built for " + other},
		"archive of another driver": {tarred(t, member{name: "docker-machine-driver-metal", content: program}), v3.NotADriverReason,
			`"docker-machine-driver-metal": set spec.displayName`},
		"archive without driver":   {zipped(t, member{name: "README.md"}), v3.NotADriverReason, "no member " + wanted},
		"empty zip":                {zipped(t), v3.NotADriverReason, "no member"},
		"zip with escaping name":   {zipped(t, member{name: `..\..\` + wanted, content: program}), v3.NotADriverReason, "outside its root"},
		"zip with the name a link": {zipped(t, member{name: wanted, link: "/etc/shadow"}), v3.NotADriverReason, "a link"},
		"archive holding a script": {zipped(t, member{name: wanted, content: []byte("#!/bin/sh\nexit 0 # long enough\n")}), v3.NotADriverReason, "a script"},
		"gzip of text":             {gzipped(t, []byte("hello")), v3.NotADriverReason, "neither a Linux binary nor a tar"},
		"cut gzip":                 {gzipped(t, program)[:40], v3.NotADriverReason, "damaged"},
		"cut tar":                  {tarred(t, member{name: wanted, content: program})[:540], v3.NotADriverReason, "damaged"},
		"cut zip":                  {zipped(t, member{name: wanted, content: program})[:50], v3.NotADriverReason, "end is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fetch(t, test.content, nil)
			require.ErrorContains(t, err, test.message)
			require.Equal(t, test.reason, driver.ReasonOf(err))
			require.False(t, driver.IsTemporary(err))
		})
	}
}

func TestFetchVerifiesByLengthOfChecksum(t *testing.T) {
	program := hostELF("the driver")
	m, s1, s5 := md5.Sum(program), sha1.Sum(program), sha512.Sum512(program)
	for name, checksum := range map[string]string{
		"md5": hex.EncodeToString(m[:]), "sha1": hex.EncodeToString(s1[:]), "sha256": sha256Hex(program),
		"SHA512": strings.ToUpper(hex.EncodeToString(s5[:])),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fetch(t, program, func(o *driver.FetchOptions) { o.Checksum = checksum })
			require.NoError(t, err)
			_, err = fetch(t, append(program, 'x'), func(o *driver.FetchOptions) { o.Checksum = checksum })
			require.Equal(t, v3.ChecksumMismatchReason, driver.ReasonOf(err))
			require.ErrorContains(t, err, strings.ToLower(checksum))
		})
	}
	_, err := fetch(t, program, func(o *driver.FetchOptions) { o.Checksum = "" })
	require.Equal(t, v3.ChecksumMismatchReason, driver.ReasonOf(err))
	_, err = fetch(t, program, func(o *driver.FetchOptions) { o.Checksum, o.SkipChecksum = "", true })
	require.NoError(t, err)
	found, err := fetch(t, program, func(o *driver.FetchOptions) { o.Digest = sha256Hex(program) })
	require.NoError(t, err)
	require.Equal(t, sha256Hex(program), found.Digest)
	_, err = fetch(t, append(program, 'x'), func(o *driver.FetchOptions) { o.Checksum, o.SkipChecksum, o.Digest = "", true, sha256Hex(program) })
	require.Equal(t, v3.ChecksumMismatchReason, driver.ReasonOf(err))
	require.ErrorContains(t, err, "was "+sha256Hex(program), "whoever accepts anything accepted what was read before")
	_, err = fetch(t, program, func(o *driver.FetchOptions) { o.Checksum = "abc" })
	require.Equal(t, v3.ChecksumMismatchReason, driver.ReasonOf(err))
}

func TestFetchIsBounded(t *testing.T) {
	program := hostELF(strings.Repeat("a", 100_000))
	small := func(o *driver.FetchOptions) { o.MaxBytes = 50_000 }
	for name, tt := range map[string]struct {
		content []byte
		message string
	}{
		"download":    {program, "it has more than the accepted 50000 bytes"},
		"gzip bomb":   {gzipped(t, program), "unpacking the driver: it is larger than accepted"},
		"tar.gz bomb": {gzipped(t, tarred(t, member{name: wanted, content: program})), "unpacking the driver: it is larger than accepted"},
		"zip bomb":    {zipped(t, member{name: wanted, content: program}), "unpacking the driver: it is larger than accepted"},
		"tar.gz with a bomb before": {gzipped(t, tarred(t, member{name: "big", content: make([]byte, 200_000)}, member{name: wanted, content: hostELF("x")})),
			"unpacking the tar archive: it is larger than accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fetch(t, tt.content, small)
			require.ErrorContains(t, err, tt.message)
			require.Equal(t, v3.TooLargeReason, driver.ReasonOf(err), "%v", err)
			require.False(t, driver.IsTemporary(err))
		})
	}
	at := hostELF(strings.Repeat("a", 50_000-64))
	_, err := fetch(t, at, small)
	require.NoError(t, err, "the bound itself is accepted")
	_, err = fetch(t, append(at, 'a'), small)
	require.Equal(t, v3.TooLargeReason, driver.ReasonOf(err))
}

func TestFetchChecksTLSAndKeepsIt(t *testing.T) {
	plain := serve(t, hostELF("x"))
	secure := httptest.NewTLSServer(http.RedirectHandler(plain, http.StatusFound))
	t.Cleanup(secure.Close)
	opts := driver.FetchOptions{Name: "acme", URL: secure.URL, SkipChecksum: true, Dir: t.TempDir()}
	_, err := driver.Fetch(context.Background(), opts)
	require.ErrorContains(t, err, "certificate")
	opts.Transport = secure.Client().Transport
	_, err = driver.Fetch(context.Background(), opts)
	require.ErrorContains(t, err, "https leads to http")
}
