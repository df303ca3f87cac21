package testbed

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud"
)

// download fetches through the local cloud's proxy, as a Job does.
func download(t *testing.T, c *cloud.Cloud, address string) string {
	t.Helper()
	proxy, err := url.Parse(c.Endpoints.Proxy)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	authority, err := os.ReadFile(c.CAFile())
	require.NoError(t, err)
	require.True(t, roots.AppendCertsFromPEM(authority))
	client := &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	answer, err := client.Do(request)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	content, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(content)
}

func TestPublishedPluginIsWhatAJobDownloads(t *testing.T) {
	b := newBench(t)
	c := b.cloud(t)
	for _, content := range []string{"first build", "second build", ""} {
		require.NoError(t, os.WriteFile(filepath.Join(b.BinDir, pluginBinary), []byte(content), 0o600))
		address, checksum, err := b.PublishPlugin(t.Context(), "drivers/odd name")
		require.NoError(t, err)
		sum := sha256.Sum256([]byte(content))
		require.Equal(t, hex.EncodeToString(sum[:]), checksum)
		require.Equal(t, content, download(t, c, strings.ReplaceAll(address, " ", "%20")))
	}
}

func TestPublishingNeedsACloudThatAnswers(t *testing.T) {
	b := newBench(t)
	require.NoError(t, os.WriteFile(filepath.Join(b.BinDir, pluginBinary), nil, 0o600))
	require.NoError(t, os.MkdirAll(b.CloudDir(), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(b.CloudDir(), cloud.EndpointsFile), []byte(`{"admin":"http://127.0.0.1:1"}`), 0o600))
	_, _, err := b.PublishPlugin(t.Context(), pluginBinary)
	require.ErrorIs(t, err, cloud.ErrNotRunning)
	require.ErrorIs(t, b.register(t.Context()), cloud.ErrNotRunning)
	require.ErrorIs(t, b.cloudReady(t.Context()), cloud.ErrNotRunning, "a crash left its endpoints")
}

// unready is a program that fails some times before it does what it is to do.
func unready(times string, then string) string {
	return `echo x >> tries; [ $(wc -l < tries) -gt ` + times + ` ] || { echo "not yet" >&2; exit 1; }
` + then
}

func TestWhatIsNotReadyIsAskedAgain(t *testing.T) {
	for name, step := range map[string]func(*bench) error{
		"kubectl":  func(b *bench) error { return b.awaits("wait", "nodedriver")(t.Context()) },
		"register": func(b *bench) error { return b.register(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.cloud(t)
			require.NoError(t, os.WriteFile(filepath.Join(b.BinDir, pluginBinary), nil, 0o600))
			b.programs(t, map[string]string{"localkube": unready("2", `[ "$2" != apply ] || cat > applied.yaml`)})
			require.NoError(t, step(b))
			require.Equal(t, 3, strings.Count(b.calls(t), "\n"))
			if name == "register" {
				content, err := os.ReadFile(filepath.Join(b.dir, "applied.yaml"))
				require.NoError(t, err)
				require.Contains(t, string(content), "name: drovertest", "each try sends all of it")
			}
		})
	}
}

func TestInstallNeedsToKnowTheCloud(t *testing.T) {
	b := newBench(t)
	b.programs(t, nil)
	require.ErrorContains(t, b.installDrover(t.Context()), "reading where the local cloud listens: finding local cloud in "+b.CloudDir())
	require.Empty(t, b.calls(t))
}

func TestWhatNextNamesPathsAUserCanPaste(t *testing.T) {
	b := startUp(t)
	require.NoError(t, b.UpAndTell(t.Context()))
	text := b.screen.String()
	require.NotRegexp(t, `KUBECONFIG_PATH|BIN_PATH|EXAMPLE|CLOUD_DIR`, text, "every placeholder is replaced")
	require.Contains(t, text, "PATH='"+b.BinDir+":"+b.StateDir+"/shims':$PATH", "kubectl may be ours alone")

	elsewhere := startUp(t)
	t.Chdir(t.TempDir())
	require.NoError(t, elsewhere.UpAndTell(t.Context()))
	require.Contains(t, elsewhere.screen.String(), "export KUBECONFIG='"+elsewhere.Kubeconfig()+"'")
	require.Contains(t, elsewhere.screen.String(), "localcloud ls --state-dir '"+elsewhere.CloudDir()+"'")

	broken := startUp(t)
	broken.program(t, "manager", "exit 1")
	require.Error(t, broken.UpAndTell(t.Context()))
	require.NotContains(t, broken.screen.String(), "Everything runs")
}
