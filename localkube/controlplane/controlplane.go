// Package controlplane says how etcd, kube-apiserver, kube-controller-manager
// and kube-scheduler are run: it makes one process.Spec per component and
// knows when the API server is ready.
//
// It reads the files of package identity and writes below DATA/etcd. Package
// node is next: it runs pods.
package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/identity"
	"github.com/drover-project/drover/localkube/process"
)

// Names of the components, which are also the verbs of the executable.
const (
	EtcdName              = "etcd"
	APIServerName         = "kube-apiserver"
	ControllerManagerName = "kube-controller-manager"
	SchedulerName         = "kube-scheduler"

	// AdminName is the administrator's, among kubeconfigs.
	AdminName = "admin"
)

// The ranges of pods and services lie in the one that is reserved for
// benchmarks, so they collide with no network a test machine is in.
const (
	PodCIDR     = "198.19.0.0/17"
	ServiceCIDR = "198.19.128.0/17"
)

// Plane is one control plane.
type Plane struct {
	Dir   datadir.Dir
	Ports datadir.Ports
	// NodeName is this machine's name as a node.
	NodeName string
	// Bind is the API server's listen address, Advertise its address for pods. A loopback address
	// means that only this machine can reach it.
	Bind, Advertise net.IP
	// Pods and Services are the cluster's ranges.
	Pods, Services string
	Files          identity.Files
	// Arguments are name=value by component; they take the place of ours of the same name.
	Arguments map[string][]string
	// Disabled are components that are not run.
	Disabled []string
	// Kubeconfigs are the paths of the administrator's kubeconfig; an empty path is skipped.
	Kubeconfigs []string
}

// Start runs the control plane, and returns when the API server is ready and the rest is started.
func (p *Plane) Start(ctx context.Context, sup *process.Supervisor, say func(format string, args ...any)) error {
	etcd, err := p.etcd()
	if err != nil {
		return err
	}
	// The API server waits for etcd, so both start at once.
	for _, spec := range []process.Spec{etcd, p.apiServer()} {
		if err := sup.Start(spec); err != nil {
			return err
		}
	}
	if err := p.awaitReady(ctx); err != nil {
		return err
	}
	say("API server is ready")
	for _, path := range slices.DeleteFunc(slices.Clone(p.Kubeconfigs), func(path string) bool { return path == "" }) {
		raw, err := os.ReadFile(p.Files.Kubeconfigs[AdminName])
		if err != nil {
			return fmt.Errorf("reading kubeconfig: %w", err)
		}
		if err := datadir.Dir(filepath.Dir(path)).Write(raw, filepath.Base(path)); err != nil {
			return err
		}
	}
	for _, spec := range []process.Spec{p.controllerManager(), p.controller(SchedulerName)} {
		if slices.Contains(p.Disabled, strings.TrimPrefix(spec.Name, "kube-")) {
			continue
		}
		if err := sup.Start(spec); err != nil {
			return err
		}
		say("%s is started", spec.Name)
	}
	return nil
}

// Prepare makes the identities of the control plane, and of this machine as its node at an address,
// below a data directory. It waits until an earlier run has released the ports. Names are the API
// server's, in addition to the node's own.
func (p *Plane) Prepare(ctx context.Context, dataDir string, address net.IP, names ...string) (*identity.Signer, identity.NodeFiles, error) {
	_, services, err := net.ParseCIDR(p.Services)
	if err != nil {
		return nil, identity.NodeFiles{}, fmt.Errorf("reading the range of services: %w", err)
	}
	first := services.IP.To4() // which is the API server's
	first[3]++
	loopback := net.IPv4(127, 0, 0, 1)
	// Where this machine's own components reach the API server.
	reach := p.Bind
	if reach.IsUnspecified() {
		reach = loopback
	}
	url := "https://" + net.JoinHostPort(reach.String(), strconv.Itoa(p.Ports.HTTPS))
	files, signer, err := identity.Server{DataDir: dataDir, NodeName: p.NodeName, Address: address.String(), Names: append(names, first.String()), URL: url}.Issue()
	if err != nil {
		return nil, identity.NodeFiles{}, err
	}
	p.Files = files
	err = errors.Join(
		process.AwaitPort(ctx, "the API server", p.Bind, p.Ports.HTTPS),
		process.AwaitPort(ctx, "etcd", loopback, p.Ports.EtcdClient),
		process.AwaitPort(ctx, "etcd's peers", loopback, p.Ports.EtcdPeer),
	)
	if err != nil {
		return nil, identity.NodeFiles{}, err
	}
	answer, err := signer.Sign(identity.Request{Name: p.NodeName, Address: address.String()})
	if err != nil {
		return nil, identity.NodeFiles{}, err
	}
	node, err := answer.Take(dataDir, url)
	return signer, node, err
}

// etcd writes etcd's own configuration and returns its component. It syncs nothing to disk: a power
// failure loses only a test cluster.
func (p *Plane) etcd() (process.Spec, error) {
	client := "https://127.0.0.1:" + strconv.Itoa(p.Ports.EtcdClient)
	peer := "https://127.0.0.1:" + strconv.Itoa(p.Ports.EtcdPeer)
	security := func(pair identity.Pair, ca string) map[string]any {
		return map[string]any{"cert-file": pair.Certificate, "key-file": pair.Key, "trusted-ca-file": ca, "client-cert-auth": true}
	}
	raw, err := json.MarshalIndent(map[string]any{
		"name":                        "localkube",
		"data-dir":                    p.Dir.Path("etcd", "member"),
		"listen-client-urls":          client,
		"advertise-client-urls":       client,
		"listen-peer-urls":            peer,
		"initial-advertise-peer-urls": peer,
		"initial-cluster":             "localkube=" + peer,
		"client-transport-security":   security(p.Files.EtcdServer, p.Files.EtcdCA),
		"peer-transport-security":     security(p.Files.EtcdPeer, p.Files.EtcdPeerCA),
		"quota-backend-bytes":         4 << 30,
		"unsafe-no-fsync":             true,
		"logger":                      "zap",
		"log-level":                   "warn",
		"log-outputs":                 []string{embed.StdErrLogOutput},
	}, "", "  ")
	if err != nil {
		return process.Spec{}, fmt.Errorf("encoding etcd configuration: %w", err)
	}
	config := p.Dir.Path("etcd", "config.json")
	return process.Spec{Name: EtcdName, Path: process.Self, Args: []string{EtcdName, config}, Log: p.Dir.Log(EtcdName)}, p.Dir.Write(raw, "etcd", "config.json")
}

