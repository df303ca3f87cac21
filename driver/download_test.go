package driver_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/driver"
)

// The checksum is of the file as it lies on the server. A server that calls a .tar.gz "Content-Encoding: gzip" must not have
// it unpacked on the way, for then its checksum would be another than the one sha256sum prints.
func TestFetchTakesTheFileAsItLies(t *testing.T) {
	packed := gzipped(t, tarred(t, member{name: wanted, content: hostELF("the driver")}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "identity" {
			w.Header().Set("Content-Encoding", "gzip")
		}
		_, _ = w.Write(packed)
	}))
	t.Cleanup(server.Close)
	got, err := driver.Fetch(t.Context(), driver.FetchOptions{Name: "acme", URL: server.URL, Checksum: sha256Hex(packed), Dir: t.TempDir()})
	require.NoError(t, err)
	require.Equal(t, sha256Hex(hostELF("the driver")), got.Digest)
}

// hostileServer answers badly in many ways, each under a path of its own.
func hostileServer() http.Handler {
	answers := http.NewServeMux()
	answers.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for block := make([]byte, 64<<10); r.Context().Err() == nil; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	answers.HandleFunc("/announced", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(2<<30))
		w.WriteHeader(http.StatusOK)
	})
	answers.HandleFunc("/drip", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("\x7fELF"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	answers.HandleFunc("/moved", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "https://[hidden-signature")
		w.WriteHeader(http.StatusFound)
	})
	answers.HandleFunc("/to-a-file", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "file:///etc/passwd")
		w.WriteHeader(http.StatusFound)
	})
	answers.HandleFunc("/empty", func(http.ResponseWriter, *http.Request) {})
	answers.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("half"))
	})
	answers.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	answers.HandleFunc("/login", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("\r\n\t<HTML lang=en><title>Sign in</title>"))
	})
	for _, status := range []int{204, 206, 401, 403, 404, 408, 410, 429, 500, 503} {
		answers.HandleFunc(fmt.Sprintf("/%d", status), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	}
	return answers
}

func TestFetchFromAHostileServer(t *testing.T) {
	server := httptest.NewServer(hostileServer())
	t.Cleanup(server.Close)
	for path, tt := range map[string]struct {
		reason, message string
		temporary       bool
	}{
		"/endless":   {v3.TooLargeReason, "downloading URL: it has more than the accepted 1048576 bytes", false},
		"/announced": {v3.TooLargeReason, "downloading URL: it has more than the accepted 1048576 bytes", false},
		"/drip":      {v3.DownloadFailedReason, "downloading URL: broke off after 4 bytes: context deadline exceeded", true},
		"/moved":     {v3.DownloadFailedReason, "downloading URL: the server redirects to an address that cannot be read", true},
		"/to-a-file": {v3.DownloadFailedReason, `downloading URL: unsupported protocol scheme "file"`, true},
		"/empty":     {v3.DownloadFailedReason, "downloading URL: the answer is empty", true},
		"/cut":       {v3.DownloadFailedReason, "downloading URL: broke off after 4 bytes: unexpected EOF", true},
		"/loop":      {v3.DownloadFailedReason, "downloading URL: more than 10 redirects", true},
		"/login": {v3.NotADriverReason,
			"URL serves a web page, not a file: use the address the download link leads to, and one that needs no login", false},
		"/204": {v3.DownloadFailedReason, "downloading URL: the server answers 204 No Content", false},
		"/206": {v3.DownloadFailedReason, "downloading URL: the server answers 206 Partial Content", false},
		"/401": {v3.DownloadFailedReason, "downloading URL: the server answers 401 Unauthorized", false},
		"/403": {v3.DownloadFailedReason, "downloading URL: the server answers 403 Forbidden", false},
		"/404": {v3.DownloadFailedReason, "downloading URL: the server answers 404 Not Found", false},
		"/408": {v3.DownloadFailedReason, "downloading URL: the server answers 408 Request Timeout", true},
		"/410": {v3.DownloadFailedReason, "downloading URL: the server answers 410 Gone", false},
		"/429": {v3.DownloadFailedReason, "downloading URL: the server answers 429 Too Many Requests", true},
		"/500": {v3.DownloadFailedReason, "downloading URL: the server answers 500 Internal Server Error", true},
		"/503": {v3.DownloadFailedReason, "downloading URL: the server answers 503 Service Unavailable", true},
	} {
		t.Run(path, func(t *testing.T) {
			opts := driver.FetchOptions{Name: "acme", SkipChecksum: true, Dir: t.TempDir(), MaxBytes: 1 << 20}
			opts.URL = strings.Replace(server.URL, "http://", "http://hidden-user:hidden-word@", 1) + path + "?X-Amz-Signature=hidden#hidden"
			if path == "/drip" {
				opts.Timeout = 2 * time.Second // enough for the first bytes
			}
			_, err := driver.Fetch(t.Context(), opts)
			require.EqualError(t, err, strings.ReplaceAll(tt.message, "URL", server.URL+path))
			require.Equal(t, tt.reason, driver.ReasonOf(err))
			require.Equal(t, tt.temporary, driver.IsTemporary(err))
		})
	}
}

