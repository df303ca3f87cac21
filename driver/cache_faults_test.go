package driver_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/driver"
)

// faulty is a client whose calls fail from the n-th on, as if its process were killed there.
type faulty struct {
	driver.ConfigMaps

	mutex sync.Mutex
	left  int
	err   error
}

func (f *faulty) spend() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.left--; f.left < 0 {
		return f.err
	}
	return nil
}

func (f *faulty) Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.ConfigMap, error) {
	if err := f.spend(); err != nil {
		return nil, err
	}
	return f.ConfigMaps.Get(ctx, name, opts)
}

func (f *faulty) Create(ctx context.Context, part *corev1.ConfigMap, opts metav1.CreateOptions) (*corev1.ConfigMap, error) {
	if err := f.spend(); err != nil {
		return nil, err
	}
	return f.ConfigMaps.Create(ctx, part, opts)
}

func (f *faulty) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	if err := f.spend(); err != nil {
		return err
	}
	return f.ConfigMaps.Delete(ctx, name, opts)
}

var errKilled = errors.New("killed")

// binaryOnDisk is a driver whose gzip has three parts.
func binaryOnDisk(t *testing.T) driver.Binary {
	t.Helper()
	content := hostELF("")
	state := uint32(1)
	for len(content) < 2<<20 {
		state = state*1664525 + 1013904223
		content = append(content, byte(state>>24), byte(state>>16), byte(state>>8))
	}
	path := filepath.Join(t.TempDir(), "binary")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return driver.Binary{Name: "acme", Path: path, Digest: sha256Hex(content), Size: int64(len(content))}
}

func memory() driver.ConfigMaps {
	return fake.NewClientset().CoreV1().ConfigMaps(driver.CacheNamespace)
}

// requireNothingHalf: what Exists finds can be loaded, whatever was interrupted before.
func requireNothingHalf(t *testing.T, client driver.ConfigMaps, stored driver.Binary) bool {
	t.Helper()
	found, err := driver.Exists(t.Context(), client, stored.Digest)
	require.NoError(t, err)
	if found {
		_, err = driver.Load(t.Context(), client, "acme", stored.Digest, t.TempDir())
		require.NoError(t, err)
	}
	return found
}

// Store and Forget are killed at every call they make; nothing half is ever found, and doing it again finishes it.
func TestCacheSurvivesBeingKilledAnywhere(t *testing.T) {
	stored, points := binaryOnDisk(t), 0
	for calls := 0; ; calls++ {
		client := memory()
		err := driver.Store(t.Context(), &faulty{ConfigMaps: client, left: calls, err: errKilled}, stored)
		if err == nil {
			break
		}
		points++
		require.ErrorIs(t, err, errKilled)
		require.False(t, requireNothingHalf(t, client, stored), "killed at call %d", calls)
		require.NoError(t, driver.Store(t.Context(), client, stored))
		require.True(t, requireNothingHalf(t, client, stored))
	}
	require.Equal(t, 4, points, "one look and three parts")
}

func TestCacheTellsDamageFromPassingFaults(t *testing.T) {
	stored := binaryOnDisk(t)
	configMaps := schema.GroupResource{Resource: "configmaps"}
	for name, tt := range map[string]struct {
		err       error
		temporary bool
		message   string
	}{
		"gone":         {apierrors.NewNotFound(configMaps, "driver-x-1"), false, `configmaps "driver-x-1" not found`},
		"forbidden":    {apierrors.NewForbidden(configMaps, "driver-x-1", errors.New("no")), true, `configmaps "driver-x-1" is forbidden: no`},
		"throttled":    {apierrors.NewTooManyRequests("slowly", 1), true, "slowly"},
		"no API there": {errors.New("dial tcp 198.18.0.1:6443: connect: connection refused"), true, "dial tcp 198.18.0.1:6443: connect: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			client := memory()
			require.NoError(t, driver.Store(t.Context(), client, stored))
			for calls := range 3 {
				dir := t.TempDir()
				_, err := driver.Load(t.Context(), &faulty{ConfigMaps: client, left: calls, err: tt.err}, "acme", stored.Digest, dir)
				require.EqualError(t, err, fmt.Sprintf("loading driver %s from the cache: reading part %d: %s", stored.Digest[:20], calls+1, tt.message))
				require.Equal(t, rkev1.CacheIncompleteReason, driver.ReasonOf(err))
				require.Equal(t, tt.temporary, driver.IsTemporary(err))
				left, err := os.ReadDir(dir)
				require.NoError(t, err)
				require.Empty(t, left)
			}
		})
	}
}

