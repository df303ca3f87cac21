package driver_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
)

// systemProgram is a real program of this computer, for what only the kernel can judge.
func systemProgram(t *testing.T) []byte {
	t.Helper()
	path, err := exec.LookPath("true")
	if err != nil {
		t.Skip("no program called true here")
	}
	path, err = filepath.EvalSymlinks(path)
	require.NoError(t, err)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	if runtime.GOOS != "linux" || !strings.HasPrefix(string(content), "\x7fELF") || strings.Contains(filepath.Base(path), "box") {
		t.Skip("true is no program of its own here")
	}
	return content
}

// A driver's whole way: downloaded, verified, unpacked, run, cached, loaded elsewhere when its URL is gone, and run again.
func TestDriverFromURLToProcess(t *testing.T) {
	program := systemProgram(t)
	packed := gzipped(t, tarred(t, member{name: "LICENSE", content: []byte("x")}, member{name: "dist/" + wanted, content: program}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(packed) }))
	fetched, err := driver.Fetch(t.Context(), driver.FetchOptions{Name: "acme", URL: server.URL, Checksum: sha256Hex(packed), Dir: t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, exec.CommandContext(t.Context(), fetched.Path).Run(), "it is executable and closed")
	require.Equal(t, sha256Hex(program), fetched.Digest)

	client := memory()
	require.NoError(t, driver.Store(t.Context(), client, fetched))
	server.Close()
	require.NoError(t, os.Remove(fetched.Path))
	loaded, err := driver.Load(t.Context(), client, "acme", fetched.Digest, t.TempDir())
	require.NoError(t, err)
	require.NoError(t, exec.CommandContext(t.Context(), loaded.Path).Run())
	require.Equal(t, fetched.Size, loaded.Size)
	require.Equal(t, fetched.Digest, loaded.Digest)
	require.Equal(t, filepath.Base(fetched.Path), filepath.Base(loaded.Path))
}

// What exceeds the bound is told in the words of where it did.
func TestBoundsInFullWords(t *testing.T) {
	program := hostELF(strings.Repeat("a", 100_000))
	for name, tt := range map[string]struct {
		content []byte
		message string
	}{
		"gzip of a binary": {gzipped(t, program), "unpacking the driver: it is larger than accepted"},
		"tar.gz":           {gzipped(t, tarred(t, member{name: wanted, content: program})), "unpacking the driver: it is larger than accepted"},
		"zip":              {zipped(t, member{name: wanted, content: program}), "unpacking the driver: it is larger than accepted"},
		"tar.gz of other files": {gzipped(t, tarred(t, member{name: "big", content: make([]byte, 200_000)}, member{name: wanted, content: hostELF("x")})),
			"unpacking the tar archive: it is larger than accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fetch(t, tt.content, func(o *driver.FetchOptions) { o.MaxBytes = 50_000 })
			require.EqualError(t, err, tt.message)
			require.Equal(t, v3.TooLargeReason, driver.ReasonOf(err))
			require.False(t, driver.IsTemporary(err))
		})
	}
	at := hostELF(strings.Repeat("a", 50_000-64))
	_, err := fetch(t, at, func(o *driver.FetchOptions) { o.MaxBytes = 50_000 })
	require.NoError(t, err, "the bound itself is accepted")
	_, err = fetch(t, append(at, 'a'), func(o *driver.FetchOptions) { o.MaxBytes = 50_000 })
	require.Equal(t, v3.TooLargeReason, driver.ReasonOf(err))
}

// Jobs of one pod share a folder; none sees another's half.
func TestFetchManyAtOnce(t *testing.T) {
	dir, contents := t.TempDir(), map[string][]byte{}
	mux := http.NewServeMux()
	for i := range 6 {
		name := fmt.Sprintf("acme%d", i)
		contents[name] = hostELF(strings.Repeat(name, 10_000))
		mux.HandleFunc("/"+name, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(contents[name]) })
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	var all sync.WaitGroup
	for range 3 {
		for name, content := range contents {
			all.Go(func() {
				got, err := driver.Fetch(context.Background(), driver.FetchOptions{Name: name, URL: server.URL + "/" + name, Checksum: sha256Hex(content), Dir: dir})
				if err != nil || got.Digest != sha256Hex(content) {
					t.Errorf("%s: %+v %v", name, got, err)
				}
			})
		}
	}
	all.Wait()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, len(contents), "one file for each, and no download is left")
	for name, content := range contents {
		data, err := os.ReadFile(filepath.Join(dir, driver.BinaryPrefix+name))
		require.NoError(t, err)
		require.Equal(t, content, data)
	}
}