// RunEtcd runs etcd in this process until the context ends; it is the verb
// behind the Spec that etcd returns.
func RunEtcd(ctx context.Context, configFile string) error {
	cfg, err := embed.ConfigFromFile(configFile)
	if err != nil {
		return fmt.Errorf("reading etcd configuration: %w", err)
	}
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("starting etcd: %w", err)
	}
	defer server.Close()
	select {
	case <-ctx.Done():
		return nil
	case <-server.Server.StopNotify():
		return errors.New("etcd stopped unexpectedly")
	case err := <-server.Err():
		return fmt.Errorf("serving etcd: %w", err)
	}
}

// apiServer says how to run kube-apiserver.
func (p *Plane) apiServer() process.Spec {
	f := p.Files
	args := []string{
		"etcd-servers=https://127.0.0.1:" + strconv.Itoa(p.Ports.EtcdClient),
		"etcd-cafile=" + f.EtcdCA,
		"etcd-certfile=" + f.EtcdClient.Certificate,
		"etcd-keyfile=" + f.EtcdClient.Key,
		"bind-address=" + p.Bind.String(),
		"advertise-address=" + p.Advertise.String(),
		"secure-port=" + strconv.Itoa(p.Ports.HTTPS),
		"tls-cert-file=" + f.APIServer.Certificate,
		"tls-private-key-file=" + f.APIServer.Key,
		"client-ca-file=" + f.ClientCA.Certificate,
		"authorization-mode=Node,RBAC",
		"enable-admission-plugins=NodeRestriction",
		"allow-privileged=true",
		"service-cluster-ip-range=" + p.Services,
		"service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"service-account-key-file=" + f.ServiceAccountKey,
		"service-account-signing-key-file=" + f.ServiceAccountKey,
		"kubelet-client-certificate=" + f.Kubelet.Certificate,
		"kubelet-client-key=" + f.Kubelet.Key,
		"kubelet-certificate-authority=" + f.ServerCA,
		"kubelet-preferred-address-types=InternalIP",
		"requestheader-client-ca-file=" + f.ProxyCA,
		"requestheader-allowed-names=" + identity.ProxyName,
		"requestheader-extra-headers-prefix=X-Remote-Extra-",
		"requestheader-group-headers=X-Remote-Group",
		"requestheader-username-headers=X-Remote-User",
		"proxy-client-cert-file=" + f.Proxy.Certificate,
		"proxy-client-key-file=" + f.Proxy.Key,
		"profiling=false",
	}
	if p.Advertise.IsLoopback() {
		// The kubernetes Service may not point at loopback; without it the
		// server would log that refusal every ten seconds.
		args = append(args, "endpoint-reconciler-type=none")
	}
	return p.component(APIServerName, args...)
}

// controllerManager says how to run kube-controller-manager.
func (p *Plane) controllerManager() process.Spec {
	return p.controller(ControllerManagerName,
		"use-service-account-credentials=true",
		"service-account-private-key-file="+p.Files.ServiceAccountKey,
		"root-ca-file="+p.Files.ServerCA,
		"cluster-signing-cert-file="+p.Files.ClientCA.Certificate,
		"cluster-signing-key-file="+p.Files.ClientCA.Key,
		"allocate-node-cidrs=true",
		"cluster-cidr="+p.Pods,
		"service-cluster-ip-range="+p.Services,
		"flex-volume-plugin-dir="+p.Dir.Path("kubelet-volume-plugins"),
	)
}

// controller returns a component that may be restarted, because it keeps its state in the API. It
// listens on no port, unless the arguments set one.
func (p *Plane) controller(name string, args ...string) process.Spec {
	kubeconfig := p.Files.Kubeconfigs[name]
	spec := p.component(name, append([]string{
		"kubeconfig=" + kubeconfig,
		"authentication-kubeconfig=" + kubeconfig,
		"authorization-kubeconfig=" + kubeconfig,
		"secure-port=0",
		"leader-elect=false",
		"profiling=false",
	}, args...)...)
	spec.Restart = true
	return spec
}

// component is a child that runs this same executable under another verb.
func (p *Plane) component(verb string, args ...string) process.Spec {
	return process.Spec{Name: verb, Path: process.Self, Args: append([]string{verb}, process.Flags(args, p.Arguments[verb])...), Log: p.Dir.Log(verb)}
}

// awaitReady returns when the API server says it is ready, which includes etcd
// and the roles it makes at its first start.
func (p *Plane) awaitReady(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", p.Files.Kubeconfigs[AdminName])
	if err != nil {
		return fmt.Errorf("reading kubeconfig: %w", err)
	}
	// The environment's proxy is for the internet. No rate limit is needed, because this is the
	// only client yet.
	config.Proxy, config.QPS = http.ProxyURL(nil), -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making client: %w", err)
	}
	var last error
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		last = client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the API server: %w", errors.Join(context.Cause(ctx), last))
	}
	return nil
}
