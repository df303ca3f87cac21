package server

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/controlplane"
	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/pki"
)

func TestReadStatus_of_what_does_not_run(t *testing.T) {
	_, err := ReadStatus(t.Context(), "")
	require.ErrorContains(t, err, "--data-dir")

	path := filepath.Join(t.TempDir(), "d")
	status, err := ReadStatus(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, Status{DataDir: path, Reason: "the data directory does not exist"}, status)
	require.NoDirExists(t, path)

	_, err = datadir.Open(path)
	require.NoError(t, err)
	status, err = ReadStatus(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, Status{DataDir: path, Reason: "nothing runs on this data directory"}, status)
}

func TestReadStatus_of_what_runs(t *testing.T) {
	dir, err := datadir.Open(filepath.Join(t.TempDir(), "d"))
	require.NoError(t, err)
	lock, err := dir.Lock()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, lock.Release()) })

	status, err := ReadStatus(t.Context(), dir.Root())
	require.NoError(t, err)
	require.Equal(t, Status{DataDir: dir.Root(), Running: true, PID: os.Getpid(), Reason: "the server is starting"}, status)

	cfg := datadir.Config{NodeName: "n", HTTPSPort: 1, ServiceCIDR: DefaultServiceCIDR}
	require.NoError(t, dir.SaveConfig(cfg))
	store, err := pki.Open(dir.Path("pki"))
	require.NoError(t, err)
	plane := controlplane.Options{Dir: dir, Config: cfg, Store: store, BindAddress: net.IPv4(127, 0, 0, 1)}
	_, err = store.Issue(store.Cluster, "admin", pki.Subject{Name: controlplane.AdminUser})
	require.NoError(t, err)
	require.NoError(t, plane.WriteAdminKubeconfig(dir.Kubeconfig()))
	status, err = ReadStatus(t.Context(), dir.Root())
	require.NoError(t, err)
	require.True(t, status.Running)
	require.False(t, status.Ready)
	require.Contains(t, status.Reason, "probing https://127.0.0.1:1/readyz")
	require.Equal(t, "n", status.NodeName)

	_, err = takeLock(dir)
	require.ErrorContains(t, err, "process "+strconv.Itoa(os.Getpid())+" already runs localkube on "+dir.Root()+
		": stop it with localkube down --data-dir "+dir.Root())
}

func TestStatus_leaves_out_what_is_not_known(t *testing.T) {
	text := Status{DataDir: "/d", Reason: "why"}.String()
	require.Equal(t, "data dir    /d\nstate       stopped\nreason      why\n", text)
	text = Status{DataDir: "/d", Running: true, Ready: true, PID: 7, URL: "https://x", Kubeconfig: "/k", NodeName: "n"}.String()
	require.Equal(t, 5, strings.Count(text, "\n"))
}

func TestDown(t *testing.T) {
	var log bytes.Buffer
	require.ErrorContains(t, Down(t.Context(), "", &log), "--data-dir")
	path := filepath.Join(t.TempDir(), "d")
	require.NoError(t, Down(t.Context(), path, &log), "what does not exist is down")
	require.Empty(t, log.String())
	require.NoDirExists(t, path)

	dir, err := datadir.Open(path)
	require.NoError(t, err)
	require.NoError(t, dir.Write([]byte("x"), "kept"))
	for range 2 {
		require.NoError(t, Down(t.Context(), path, &log))
	}
	require.Contains(t, log.String(), path+" is down")
	require.FileExists(t, dir.Path("kept"), "a later start goes on from there")
	lock, err := dir.Lock()
	require.NoError(t, err, "the lock is given back")
	require.NoError(t, lock.Release())
}
