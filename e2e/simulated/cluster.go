package simulated

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/api/plan"
	"github.com/drover-project/drover/testkit"
)

// Cluster stands in for the Kubernetes that the servers of one cluster run. It is a real API server,
// which is reached through a proxy with a certificate of the cluster's authority. Servers that apply
// their plan become its Nodes at once.
type Cluster struct {
	testing.TB
	server *rest.Config
	client client.Client
	// Port is the port of the API at 127.0.0.1.
	Port  string
	start sync.Once
}

// NewCluster returns a Cluster whose Nodes and other objects are in an API server.
func NewCluster(tb testing.TB, server *rest.Config) *Cluster {
	tb.Helper()
	w := &Cluster{TB: tb, server: server, Port: testkit.FreePort(tb)}
	var err error
	w.client, err = client.New(w.server, client.Options{Scheme: scheme.Scheme})
	require.NoError(tb, err)
	return w
}

// Apply does what a server does with a plan.
func (w *Cluster) Apply(ctx context.Context, order plan.Plan) error {
	files := map[string][]byte{}
	for _, file := range order.Files {
		content, err := file.Bytes()
		if err != nil {
			return err
		}
		files[file.Path] = content
	}
	const authority = "/var/lib/rancher/k3s/server/tls/server-ca"
	if key := files[authority+".key"]; len(key) > 0 {
		var err error
		w.start.Do(func() { err = w.serve(files[authority+".crt"], key) })
		if err != nil {
			return err
		}
	}
	node, err := nodeOf(order, files)
	if err != nil {
		return err
	}
	ready := node.DeepCopy()
	if err := w.client.Create(ctx, node); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("registering the Node: %w", err)
	}
	if err := w.client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
		return fmt.Errorf("reading the Node: %w", err)
	}
	node.Status = ready.Status
	if err := w.client.Status().Update(ctx, node); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("reporting the Node: %w", err)
	}
	return nil
}

// nodeOf returns the Node that a kubelet registers.
func nodeOf(order plan.Plan, files map[string][]byte) (*corev1.Node, error) {
	var main struct {
		Kubelet []string `json:"kubelet-arg"`
	}
	var registers struct {
		Labels []string `json:"node-label+"`
	}
	const dir = "/etc/rancher/k3s/config.yaml.d/"
	if err := json.Unmarshal(files[dir+"50-rancher.yaml"], &main); err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	if err := json.Unmarshal(files[dir+"51-rancher-node.yaml"], &registers); err != nil {
		return nil, fmt.Errorf("reading the configuration of the Node: %w", err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
	for _, argument := range main.Kubelet {
		if id, found := strings.CutPrefix(argument, "provider-id="); found {
			_, node.Name, _ = strings.Cut(id, "://")
			node.Spec.ProviderID = id
		}
	}
	for _, label := range registers.Labels {
		name, value, _ := strings.Cut(label, "=")
		node.Labels[name] = value
	}
	_, version, _ := strings.Cut(order.Instructions[0].Image, ":")
	node.Status.NodeInfo.KubeletVersion = strings.Replace(version, "-k3s", "+k3s", 1)
	for kind, status := range map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: corev1.ConditionTrue, corev1.NodeMemoryPressure: corev1.ConditionFalse,
		corev1.NodeDiskPressure: corev1.ConditionFalse, corev1.NodePIDPressure: corev1.ConditionFalse} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status, Reason: "Kubelet", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()})
	}
	return node, nil
}

// serve starts the proxy with a certificate of the cluster's authority.
func (w *Cluster) serve(authority, key []byte) error {
	pair, err := tls.X509KeyPair(authority, key)
	if err != nil {
		return fmt.Errorf("reading the cluster's authority: %w", err)
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kube-apiserver"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	certificate, err := x509.CreateCertificate(rand.Reader, template, pair.Leaf, own.Public(), pair.PrivateKey)
	if err != nil {
		return fmt.Errorf("signing the certificate of the API: %w", err)
	}
	target, err := url.Parse(w.server.Host)
	if err != nil {
		return err
	}
	config, err := w.server.TransportConfig()
	if err != nil {
		return err
	}
	through, err := transport.New(config)
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:"+w.Port, &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: own}}})
	if err != nil {
		return err
	}
	quiet := log.New(io.Discard, "", 0)
	server := &http.Server{ReadHeaderTimeout: time.Minute, ErrorLog: quiet, Handler: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Authorization")
		}, Transport: through, FlushInterval: -1, ErrorLog: quiet}}
	go func() { _ = server.Serve(listener) }()
	w.Cleanup(func() { _ = server.Close() })
	return nil
}
