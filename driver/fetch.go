package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"time"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/crdgen"
)

const (
	defaultMaxBytes = 512 << 20
	defaultTimeout  = 10 * time.Minute
	maxRedirects    = 10
)

// FetchOptions are the source and the destination of a download.
type FetchOptions struct {
	// Name of the driver, as in docker-machine-driver-<name>.
	Name string
	// URL of the binary, of the binary gzipped, or of a tar, tar.gz or zip that holds it.
	URL string
	// Checksum of the file at the URL, in hex; see ChecksumKind.
	Checksum string
	// SkipChecksum accepts anything when Checksum is empty.
	SkipChecksum bool
	// Digest is the required sha256 of the binary, in hex, if an earlier download recorded it; ""
	// accepts any.
	Digest string
	// Dir receives the binary as docker-machine-driver-<name>, and holds the download until then.
	Dir string
	// MaxBytes bounds the download and the binary; 512 MiB if 0.
	MaxBytes int64
	// Timeout bounds the download as a whole; ten minutes if 0.
	Timeout time.Duration
	// Arch is the architecture the binary must be for, as Go names it; the running one if empty.
	Arch string
	// Transport for the request; nil means the default one, with proxies and CA certificates from
	// the environment.
	Transport http.RoundTripper
}

// Binary is a driver's binary on disk.
type Binary struct {
	// Name of the driver.
	Name string
	// Path of the file, which is executable.
	Path string
	// Digest is the sha256 of the file in hex; it names the binary in the cache.
	Digest string
	// Size in bytes.
	Size int64
}

// Fetch downloads, verifies and unpacks a driver. Errors are of type *Error, except errors of the
// disk.
func Fetch(ctx context.Context, opts FetchOptions) (Binary, error) {
	opts = opts.withDefaults()
	if err := checkName(opts.Name); err != nil {
		return Binary{}, err
	}
	if opts.Checksum == "" && !opts.SkipChecksum {
		return Binary{}, fail(v3.ChecksumMismatchReason, "no checksum is given for %s: set spec.checksum", PublicURL(opts.URL))
	}
	download, err := os.CreateTemp(opts.Dir, "download-*")
	if err != nil {
		return Binary{}, fmt.Errorf("making a file for the download: %w", err)
	}
	defer func() {
		_ = download.Close()
		_ = os.Remove(download.Name())
	}()
	if err := opts.download(ctx, download); err != nil {
		return Binary{}, err
	}
	if err := refuseWebPage(download, opts.URL); err != nil {
		return Binary{}, err
	}
	if err := verify(download, opts.Checksum); err != nil {
		return Binary{}, err
	}
	info, err := download.Stat()
	if err != nil {
		return Binary{}, fmt.Errorf("reading the size of the download: %w", err)
	}
	found, err := installFrom(download, info.Size(), opts)
	if err != nil {
		return Binary{}, err
	}
	if opts.Digest != "" && opts.Digest != found.Digest {
		// A checksum does not see it that is weak or not asked for.
		_ = os.Remove(found.Path)
		return found, fail(v3.ChecksumMismatchReason, "%s serves another driver than the one that was read before: its sha256 is %s, was %s; annotate the NodeDriver with drover.cattle.io/retry to have it read again",
			PublicURL(opts.URL), found.Digest, opts.Digest)
	}
	return found, nil
}

// checkName prevents a name that was not validated from becoming a path: the binary's file is named
// after it.
func checkName(name string) error {
	if err := crdgen.CheckDriverName(name); err != nil {
		return fail(v3.NotADriverReason, "naming the driver's file: %w", err)
	}
	return nil
}

func (o FetchOptions) withDefaults() FetchOptions {
	o.MaxBytes, o.Timeout, o.Arch = cmp.Or(o.MaxBytes, defaultMaxBytes), cmp.Or(o.Timeout, defaultTimeout), cmp.Or(o.Arch, runtime.GOARCH)
	return o
}

func (o FetchOptions) download(ctx context.Context, to io.Writer) error {
	if _, err := checkURL(o.URL); err != nil {
		return fail(v3.DownloadFailedReason, "downloading the driver: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.URL, nil)
	if err != nil {
		return fail(v3.DownloadFailedReason, "downloading the driver: %w", withoutURL(err))
	}
	// The checksum is of the file on the server; by default net/http would request gzip and unpack
	// it.
	request.Header.Set("Accept-Encoding", "identity")
	client := &http.Client{Transport: o.Transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if len(via) >= maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		// Where https leads to plain http, anyone on the way could answer.
		if via[0].URL.Scheme == "https" && next.URL.Scheme != "https" {
			return fmt.Errorf("https leads to %s", next.URL.Scheme)
		}
		return nil
	}}
	response, err := client.Do(request)
	if err != nil {
		return &Error{Reason: v3.DownloadFailedReason, Temporary: true, Err: fmt.Errorf("downloading %s: %w", PublicURL(o.URL), withoutURL(err))}
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		again := response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusRequestTimeout
		err := fmt.Errorf("downloading %s: the server answers %s", PublicURL(o.URL), response.Status)
		return &Error{Reason: v3.DownloadFailedReason, Temporary: again, Err: err}
	}
	tooLarge := fail(v3.TooLargeReason, "downloading %s: it has more than the accepted %d bytes", PublicURL(o.URL), o.MaxBytes)
	if response.ContentLength > o.MaxBytes {
		return tooLarge
	}
	written, err := io.Copy(to, io.LimitReader(response.Body, o.MaxBytes+1))
	if err != nil {
		return &Error{Reason: v3.DownloadFailedReason, Temporary: true, Err: fmt.Errorf("downloading %s: broke off after %d bytes: %w", PublicURL(o.URL), written, withoutURL(err))}
	}
	if written > o.MaxBytes {
		return tooLarge
	}
	if written == 0 {
		return &Error{Reason: v3.DownloadFailedReason, Temporary: true, Err: fmt.Errorf("downloading %s: the answer is empty", PublicURL(o.URL))}
	}
	return nil
}

// withoutURL drops the URL that net/http puts into its errors: it may contain a password or a
// signature.
func withoutURL(err error) error {
	wrapped, ok := errors.AsType[*url.Error](err)
	if !ok {
		return err
	}
	// This error contains the address and has no type.
	if strings.Contains(wrapped.Err.Error(), "Location header") {
		return errors.New("the server redirects to an address that cannot be read")
	}
	return wrapped.Err
}

// PublicURL returns a driver's address for display: without user, password and query, because any
// of them may grant access.
func PublicURL(text string) string {
	parsed, err := url.Parse(text)
	if err != nil {
		return "the driver's URL"
	}
	parsed.User, parsed.RawQuery, parsed.Fragment = nil, "", ""
	return parsed.String()
}
