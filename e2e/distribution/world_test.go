package distribution_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-project/drover/e2e/cloud/nspawn"
	"github.com/drover-project/drover/e2e/cloud/pki"
	"github.com/drover-project/drover/e2e/cloud/server"
	"github.com/drover-project/drover/e2e/distribution"
)

const (
	// A network of our own beside the local cloud's, in whose range the gateway's part is never given to a server.
	bridge  = "drdist0"
	gateway = "198.18.63.1"
	network = "198.18.63.0/24"

	webImage = "drover/web:1"
)

// world is a management API server with plan Secrets, a registry, and real servers with our agent. There is no manager: the test plans.
type world struct {
	t       *testing.T
	client  kubernetes.Interface
	config  *clientcmdapi.Cluster // of the management API server
	outside string                // where servers reach registry and agent
	guarded string                // the registry once more, for those who trust its authority and have its password
	pki     *pki.Authority
	servers *nspawn.Backend
	dir     string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if os.Getenv("DROVER_E2E") != "1" {
		t.Skip("real servers are started only with DROVER_E2E=1")
	}
	if os.Geteuid() != 0 {
		t.Skip("real servers need root")
	}
	w := &world{t: t, dir: t.TempDir()}
	w.makeBridge()
	w.serve()
	w.startManagement()
	rootfs := os.Getenv("DROVER_ROOTFS_DIR")
	if rootfs == "" {
		rootfs = filepath.Join("..", "..", ".drover", "cache", "rootfs")
	}
	image, err := nspawn.BuildImage(t.Context(), nspawn.ImageOptions{Dir: rootfs, Progress: t.Output()})
	require.NoError(t, err)
	w.servers, err = nspawn.New(nspawn.Options{Dir: filepath.Join(w.dir, "servers"), Image: image, Gateway: netip.MustParseAddr(gateway), Bridge: bridge})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, w.servers.DestroyAll(context.Background()))
		require.Empty(t, w.servers.Leftovers())
	})
	return w
}

