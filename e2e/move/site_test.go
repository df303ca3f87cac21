package move

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	managementv3 "github.com/drover-project/drover/api/management/v3"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/testkit"
)

const (
	patience         = 5 * time.Minute
	managerNamespace = "drover-system"
)

// site is one management cluster: an API server with its controllers, a manager, a kubelet.
type site struct {
	*testing.T
	client.WithWatch
	config     *rest.Config
	kubeconfig string
	kubelet    *kubelet
	log        *bytes.Buffer
	// stopManager ends the manager, as at the loss of the management cluster.
	stopManager func()
}

// newSite has a manager with further flags. Secrets exist in the manager's namespace before the manager starts.
func newSite(t *testing.T, flags []string, secrets ...*corev1.Secret) *site {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme, clusterv1.AddToScheme,
		managementv3.AddToScheme, provv1.AddToScheme, rkev1.AddToScheme, apiextensionsv1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	s := &site{T: t, config: testkit.Fresh(t, testkit.WithControllers()), log: &bytes.Buffer{}}
	var err error
	s.WithWatch, err = client.NewWithWatch(s.config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	s.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(s.kubeconfig, s.access(), 0o600))
	require.NoError(t, s.Create(t.Context(), &corev1.Namespace{ObjectMeta: named("", managerNamespace)}))
	for _, secret := range secrets {
		require.NoError(t, s.Create(t.Context(), secret))
	}
	s.startManager(flags)
	s.kubelet = startKubelet(s)
	s.activate("digitalocean")
	return s
}

// access is an administrator's kubeconfig, without files.
func (s *site) access() []byte {
	s.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: s.config.Host, CertificateAuthorityData: s.config.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: s.config.BearerToken, ClientCertificateData: s.config.CertData, ClientKeyData: s.config.KeyData}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	raw, err := clientcmd.Write(*config)
	require.NoError(s, err)
	return raw
}

func (s *site) startManager(flags []string) {
	s.Helper()
	webhooks, health := testkit.FreePort(s.T), testkit.FreePort(s.T)
	cmd := exec.Command(binary(s.T, "manager"), append(flags, "--kubeconfig="+s.kubeconfig, "--machine-image=drover.local/drover:test", "--job-ssh-timeout=1s",
		"--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:"+health, "--webhook-host=127.0.0.1",
		"--webhook-port="+webhooks, "--webhook-url=https://localhost:"+webhooks)...)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	require.NoError(s, cmd.Start())
	s.stopManager = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	s.Cleanup(func() {
		s.stopManager()
		if s.Failed() {
			log := s.log.String()
			s.Logf("the manager said: %s", log[max(0, len(log)-6000):])
		}
	})
	testkit.Eventually(s, patience, func() error {
		answer, err := http.Get("http://127.0.0.1:" + health + "/readyz")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("the manager is not ready: %s", answer.Status)
		}
		return nil
	})
}

func (s *site) activate(driver string) {
	s.Helper()
	nd := &managementv3.NodeDriver{ObjectMeta: named("", driver)}
	testkit.Eventually(s, patience, func() error {
		return s.Patch(s.Context(), nd, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"active":true}}`)))
	})
	testkit.Eventually(s, patience, func() error {
		if err := s.Get(s.Context(), client.ObjectKeyFromObject(nd), nd); err != nil {
			return err
		}
		if nd.Status.MachineKind == "" {
			return fmt.Errorf("NodeDriver %s has no kinds yet", driver)
		}
		return s.List(s.Context(), machines())
	})
}

// run runs one of our programs and returns all that it printed.
func run(ctx context.Context, program string, args ...string) (string, error) {
	out := &bytes.Buffer{}
	err := runTo(ctx, out, program, args...)
	return out.String(), err
}

func binary(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs("../../bin/" + name)
	require.NoError(t, err)
	require.FileExists(t, path, "run make build bin/clusterctl first")
	return path
}
