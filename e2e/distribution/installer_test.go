package distribution_test

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/agent/image"
	"github.com/drover-project/drover/e2e/distribution"
	"github.com/drover-project/drover/releases"
)

// Our agent finds the image by registries.yaml, and in it what it is told to run.
func TestInstaller(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "localkube")
	require.NoError(t, os.WriteFile(binary, []byte("#!/bin/sh\n"), 0o600))
	server := httptest.NewServer(distribution.NewRegistry(binary))
	defer server.Close()
	registries := filepath.Join(dir, "registries.yaml")
	require.NoError(t, os.WriteFile(registries, []byte(`{"mirrors": {"docker.io": {"endpoint": ["`+server.URL+`"]}}}`), 0o600))

	folder := filepath.Join(dir, "unpacked")
	require.NoError(t, os.Mkdir(folder, 0o700))
	puller := &image.Puller{Images: filepath.Join(dir, "none"), Registries: []string{registries}, Log: logr.Discard()}
	require.NoError(t, puller.Unpack(t.Context(), distribution.InstallerImage, folder))
	for name, executable := range map[string]bool{
		"k3s": true, "run.sh": true, "k3s.service": false, "k3s-agent.service": false, "k3s-killall.sh": true, "k3s-uninstall.sh": true,
	} {
		info, err := os.Stat(filepath.Join(folder, name))
		require.NoError(t, err)
		require.Equal(t, executable, info.Mode()&0o100 != 0, name)
		if filepath.Ext(name) == ".sh" {
			out, err := exec.Command("sh", "-n", filepath.Join(folder, name)).CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
	}

	// On a full disk what was copied of a program goes again, for the agent needs the room to say so.
	programs := filepath.Join(dir, "programs")
	require.NoError(t, os.Mkdir(programs, 0o700))
	for name, does := range map[string]string{"cmp": "exit 1", "cp": "exit 1", "mv": "exit 0", "rm": `echo "$*"`} {
		require.NoError(t, os.WriteFile(filepath.Join(programs, name), []byte("#!/bin/sh\n"+does+"\n"), 0o700))
	}
	cmd := exec.Command("/bin/sh", filepath.Join(folder, "run.sh"))
	cmd.Env = []string{"CATTLE_AGENT_EXECUTION_PWD=" + folder, "PATH=" + programs}
	out, err := cmd.Output()
	require.Error(t, err)
	require.Equal(t, "-f /usr/local/bin/k3s.new\n", string(out))

	catalogue, err := releases.Default()
	require.NoError(t, err)
	release, err := catalogue.Lookup("v1.36.3+k3s1")
	require.NoError(t, err)
	require.Equal(t, distribution.InstallerImage, release.Image(""))
}

func TestRegistry_without_a_localkube(t *testing.T) {
	registry := distribution.NewRegistry(filepath.Join(t.TempDir(), "none"))
	answer := httptest.NewRecorder()
	registry.ServeHTTP(answer, httptest.NewRequest("GET", "/v2/", nil))
	require.Equal(t, 500, answer.Code)
	require.Contains(t, answer.Body.String(), "reading localkube")
}