// A Job that is told to stop in the middle leaves nothing, and says that it was told.
func TestFetchIsCancelled(t *testing.T) {
	begun := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("\x7fELF"))
		_ = http.NewResponseController(w).Flush()
		close(begun)
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	dir := t.TempDir()
	_, err := driver.Fetch(ctx, driver.FetchOptions{Name: "acme", URL: server.URL, SkipChecksum: true, Dir: dir})
	require.ErrorIs(t, err, context.Canceled)
	left, readErr := os.ReadDir(dir)
	require.NoError(t, readErr)
	require.Empty(t, left)
	_, err = driver.Load(ctx, &faulty{ConfigMaps: memory(), err: ctx.Err()}, "acme", sha256Hex(nil), dir)
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, driver.IsTemporary(err), "the next Job may load it")
}

// TestLoadTakesOnlyWhatItsNamePromises: whatever stands in the cache, only the binary that its name promises is loaded, and nothing else is left.
func TestLoadTakesOnlyWhatItsNamePromises(t *testing.T) {
	program := hostELF("the driver")
	digest := sha256Hex(program)
	check := func(first, second []byte, parts, annotated string) {
		client := fake.NewClientset().CoreV1().ConfigMaps(driver.CacheNamespace)
		for i, data := range [][]byte{first, second} {
			_, err := client.Create(t.Context(), &corev1.ConfigMap{BinaryData: map[string][]byte{"part": data}, ObjectMeta: metav1.ObjectMeta{
				Name: driver.CachePartName(digest, i), Labels: map[string]string{driver.CachePartsLabel: parts},
				Annotations: map[string]string{"drover.cattle.io/driver-sha256": annotated}}}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		dir := t.TempDir()
		loaded, err := driver.Load(t.Context(), client, "acme", digest, dir)
		left, readErr := os.ReadDir(dir)
		require.NoError(t, readErr)
		if err != nil {
			require.NotEmpty(t, driver.ReasonOf(err))
			require.False(t, driver.IsTemporary(err), "what is stored does not change by waiting")
			require.Empty(t, left)
			return
		}
		require.Equal(t, digest, loaded.Digest)
		data, err := os.ReadFile(loaded.Path)
		require.NoError(t, err)
		require.Equal(t, program, data)
	}
	check(gzipped(t, program), []byte{}, "1", digest)
	check(gzipped(t, program)[:20], gzipped(t, program)[20:], "2", digest)
	check(gzipped(t, []byte("other")), []byte("x"), "-1", digest)
	check(append(gzipped(t, program), gzipped(t, program)...), []byte{}, "1", digest)
	check([]byte("\x1f\x8b"), []byte(nil), "999", "")
}

// The catalogue is shared by all that ask for it; nobody changes it for the others.
func TestBuiltinFlagsAreCopies(t *testing.T) {
	before := map[string][]crdgen.Flag{}
	for _, name := range driver.BuiltinNames() {
		flags, ok := driver.Builtin(name)
		require.True(t, ok)
		before[name] = flags
		changed, _ := driver.Builtin(name)
		for i := range changed {
			changed[i].Name, changed[i].Default = "changed", "changed"
		}
	}
	driver.BuiltinNames()[0] = "changed"
	var all sync.WaitGroup
	for name, want := range before {
		all.Go(func() {
			got, ok := driver.Builtin(name)
			if !ok || len(got) != len(want) || len(want) > 0 && got[0] != want[0] && fmt.Sprint(got[0]) != fmt.Sprint(want[0]) {
				t.Errorf("%s changed: %v", name, got)
			}
		})
	}
	all.Wait()
	for _, name := range []string{"", "DigitalOcean", "../amazonec2", "machineVersion"} {
		flags, ok := driver.Builtin(name)
		require.False(t, ok, name)
		require.Empty(t, flags)
	}
}
