package driver_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var _ driver.ConfigMaps = corev1client.ConfigMapInterface(nil)

// storedDriver is a binary of two megabytes that do not compress, stored in three parts.
func storedDriver(t *testing.T) (driver.ConfigMaps, driver.Binary, []byte) {
	t.Helper()
	content := make([]byte, 2<<20)
	_, err := rand.Read(content)
	require.NoError(t, err)
	copy(content, hostELF(""))
	path := filepath.Join(t.TempDir(), "binary")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	stored := driver.Binary{Name: "acme", Path: path, Digest: sha256Hex(content), Size: int64(len(content))}
	clients, err := kubernetes.NewForConfig(testkit.Config(t))
	require.NoError(t, err)
	client := clients.CoreV1().ConfigMaps(testkit.Namespace(t))
	require.NoError(t, driver.Store(t.Context(), client, stored))
	return client, stored, content
}

func TestCacheGivesBackWhatWasStored(t *testing.T) {
	client, stored, content := storedDriver(t)
	exists, err := driver.Exists(t.Context(), client, stored.Digest)
	require.NoError(t, err)
	require.True(t, exists)

	loaded, err := driver.Load(t.Context(), client, "acme", stored.Digest, t.TempDir())
	require.NoError(t, err)
	require.Equal(t, stored.Digest, loaded.Digest)
	require.Equal(t, "docker-machine-driver-acme", filepath.Base(loaded.Path))
	data, err := os.ReadFile(loaded.Path)
	require.NoError(t, err)
	require.Equal(t, content, data)

	part, err := client.Get(t.Context(), driver.CachePartName(stored.Digest, 2), metav1.GetOptions{})
	require.NoError(t, err)
	require.True(t, *part.Immutable)
	require.Equal(t, "3", part.Labels[driver.CachePartsLabel])
	require.Equal(t, stored.Digest[:20], part.Labels[driver.CacheDigestLabel])
	require.NoError(t, driver.Store(t.Context(), client, stored), "storing again")
}

func TestCacheNoticesDamage(t *testing.T) {
	client, stored, _ := storedDriver(t)
	for index := range 3 {
		name := driver.CachePartName(stored.Digest, index)
		part, err := client.Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		damaged := part.DeepCopy()
		damaged.ResourceVersion, part.ResourceVersion = "", ""
		damaged.BinaryData["part"][len(damaged.BinaryData["part"])/2] ^= 1
		require.NoError(t, client.Delete(t.Context(), name, metav1.DeleteOptions{}))
		_, err = client.Create(t.Context(), damaged, metav1.CreateOptions{})
		require.NoError(t, err)

		_, err = driver.Load(t.Context(), client, "acme", stored.Digest, t.TempDir())
		require.Equal(t, rkev1.CacheIncompleteReason, driver.ReasonOf(err), "%v", err)

		require.NoError(t, client.Delete(t.Context(), name, metav1.DeleteOptions{}))
		_, err = client.Create(t.Context(), part, metav1.CreateOptions{})
		require.NoError(t, err)
	}
}

// An interrupted Store leaves parts but not the first; another version of the program may compress differently.
func TestStoreMendsWhatAnInterruptedStoreLeft(t *testing.T) {
	client, stored, _ := storedDriver(t)
	require.NoError(t, client.Delete(t.Context(), driver.CachePartName(stored.Digest, 0), metav1.DeleteOptions{}))
	name := driver.CachePartName(stored.Digest, 2)
	other, err := client.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, client.Delete(t.Context(), name, metav1.DeleteOptions{}))
	other.ResourceVersion, other.BinaryData["part"] = "", []byte("other")
	_, err = client.Create(t.Context(), other, metav1.CreateOptions{})
	require.NoError(t, err)

	require.NoError(t, driver.Store(t.Context(), client, stored))
	_, err = driver.Load(t.Context(), client, "acme", stored.Digest, t.TempDir())
	require.NoError(t, err)
}