func TestFetchOfNoAddress(t *testing.T) {
	for url, message := range map[string]string{
		"":                         `downloading the driver: the scheme "" is not one of local://, https://, http://`,
		"file:///etc/passwd":       `downloading the driver: the scheme "file" is not one of local://, https://, http://`,
		"local://":                 `downloading the driver: the scheme "local" is not one of local://, https://, http://`,
		"https://":                 "downloading the driver: has no host",
		"http://:8080/driver":      "downloading the driver: has no host",
		"https://hidden\x7f@x":     "downloading the driver: is not a URL",
		"https://user:hidden%zz@h": "downloading the driver: is not a URL",
	} {
		t.Run(url, func(t *testing.T) {
			_, err := driver.Fetch(t.Context(), driver.FetchOptions{Name: "acme", URL: url, SkipChecksum: true, Dir: t.TempDir()})
			require.EqualError(t, err, message)
			require.Equal(t, v3.DownloadFailedReason, driver.ReasonOf(err))
			require.False(t, driver.IsTemporary(err))
		})
	}
}

// Nobody listens: it may pass, and the words say where it was tried.
func TestFetchFromNobody(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	_, err := driver.Fetch(t.Context(), driver.FetchOptions{Name: "acme", URL: server.URL + "/x?hidden", SkipChecksum: true, Dir: t.TempDir()})
	require.ErrorContains(t, err, "downloading "+server.URL+"/x: dial tcp")
	require.ErrorContains(t, err, "connection refused")
	require.NotContains(t, err.Error(), "hidden")
	require.True(t, driver.IsTemporary(err))
}

// A disk that is full or missing is no fault of the driver, and has no reason of a condition.
func TestFetchBlamesTheDisk(t *testing.T) {
	content := hostELF("x")
	missing := filepath.Join(t.TempDir(), "none")
	_, err := driver.Fetch(t.Context(), driver.FetchOptions{Name: "acme", URL: serve(t, content), SkipChecksum: true, Dir: missing})
	require.ErrorContains(t, err, "making a file for the download: open "+missing)
	require.Empty(t, driver.ReasonOf(err))
	require.False(t, driver.IsTemporary(err))
}

// A redirect may lead to another place, as GitHub's releases do, and the checksum still holds.
func TestFetchFollowsRedirects(t *testing.T) {
	program := hostELF("the driver")
	storage := serve(t, program)
	server := httptest.NewServer(http.RedirectHandler(storage+"/object?signature=x", http.StatusFound))
	t.Cleanup(server.Close)
	got, err := driver.Fetch(t.Context(), driver.FetchOptions{Name: "acme", URL: server.URL, Checksum: sha256Hex(program), Dir: t.TempDir()})
	require.NoError(t, err)
	require.Equal(t, sha256Hex(program), got.Digest)
	_, err = driver.Fetch(t.Context(), driver.FetchOptions{Name: "acme", URL: server.URL, Checksum: sha256Hex(nil), Dir: t.TempDir()})
	require.EqualError(t, err, "the download's sha256 is "+sha256Hex(program)+", not "+sha256Hex(nil)+
		": the file behind the URL changed, or spec.checksum is of another file (it must be of the file itself, before unpacking)")
	require.Equal(t, v3.ChecksumMismatchReason, driver.ReasonOf(err))
}
