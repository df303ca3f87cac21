package node

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// criServer speaks containerd's protocol on containerd's socket; it knows two
// pods and fails as it is told to, with verb and id.
type criServer struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	mu     sync.Mutex
	called []string
	fail   string
}

func (c *criServer) did(verb, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.called = append(c.called, verb+" "+id)
	if c.fail == verb+" "+id {
		return errors.New("boom")
	}
	return nil
}

func (c *criServer) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "containerd", RuntimeVersion: "1.6", RuntimeApiVersion: "v1"}, nil
}

func (c *criServer) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	pod := func(id string) *runtimeapi.PodSandbox {
		return &runtimeapi.PodSandbox{Id: id, Metadata: &runtimeapi.PodSandboxMetadata{Name: "pod-" + id}}
	}
	return &runtimeapi.ListPodSandboxResponse{Items: []*runtimeapi.PodSandbox{pod("a"), pod("b")}}, c.did("list", "pods")
}

func (c *criServer) ListContainers(_ context.Context, r *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	id := r.Filter.PodSandboxId
	return &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{
		{Id: id + "1", State: runtimeapi.ContainerState_CONTAINER_RUNNING}, {Id: id + "2", State: runtimeapi.ContainerState_CONTAINER_EXITED},
	}}, c.did("list", id)
}

func (c *criServer) StopContainer(_ context.Context, r *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	if r.Timeout != containerGrace {
		return nil, errors.New("containers get their time to end")
	}
	return &runtimeapi.StopContainerResponse{}, c.did("stop", r.ContainerId)
}

func (c *criServer) StopPodSandbox(_ context.Context, r *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	return &runtimeapi.StopPodSandboxResponse{}, c.did("stop", r.PodSandboxId)
}

func (c *criServer) RemovePodSandbox(_ context.Context, r *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	return &runtimeapi.RemovePodSandboxResponse{}, c.did("remove", r.PodSandboxId)
}

// serveCRI starts such a server where containerd's would be.
func serveCRI(t *testing.T, l layout, fail string) *criServer {
	t.Helper()
	_, err := l.Make("containerd")
	require.NoError(t, err)
	socket, err := net.Listen("unix", l.containerdSocket())
	require.NoError(t, err)
	cri := &criServer{fail: fail}
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, cri)
	go func() { _ = server.Serve(socket) }()
	t.Cleanup(server.Stop)
	return cri
}

func TestRemoveSandboxes(t *testing.T) {
	everything := []string{"list a", "list b", "list pods", "remove a", "remove b", "stop a", "stop a1", "stop b", "stop b1"}
	for fail, tc := range map[string]struct {
		called []string
		want   []string
	}{
		"":          {everything, nil},
		"list pods": {[]string{"list pods"}, []string{"listing pods: ", "boom"}},
		"list a":    {[]string{"list a", "list b", "list pods", "remove b", "stop b", "stop b1"}, []string{"listing containers of pod pod-a: ", "boom"}},
		"stop a1":   {[]string{"list a", "list b", "list pods", "remove b", "stop a1", "stop b", "stop b1"}, []string{"stopping container of pod pod-a: ", "boom"}},
		"stop a":    {[]string{"list a", "list b", "list pods", "remove b", "stop a", "stop a1", "stop b", "stop b1"}, []string{"stopping pod pod-a: ", "boom"}},
		"remove b":  {everything, []string{"removing pod pod-b: ", "boom"}},
	} {
		t.Run("fails to "+fail, func(t *testing.T) {
			l := newLayout(t)
			cri := serveCRI(t, l, fail)
			err := removeSandboxes(t.Context(), l)
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
			if tc.want == nil {
				require.NoError(t, err)
			}
			slices.Sort(cri.called)
			require.Equal(t, tc.called, cri.called, "one pod's trouble does not keep the others")
		})
	}
}

func TestAwaitContainerd_waits_for_the_socket(t *testing.T) {
	l := newLayout(t)
	connected := make(chan error)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		runtime, err := l.awaitContainerd(ctx)
		if err == nil {
			err = runtime.Close(ctx)
		}
		connected <- err
	}()
	require.Empty(t, connected)
	serveCRI(t, l, "")
	require.NoError(t, <-connected)
}

// fakeCtr keeps what it is given on stdin, and its arguments.
func fakeCtr(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	script := "#!/bin/sh\necho \"$@\" >>" + dir + "/args\n/bin/cat >" + dir + "/stdin\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ctr"), []byte(script), 0o700))
	t.Setenv("PATH", dir)
	return dir
}

func TestImportPause_hands_over_an_image(t *testing.T) {
	if _, err := assets.ReadFile("assets/pause"); err != nil {
		t.Skip("built without the pause program: run go generate ./node")
	}
	dir := fakeCtr(t)
	l := newLayout(t)
	require.NoError(t, importPause(t.Context(), l))
	args, err := os.ReadFile(filepath.Join(dir, "args"))
	require.NoError(t, err)
	require.Equal(t, "--address "+l.containerdSocket()+" --namespace k8s.io images import --digests=false -\n", string(args))

	image, err := tarball.ImageFromPath(filepath.Join(dir, "stdin"), nil)
	require.NoError(t, err)
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(filepath.Join(dir, "stdin")) })
	require.NoError(t, err)
	require.Equal(t, []string{PauseImage}, manifest[0].RepoTags, "containerd's configuration names this one")
	layers, err := image.Layers()
	require.NoError(t, err)
	require.Len(t, layers, 1)
	stream, err := layers[0].Uncompressed()
	require.NoError(t, err)
	r := tar.NewReader(stream)
	header, err := r.Next()
	require.NoError(t, err)
	require.Equal(t, "pause", header.Name)
	require.EqualValues(t, 0o755, header.Mode)
	program, err := io.ReadAll(r)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(program, []byte("\x7fELF")))
	_, err = r.Next()
	require.ErrorIs(t, err, io.EOF, "nothing else is in it")
}

func TestImportImages_takes_any_name_for_a_file(t *testing.T) {
	dir := fakeCtr(t)
	require.NoError(t, ImportImages(t.Context(), newLayout(t).Dir, "-", "--all-platforms", "a b.tar", "./x.tar"))
	args, err := os.ReadFile(filepath.Join(dir, "args"))
	require.NoError(t, err)
	var got []string
	for line := range strings.Lines(string(args)) {
		_, file, _ := strings.Cut(line, "--digests=false ")
		got = append(got, strings.TrimSpace(file))
	}
	require.Equal(t, []string{"./-", "./--all-platforms", "a b.tar", "./x.tar"}, got, "a name is never a flag, nor stdin")
}
