package driver

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

const (
	// CacheNamespace holds the cached drivers.
	CacheNamespace = "drover-drivers"
	// CacheDigestLabel on a part of a cached driver is the beginning of the binary's sha256.
	CacheDigestLabel = "drover.cattle.io/driver-digest"
	// CachePartsLabel on a part is the number of parts.
	CachePartsLabel = "drover.cattle.io/driver-parts"
	// cacheDigestAnnotation is the whole sha256, which does not fit a label.
	cacheDigestAnnotation = "drover.cattle.io/driver-sha256"
	cacheKey              = "part"

	maxPartBytes       = 768 << 10
	maxCompressedBytes = 128 << 20
	maxParts           = (maxCompressedBytes + maxPartBytes - 1) / maxPartBytes
	digestNameLength   = 20
)

// ConfigMaps is the cache's client for the ConfigMaps of CacheNamespace; client-go's typed client
// implements it. Implementations must return errors that apierrors.IsNotFound and
// apierrors.IsAlreadyExists recognise.
type ConfigMaps interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.ConfigMap, error)
	Create(ctx context.Context, part *corev1.ConfigMap, opts metav1.CreateOptions) (*corev1.ConfigMap, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// CachePartName is the name of one ConfigMap of a cached driver.
func CachePartName(digest string, index int) string {
	return fmt.Sprintf("driver-%.*s-%d", digestNameLength, digest, index)
}

// CacheLabel is the value of CacheDigestLabel for a binary: the beginning of its sha256.
func CacheLabel(digest string) string { return digest[:min(len(digest), digestNameLength)] }

// Store puts a binary into the cache, as immutable ConfigMaps with parts of its gzip. It writes the
// first part last, so that a cached driver is complete if that part exists. Storing the same binary
// again changes nothing.
func Store(ctx context.Context, client ConfigMaps, driverBinary Binary) error {
	if stored, err := Exists(ctx, client, driverBinary.Digest); err != nil || stored {
		return err
	}
	compressed, err := compress(driverBinary)
	if err != nil {
		return err
	}
	parts := (len(compressed) + maxPartBytes - 1) / maxPartBytes
	for index := parts - 1; index >= 0; index-- {
		part := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Name: CachePartName(driverBinary.Digest, index),
				Labels: map[string]string{
					rkev1.NodeDriverLabel: driverBinary.Name,
					CacheDigestLabel:      driverBinary.Digest[:digestNameLength],
					CachePartsLabel:       strconv.Itoa(parts),
				},
				Annotations: map[string]string{cacheDigestAnnotation: driverBinary.Digest},
			},
			Immutable:  new(true),
			BinaryData: map[string][]byte{cacheKey: compressed[index*maxPartBytes : min((index+1)*maxPartBytes, len(compressed))]},
		}
		if err := createPart(ctx, client, part); err != nil {
			return fmt.Errorf("storing part %d of %d of driver %s: %w", index+1, parts, driverBinary.Name, err)
		}
	}
	return nil
}

// Exists reports whether a driver is cached, by its first part.
func Exists(ctx context.Context, client ConfigMaps, digest string) (bool, error) {
	if err := CheckDigest(digest); err != nil {
		return false, err
	}
	part, err := client.Get(ctx, CachePartName(digest, 0), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for driver %.*s in the cache: %w", digestNameLength, digest, err)
	}
	return IsPartOf(part, digest), nil
}

// IsPartOf reports whether a ConfigMap of the cache belongs to the binary with this sha256: its
// name has only the beginning of it.
func IsPartOf(part metav1.Object, digest string) bool {
	return part.GetAnnotations()[cacheDigestAnnotation] == digest
}

// Load reads a cached driver into dir and verifies it. The error has the reason
// rkev1.CacheIncompleteReason if the driver is missing from the cache or damaged; it must then be
// fetched from its URL.
func Load(ctx context.Context, client ConfigMaps, name, digest, dir string) (Binary, error) {
	if err := CheckDigest(digest); err != nil {
		return Binary{}, err
	}
	if err := checkName(name); err != nil {
		return Binary{}, err
	}
	parts := &partReader{ctx: ctx, client: client, digest: digest}
	var loaded Binary
	unzipped, err := gzip.NewReader(parts)
	if err == nil {
		loaded, err = install(unzipped, FetchOptions{Name: name, Dir: dir}.withDefaults())
	}
	switch {
	case parts.failed != nil:
		// A missing or damaged part stays so; an error of the API server may be temporary.
		again := !apierrors.IsNotFound(parts.failed) && ReasonOf(parts.failed) == ""
		return Binary{}, &Error{Reason: rkev1.CacheIncompleteReason, Temporary: again,
			Err: fmt.Errorf("loading driver %.*s from the cache: reading part %d: %w", digestNameLength, digest, parts.next+1, parts.failed)}
	case ReasonOf(err) == v3.WrongArchitectureReason:
		return Binary{}, err
	case err != nil && ReasonOf(err) == "" && !errors.Is(err, gzip.ErrHeader) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF):
		return Binary{}, fmt.Errorf("loading driver %.*s from the cache: %w", digestNameLength, digest, err)
	case err != nil:
		return Binary{}, fail(rkev1.CacheIncompleteReason, "the cached driver %.*s is damaged: %w", digestNameLength, digest, err)
	}
	if loaded.Digest != digest {
		_ = os.Remove(filepath.Clean(loaded.Path))
		return Binary{}, fail(rkev1.CacheIncompleteReason, "the cached driver %.*s is damaged: its sha256 is %s", digestNameLength, digest, loaded.Digest)
	}
	return loaded, nil
}