func TestCacheRefusesWhatOthersWrote(t *testing.T) {
	stored := binaryOnDisk(t)
	const somethingElse = "loading driver DIGEST from the cache: reading part 1: it holds something else"
	const noNumber = "loading driver DIGEST from the cache: reading part 1: the label drover.cattle.io/driver-parts of ConfigMap driver-DIGEST-0 is not a number from 1 to 171"
	// Each changes one stored part; the answer is the same for every part, as far as it matters.
	for name, tt := range map[string]struct {
		change  func(part *corev1.ConfigMap)
		message string
	}{
		"another driver's": {func(p *corev1.ConfigMap) { p.Annotations["drover.cattle.io/driver-sha256"] = strings.Repeat("0", 64) }, somethingElse},
		"nobody's":         {func(p *corev1.ConfigMap) { p.Annotations = nil }, somethingElse},
		"empty":            {func(p *corev1.ConfigMap) { p.BinaryData["part"] = nil }, somethingElse},
		"no number":        {func(p *corev1.ConfigMap) { p.Labels[driver.CachePartsLabel] = "many" }, noNumber},
		"zero":             {func(p *corev1.ConfigMap) { p.Labels[driver.CachePartsLabel] = "0" }, noNumber},
		"too many":         {func(p *corev1.ConfigMap) { p.Labels[driver.CachePartsLabel] = "172" }, noNumber},
		"no gzip": {func(p *corev1.ConfigMap) { p.BinaryData["part"][0] = 'x' },
			"the cached driver DIGEST is damaged: gzip: invalid header"},
	} {
		t.Run(name, func(t *testing.T) {
			clients := fake.NewClientset()
			client := clients.CoreV1().ConfigMaps(driver.CacheNamespace)
			require.NoError(t, driver.Store(t.Context(), client, stored))
			part, err := client.Get(t.Context(), driver.CachePartName(stored.Digest, 0), metav1.GetOptions{})
			require.NoError(t, err)
			tt.change(part)
			_, err = client.Update(t.Context(), part, metav1.UpdateOptions{})
			require.NoError(t, err)
			_, err = driver.Load(t.Context(), client, "acme", stored.Digest, t.TempDir())
			require.EqualError(t, err, strings.ReplaceAll(tt.message, "DIGEST", stored.Digest[:20]))
			require.Equal(t, rkev1.CacheIncompleteReason, driver.ReasonOf(err))
			require.False(t, driver.IsTemporary(err))
		})
	}
}

// Several probes may store the same binary at the same time, on several machines.
func TestCacheIsStoredByManyAtOnce(t *testing.T) {
	stored, client := binaryOnDisk(t), memory()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := driver.Store(context.Background(), client, stored); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.True(t, requireNothingHalf(t, client, stored))
}

func TestCacheHoldsDriversOfOneArchitecture(t *testing.T) {
	other := "arm64"
	if hostELF("")[18] == elfFile("arm64", "")[18] {
		other = "amd64"
	}
	content := elfFile(other, "x")
	path := filepath.Join(t.TempDir(), "binary")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	client, stored := memory(), driver.Binary{Name: "acme", Path: path, Digest: sha256Hex(content)}
	require.NoError(t, driver.Store(t.Context(), client, stored))
	_, err := driver.Load(t.Context(), client, "acme", stored.Digest, t.TempDir())
	require.Equal(t, v3.WrongArchitectureReason, driver.ReasonOf(err), "the cache is whole; another download would be the same: %v", err)
}

func TestStoreNamesWhatIsWrong(t *testing.T) {
	content := hostELF("x")
	path := filepath.Join(t.TempDir(), "binary")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	good := driver.Binary{Name: "acme", Path: path, Digest: sha256Hex(content)}
	changed, missing := good, good
	changed.Digest, missing.Path = sha256Hex(nil), path+"-none"
	for name, tt := range map[string]struct {
		binary  driver.Binary
		reason  string
		message string
	}{
		"changed": {changed, v3.ChecksumMismatchReason, "the driver's file changed: its sha256 is " + good.Digest + ", was " + changed.Digest},
		"missing": {missing, "", "opening the driver: open " + missing.Path + ": no such file or directory"},
		"no digest": {driver.Binary{Name: "acme", Path: path}, rkev1.CacheIncompleteReason,
			"the digest of a cached driver must be a sha256 in lower-case hex"},
		"md5": {driver.Binary{Name: "acme", Path: path, Digest: strings.Repeat("a", 32)}, rkev1.CacheIncompleteReason,
			"the digest of a cached driver must be a sha256 in lower-case hex"},
		"capitals": {driver.Binary{Name: "acme", Path: path, Digest: strings.ToUpper(good.Digest)}, rkev1.CacheIncompleteReason,
			"the digest of a cached driver must be a sha256 in lower-case hex"},
	} {
		t.Run(name, func(t *testing.T) {
			client := memory()
			err := driver.Store(t.Context(), client, tt.binary)
			require.EqualError(t, err, tt.message)
			require.Equal(t, tt.reason, driver.ReasonOf(err))
			for index := range 8 {
				_, err := client.Get(t.Context(), driver.CachePartName(good.Digest, index), metav1.GetOptions{})
				require.True(t, apierrors.IsNotFound(err), "part %d is left: %v", index+1, err)
			}
		})
	}
	require.Equal(t, "driver-"+good.Digest[:20]+"-7", driver.CachePartName(good.Digest, 7))
	require.Equal(t, "driver-short-0", driver.CachePartName("short", 0))
}
