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
)

const installerImage = "rancher/system-agent-installer-k3s:v1.36.3-k3s1"

// Our agent finds the image by registries.yaml, and in it what it is told to run.
func TestInstaller(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "localkube")
	require.NoError(t, os.WriteFile(binary, []byte("#!/bin/sh\n"), 0o600))
	installer, err := distribution.Installer(binary)
	require.NoError(t, err)
	registry := distribution.NewRegistry()
	require.NoError(t, registry.Add(installerImage, installer))
	server := httptest.NewServer(registry)
	defer server.Close()
	registries := filepath.Join(dir, "registries.yaml")
	require.NoError(t, os.WriteFile(registries, []byte(`{"mirrors": {"docker.io": {"endpoint": ["`+server.URL+`"]}}}`), 0o600))

	folder := filepath.Join(dir, "unpacked")
	require.NoError(t, os.Mkdir(folder, 0o700))
	puller := &image.Puller{Images: filepath.Join(dir, "none"), Registries: []string{registries}, Log: logr.Discard()}
	require.NoError(t, puller.Unpack(t.Context(), installerImage, folder))
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

	_, err = distribution.Installer(filepath.Join(dir, "none"))
	require.ErrorContains(t, err, "reading localkube")
	require.ErrorContains(t, registry.Add("NO NAME", installer), "naming image")
}