// compress verifies the digest on the way, so that no binary is stored under a wrong name.
func compress(driverBinary Binary) ([]byte, error) {
	file, err := os.Open(filepath.Clean(driverBinary.Path))
	if err != nil {
		return nil, fmt.Errorf("opening the driver: %w", err)
	}
	defer func() { _ = file.Close() }()
	var out bytes.Buffer
	digest := sha256.New()
	zipper := gzip.NewWriter(&cappedBuffer{to: &out, left: maxCompressedBytes})
	_, err = io.Copy(io.MultiWriter(zipper, digest), file)
	if err == nil {
		err = zipper.Close()
	}
	if errors.Is(err, errTooLarge) {
		return nil, fail(v3.TooLargeReason, "the driver has more than %d MiB compressed and cannot be cached", maxCompressedBytes>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("compressing the driver: %w", err)
	}
	if got := hex.EncodeToString(digest.Sum(nil)); got != driverBinary.Digest {
		return nil, fail(v3.ChecksumMismatchReason, "the driver's file changed: its sha256 is %s, was %s", got, driverBinary.Digest)
	}
	return out.Bytes(), nil
}

type cappedBuffer struct {
	to   *bytes.Buffer
	left int
}

// Write implements io.Writer.
func (b *cappedBuffer) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errTooLarge
	}
	return b.to.Write(p)
}

// createPart replaces a part with the same name but other content: an interrupted Store of another
// version of this program left it, whose gzip may differ.
func createPart(ctx context.Context, client ConfigMaps, part *corev1.ConfigMap) error {
	_, err := client.Create(ctx, part, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	existing, err := client.Get(ctx, part.Name, metav1.GetOptions{})
	if err == nil && bytes.Equal(existing.BinaryData[cacheKey], part.BinaryData[cacheKey]) && existing.Labels[CachePartsLabel] == part.Labels[CachePartsLabel] {
		return nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the part that is there: %w", err)
	}
	if err := client.Delete(ctx, part.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("replacing the part that is there: %w", err)
	}
	_, err = client.Create(ctx, part, metav1.CreateOptions{})
	return err
}

// partReader reads the parts of a cached driver one after the other, each when it is needed.
type partReader struct {
	ctx    context.Context //nolint:containedctx // io.Reader has no place for it
	client ConfigMaps
	digest string
	next   int
	parts  int
	rest   []byte
	// failed is the error of reading part next. Unlike damaged content, it may be a temporary error
	// of the API server.
	failed error
}

// Read implements io.Reader.
func (r *partReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.next > 0 && r.next == r.parts {
			return 0, io.EOF
		}
		if r.failed = r.fetch(); r.failed != nil {
			return 0, r.failed
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *partReader) fetch() error {
	part, err := r.client.Get(r.ctx, CachePartName(r.digest, r.next), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if part.Annotations[cacheDigestAnnotation] != r.digest || len(part.BinaryData[cacheKey]) == 0 {
		return fail(rkev1.CacheIncompleteReason, "it holds something else")
	}
	if r.next == 0 {
		if r.parts, err = strconv.Atoi(part.Labels[CachePartsLabel]); err != nil || r.parts < 1 || r.parts > maxParts {
			return fail(rkev1.CacheIncompleteReason, "the label %s of ConfigMap %s is not a number from 1 to %d", CachePartsLabel, part.Name, maxParts)
		}
	}
	r.rest = part.BinaryData[cacheKey]
	r.next++
	return nil
}

// CheckDigest rejects a digest that is not a sha256 in hex digits.
func CheckDigest(digest string) error {
	if kind, err := ChecksumKind(digest); err != nil || kind != "sha256" || strings.ToLower(digest) != digest {
		return fail(rkev1.CacheIncompleteReason, "the digest of a cached driver must be a sha256 in lower-case hex")
	}
	return nil
}
