package faults

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// apiServer is etcd and kube-apiserver on a directory that outlives them. It is killed at a request that is counted out, and
// started again at once.
type apiServer struct {
	*testing.T
	dir, kubeconfig string
	mu              sync.Mutex
	process         *exec.Cmd
	// killAt is the request at which it is killed; kills counts.
	killAt, seen, kills atomic.Int32
	restarts            sync.WaitGroup
}

func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{T: t, dir: t.TempDir()}
	s.killAt.Store(-1)
	require.NoError(t, s.start())
	t.Cleanup(func() {
		s.restarts.Wait()
		s.kill()
	})
	return s
}

// start returns when the server is ready.
func (s *apiServer) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	binary := os.Getenv("DROVER_LOCALKUBE")
	if binary == "" {
		binary = filepath.Join("..", "..", "bin", "localkube")
	}
	process := exec.CommandContext(context.WithoutCancel(s.Context()), binary, "server", "--data-dir", s.dir, "--disable", "controller-manager,scheduler")
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: syscall.CLONE_NEWPID}
	stdout, err := process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return err
	}
	s.process = process
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the API server does not start: %w", err)
	}
	s.kubeconfig = strings.TrimSpace(line)
	return nil
}

// kill is SIGKILL: every connection breaks, the watches' too.
func (s *apiServer) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

// through counts requests, and kills the server at the one that is its time.
func (s *apiServer) through(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if s.seen.Add(1)-1 == s.killAt.Load() {
			s.strike()
		}
		return next.RoundTrip(request)
	})
}

// strike kills it and has it started again.
func (s *apiServer) strike() {
	s.kills.Add(1)
	s.kill()
	s.restarts.Go(func() {
		if err := s.start(); err != nil {
			s.Errorf("starting the API server again: %v", err)
		}
	})
}

// killAtRequest arms the next kill, counted from now.
func (s *apiServer) killAtRequest(n int) {
	s.seen.Store(0)
	s.killAt.Store(int32(n))
}

// newRestartLab is a lab on a server of its own, with the definitions applied.
func newRestartLab(t *testing.T, s *apiServer) *lab {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	require.NoError(t, err)
	crds, err := definitions()
	require.NoError(t, err)
	clients, err := apiextensionsclient.NewForConfig(config)
	require.NoError(t, err)
	for _, crd := range crds {
		_, err := clients.CustomResourceDefinitions().Create(t.Context(), crd, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	for _, crd := range crds {
		require.Eventually(t, func() bool {
			live, err := clients.CustomResourceDefinitions().Get(t.Context(), crd.Name, metav1.GetOptions{})
			return err == nil && established(live)
		}, 30*time.Second, 50*time.Millisecond)
	}
	return labOn(t, config)
}
