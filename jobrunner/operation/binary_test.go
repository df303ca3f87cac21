package operation

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/state"
)

// TestBinary_is_the_one_that_was_probed: when the cache has lost a driver, what its address serves must be the same, also where
// the NodeDriver takes anything.
func TestBinary_is_the_one_that_was_probed(t *testing.T) {
	program, err := os.ReadFile("/bin/true")
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(program) }))
	t.Cleanup(server.Close)
	sum := sha256.Sum256(program)
	for digest, reason := range map[string]string{"": "", hex.EncodeToString(sum[:]): "", strings.Repeat("a", 64): v3.ChecksumMismatchReason} {
		s, client := underWay(t, "acme")
		s.core = client.CoreV1()
		s.request.Driver = state.DriverRef{Name: "acme", Digest: digest, URL: server.URL, SkipChecksum: true}
		path, err := s.binary(t.Context())
		if reason == "" {
			require.NoError(t, err)
			require.FileExists(t, path)
			continue
		}
		var why *failure
		require.ErrorAs(t, err, &why)
		require.Equal(t, reason, why.reason)
		require.Equal(t, rkev1.ClassInvalid, why.class)
		require.NoFileExists(t, filepath.Join(s.options.TempDir, "drover", "drivers", "docker-machine-driver-acme"))
	}
}