func (w *world) makeBridge() {
	ip := func(args ...string) error {
		out, err := exec.Command("ip", args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	_ = ip("link", "delete", bridge) // of a run that was killed
	require.NoError(w.t, ip("link", "add", bridge, "type", "bridge"))
	w.t.Cleanup(func() { require.NoError(w.t, ip("link", "delete", bridge)) })
	prefix := netip.MustParsePrefix(network)
	require.NoError(w.t, ip("address", "add", fmt.Sprintf("%s/%d", gateway, prefix.Bits()), "dev", bridge))
	require.NoError(w.t, ip("link", "set", bridge, "up"))
}

// serve serves what servers fetch: the distribution, an image for pods, and our agent.
func (w *world) serve() {
	registry := distribution.NewRegistry("../../bin/localkube")
	web, err := distribution.Program(w.build("./testdata/web"))
	require.NoError(w.t, err)
	require.NoError(w.t, registry.Add(webImage, web))
	agent := w.build("../../cmd/agent")
	mux := http.NewServeMux()
	mux.Handle("/", registry)
	mux.HandleFunc("/agent", func(rw http.ResponseWriter, r *http.Request) { http.ServeFile(rw, r, agent) })
	w.outside = "http://" + w.listen(mux, nil)
	w.pki, err = pki.Open("")
	require.NoError(w.t, err)
	certificate, err := w.pki.Serving(gateway)
	require.NoError(w.t, err)
	w.guarded = "https://" + w.listen(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "puller" || password != registryPassword {
			rw.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			http.Error(rw, "who are you?", http.StatusUnauthorized)
			return
		}
		registry.ServeHTTP(rw, r)
	}), &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
}

const registryPassword = "registry-password"

func (w *world) listen(handler http.Handler, secure *tls.Config) string {
	listener, err := net.Listen("tcp", gateway+":0")
	require.NoError(w.t, err)
	address := listener.Addr().String()
	if secure != nil {
		listener = tls.NewListener(listener, secure)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	w.t.Cleanup(func() { _ = server.Close() })
	return address
}

func (w *world) build(pkg string) string {
	path := filepath.Join(w.dir, filepath.Base(pkg))
	build := exec.Command("go", "build", "-trimpath", "-o", path, pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(w.t, err, "%s", out)
	return path
}

// startManagement starts an API server that the servers reach, with a right for agents to read and write plan Secrets.
func (w *world) startManagement() {
	cmd := exec.Command("../../bin/localkube", "server", "--data-dir", filepath.Join("/tmp", fmt.Sprintf("drover-dist-%d", os.Getpid())), "--ephemeral",
		"--disable", "controller-manager,scheduler", "--bind-address", gateway)
	var log bytes.Buffer
	cmd.Stderr = &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	require.NoError(w.t, err)
	require.NoError(w.t, cmd.Start())
	w.t.Cleanup(func() {
		require.NoError(w.t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(w.t, cmd.Wait(), "%s", &log)
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(w.t, err, "%s", &log)
	kubeconfig, err := clientcmd.LoadFromFile(strings.TrimSpace(line))
	require.NoError(w.t, err)
	w.config = kubeconfig.Clusters[kubeconfig.Contexts[kubeconfig.CurrentContext].Cluster]
	w.client = clientOf(w.t, kubeconfig)
	ctx := w.t.Context()
	_, err = w.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "agent"}}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	_, err = w.client.RbacV1().Roles(metav1.NamespaceDefault).Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch", "update"}}},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	_, err = w.client.RbacV1().RoleBindings(metav1.NamespaceDefault).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "agent"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "agent", Namespace: metav1.NamespaceDefault}},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

func clientOf(t *testing.T, kubeconfig *clientcmdapi.Config) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.NewDefaultClientConfig(*kubeconfig, nil).ClientConfig()
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

// userData starts our agent as the install script does, but that it is registered already.
const userData = `#!/bin/sh
set -e
mkdir -p /etc/rancher/agent /var/lib/rancher/agent
umask 077
cat >/etc/rancher/agent/config.yaml <<'END'
connectionInfoFile: /var/lib/rancher/agent/info.json
END
cat >/var/lib/rancher/agent/info.json <<'END'
%s
END
curl -fsS %s/agent -o /usr/local/bin/drover-agent
chmod 0755 /usr/local/bin/drover-agent
cat >/etc/systemd/system/drover-agent.service <<'END'
[Service]
ExecStart=/usr/local/bin/drover-agent
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
END
systemctl enable --now drover-agent
`

// startServer starts a server whose agent watches the plan Secret of its name.
func (w *world) startServer(name, address string) {
	ctx := w.t.Context()
	_, err := w.client.CoreV1().Secrets(metav1.NamespaceDefault).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	day := int64(24 * 3600)
	token, err := w.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).CreateToken(ctx, "agent", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["c"], kubeconfig.CurrentContext = w.config, "c"
	kubeconfig.AuthInfos["c"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	kubeconfig.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "c"}
	content, err := clientcmd.Write(*kubeconfig)
	require.NoError(w.t, err)
	info, err := json.Marshal(map[string]string{"kubeConfig": string(content), "namespace": metav1.NamespaceDefault, "secretName": name})
	require.NoError(w.t, err)
	require.NoError(w.t, w.servers.Create(ctx, server.Spec{
		Name: name, Hostname: name, InstanceID: name, Public: netip.MustParseAddr(address), UserData: fmt.Sprintf(userData, info, w.outside),
	}))
	w.t.Cleanup(func() {
		if w.t.Failed() {
			log, err := exec.Command("journalctl", "--directory", w.path(name, "var/log/journal"), "--lines=60", "--output=short", "--no-pager").CombinedOutput()
			w.t.Logf("journal of %s: %s %v", name, log, err)
		}
	})
}

// path is where a file of a server is on this machine.
func (w *world) path(name, path string) string {
	return filepath.Join(w.dir, "servers", name, "root", path)
}

// read reads a file of a server.
func (w *world) read(name, path string) []byte {
	content, err := os.ReadFile(w.path(name, path))
	require.NoError(w.t, err)
	return content
}

// get asks a path of a client's API server.
func get(ctx context.Context, client kubernetes.Interface, path string) (string, error) {
	stream, err := client.CoreV1().RESTClient().Get().AbsPath(path).Stream(ctx)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(stream)
	return string(content), errors.Join(err, stream.Close())
}
