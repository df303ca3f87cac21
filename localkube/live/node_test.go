package live_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const probeImage = "localkube.test/probe:1"

const workload = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: probe}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: probe}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: probe}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: probe}
spec:
  backoffLimit: 0
  template:
    spec:
      serviceAccountName: probe
      restartPolicy: Never
      containers:
      - {name: probe, image: "localkube.test/probe:1", imagePullPolicy: Never, command: [/probe, api, /api/v1/namespaces/default/configmaps]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: probe, image: "localkube.test/probe:1", imagePullPolicy: Never, command: [/probe, serve, ":8080"], readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
`

// freeMachine skips the test where there can be no node.
func freeMachine(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a node takes half a minute")
	}
	if os.Geteuid() != 0 {
		t.Skip("a node needs root")
	}
	if _, err := exec.LookPath("containerd"); err != nil {
		t.Skip("a node needs containerd")
	}
	lock, err := net.Listen("unix", "@localkube-node")
	if errors.Is(err, unix.EADDRINUSE) {
		t.Skip("this machine is a node already")
	}
	require.NoError(t, err)
	require.NoError(t, lock.Close())
}

func TestNode(t *testing.T) {
	freeMachine(t)
	dir := filepath.Join(t.TempDir(), "d")
	server := start(t, dir, "--node")
	must(t, "images", "import", buildProbe(t), "--data-dir", dir)
	server.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
	server.apply(workload)

	t.Run("a Job asks the API server as its service account", func(t *testing.T) {
		server.kubectl("wait", "--for=condition=complete", "job/probe", "--timeout=60s")
		require.Contains(t, server.kubectl("logs", "job/probe"), "kube-root-ca.crt")
	})
	t.Run("services and pods", func(t *testing.T) {
		server.kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
		service := server.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
		pod := server.kubectl("get", "pod", "web", "-o", "jsonpath={.status.podIP}")
		require.Contains(t, fetch(t, "http://"+service), "from ", "the host reaches services")
		require.Contains(t, fetch(t, "http://"+pod+":8080"), "from ", "the host reaches pods")
		require.Contains(t, server.kubectl("exec", "web", "--", "/probe", "get", "http://"+service), "from ", "pods reach services, even their own")
	})
	must(t, "down", "--data-dir", dir)
	require.NoError(t, server.cmd.Wait(), "stopping: %s", &server.log)
	requireClean(t, dir)

	t.Run("a killed node is cleaned as well", func(t *testing.T) {
		server := start(t, dir, "--node")
		server.kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
		require.NoError(t, server.cmd.Process.Kill())
		_ = server.cmd.Wait() // it was killed
		must(t, "down", "--data-dir", dir)
		requireClean(t, dir)
		must(t, "down", "--data-dir", dir)
	})
}

// requireClean looks at every place where a node leaves traces.
func requireClean(t *testing.T, dir string) {
	t.Helper()
	rules, err := exec.Command("iptables-save").Output()
	require.NoError(t, err)
	require.NotContains(t, string(rules), "KUBE-")
	require.NotContains(t, string(rules), "LOCALKUBE-")
	routes, err := exec.Command("ip", "route", "show", "proto", "198").Output()
	require.NoError(t, err)
	require.Empty(t, string(routes))
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	require.NotContains(t, string(mounts), dir)
	cgroups, err := filepath.Glob("/sys/fs/cgroup/*/kubepods")
	require.NoError(t, err)
	require.Empty(t, cgroups)
	require.Empty(t, processesOf(t, dir))
}

func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	var found []string
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(raw), dir) {
			found = append(found, strings.ReplaceAll(string(raw), "\x00", " "))
		}
	}
	return found
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{Proxy: nil}}
	res, err := client.Get(url)
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, errors.Join(err, res.Body.Close()))
	return string(body)
}

// buildProbe makes an image archive of testdata/probe.
func buildProbe(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", filepath.Join(dir, "probe"), "./testdata/probe")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	program, err := os.ReadFile(filepath.Join(dir, "probe"))
	require.NoError(t, err)

	var content bytes.Buffer
	w := tar.NewWriter(&content)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "probe", Mode: 0o755, Size: int64(len(program))}))
	_, err = w.Write(program)
	require.NoError(t, errors.Join(err, w.Close()))
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil })
	require.NoError(t, err)
	image, err := mutate.AppendLayers(empty.Image, layer)
	require.NoError(t, err)
	config, err := image.ConfigFile()
	require.NoError(t, err)
	config.OS, config.Architecture = runtime.GOOS, runtime.GOARCH
	image, err = mutate.ConfigFile(image, config)
	require.NoError(t, err)
	tag, err := name.NewTag(probeImage)
	require.NoError(t, err)
	path := filepath.Join(dir, "probe.tar")
	require.NoError(t, tarball.WriteToFile(path, tag, image))
	return path
}
