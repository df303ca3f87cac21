package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/e2e/testbed"
	"github.com/drover-project/drover/endpoint/certificate"
)

// TestWithKubeadm hands the testbed over to the unmodified managers of Cluster API and of kubeadm's providers, as `clusterctl init` does. They make
// and remove a cluster on real servers; in kubeadm's place stands a program that registers the server's Node at an API server here. There is no
// way back from them, so this is the testbed's last test. The long form then makes one object's cluster with the installed Cluster API.
func TestWithKubeadm(t *testing.T) {
	if bed == nil {
		t.Skip("kubeadm's providers need the testbed: run `make e2e`")
	}
	for _, provider := range []string{"cluster-api", "bootstrap-kubeadm", "control-plane-kubeadm"} {
		require.NoError(t, bed.ImportImage(t.Context(), filepath.Join(bed.BinDir, "upstream", provider+".tar")))
	}
	t.Run("with-kubeadm", func(t *testing.T) {
		testscript.Run(t, testscript.Params{
			Dir:                 filepath.Join("testdata", "kubeadm"),
			Setup:               setupKubeadm,
			RequireExplicitExec: true,
			Deadline:            time.Now().Add(30 * time.Minute),
			Cmds: map[string]func(*testscript.TestScript, bool, []string){
				"await":   await,
				"expand":  expand,
				"cloud":   cloud,
				"certify": certify,
			},
		})
	})
	if os.Getenv("DROVER_SOAK") != "" && !t.Failed() {
		t.Run("installed", func(t *testing.T) { run(t, []string{filepath.Join("testdata", "one-object.txtar")}) })
	}
}

// setupKubeadm gives a story, besides its namespace, what `make release` wrote, with the testbed's settings, and an API server for its Nodes.
func setupKubeadm(env *testscript.Env) error {
	if err := setup(env); err != nil {
		return err
	}
	releases, err := filepath.Glob(filepath.Join(bed.BinDir, "release", "v*", "infrastructure-drover", "v*"))
	if err != nil || len(releases) != 1 {
		return fmt.Errorf("one release is expected, there are %q: run `make release`", releases)
	}
	release := filepath.Base(releases[0])
	ours := filepath.Join(env.WorkDir, "release", "infrastructure-drover", release)
	if err := os.CopyFS(ours, os.DirFS(releases[0])); err != nil {
		return err
	}
	manifests, err := bed.Manifests(context.Background(), "--with-crds", "--capi=external", "--server-url=${DROVER_SERVER_URL:=}")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(ours, "infrastructure-components.yaml"), []byte(manifests), 0o600); err != nil {
		return err
	}
	upstream := filepath.Join(bed.BinDir, "upstream", "repository")
	versions, err := os.ReadDir(filepath.Join(upstream, "cluster-api"))
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"RELEASE": release, "UPSTREAM": upstream, "CAPI": versions[0].Name(), "CLUSTERCTL_DISABLE_VERSIONCHECK": "true",
		"DROVER_SERVER_URL": testbed.ServerURL,
		"KCP":               "system:serviceaccount:capi-kubeadm-control-plane-system:capi-kubeadm-control-plane-manager",
	} {
		env.Setenv(name, value)
	}
	return startWorkload(env)
}

// startWorkload runs the API server of the cluster that kubeadm would make, where servers reach it.
func startWorkload(env *testscript.Env) error {
	dir := filepath.Join(env.WorkDir, ".workload")
	// kubeadm has one authority for servers and clients, where k3s has two.
	now := time.Now()
	cert, key, err := certificate.Authority("story", now, now.Add(24*time.Hour))
	if err != nil {
		return err
	}
	env.Setenv("CA_CERT", base64.StdEncoding.EncodeToString(cert))
	env.Setenv("CA_KEY", base64.StdEncoding.EncodeToString(key))
	authorities := filepath.Join(dir, "server", "tls")
	if err := os.MkdirAll(authorities, 0o700); err != nil {
		return err
	}
	for _, name := range []string{"server-ca", "client-ca"} {
		if err := errors.Join(os.WriteFile(filepath.Join(authorities, name+".crt"), cert, 0o600), os.WriteFile(filepath.Join(authorities, name+".key"), key, 0o600)); err != nil {
			return err
		}
	}
	server := exec.Command(filepath.Join(bed.BinDir, "localkube"), "server", "--data-dir", dir,
		"--bind-address", "198.18.0.1", "--disable", "scheduler,controller-manager")
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	env.Defer(func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait()
	})
	ready := bufio.NewScanner(out)
	if !ready.Scan() {
		return fmt.Errorf("the API server of the cluster did not start: %w", ready.Err())
	}
	config, err := clientcmd.BuildConfigFromFlags("", ready.Text())
	if err != nil {
		return err
	}
	endpoint, err := url.Parse(config.Host)
	if err != nil {
		return err
	}
	env.Setenv("WORKLOAD", ready.Text())
	env.Setenv("ENDPOINT_HOST", endpoint.Hostname())
	env.Setenv("ENDPOINT_PORT", endpoint.Port())
	return nil
}

// certify does cert-manager's work once: a Secret for every Certificate, and the authority for whoever asks for it.
func certify(ts *testscript.TestScript, _ bool, _ []string) {
	config, err := clientcmd.BuildConfigFromFlags("", ts.Getenv("KUBECONFIG"))
	ts.Check(err)
	c, err := client.New(config, client.Options{})
	ts.Check(err)
	now := time.Now()
	bundlePEM, authorityKey, err := certificate.Authority("story", now, now.Add(24*time.Hour))
	ts.Check(err)
	authority, err := tls.X509KeyPair(bundlePEM, authorityKey)
	ts.Check(err)
	for _, wanted := range list(ts, c, "cert-manager.io/v1", "Certificate") {
		name, _, _ := unstructured.NestedString(wanted.Object, "spec", "secretName")
		hosts, _, _ := unstructured.NestedStringSlice(wanted.Object, "spec", "dnsNames")
		serving, key, err := certificate.Serving(hosts, &authority, now, authority.Leaf.NotAfter)
		ts.Check(err)
		ts.Check(c.Create(context.Background(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: wanted.GetNamespace(), Name: name},
			Type:       corev1.SecretTypeTLS,
			Data:       map[string][]byte{corev1.TLSCertKey: serving, corev1.TLSPrivateKeyKey: key},
		}))
	}
	bundle := base64.StdEncoding.EncodeToString(bundlePEM)
	for kind, version := range map[string]string{
		"CustomResourceDefinition": "apiextensions.k8s.io/v1", "ValidatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
		"MutatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
	} {
		for _, obj := range list(ts, c, version, kind) {
			if obj.GetAnnotations()["cert-manager.io/inject-ca-from"] == "" {
				continue
			}
			before := obj.DeepCopy()
			if conversion, found, _ := unstructured.NestedMap(obj.Object, "spec", "conversion", "webhook", "clientConfig"); found {
				conversion["caBundle"] = bundle
				ts.Check(unstructured.SetNestedMap(obj.Object, conversion, "spec", "conversion", "webhook", "clientConfig"))
			}
			webhooks, _ := obj.Object["webhooks"].([]any)
			for _, webhook := range webhooks {
				ts.Check(unstructured.SetNestedField(webhook.(map[string]any), bundle, "clientConfig", "caBundle"))
			}
			ts.Check(c.Patch(context.Background(), &obj, client.MergeFrom(before)))
		}
	}
}

// list is every object of a kind.
func list(ts *testscript.TestScript, c client.Client, version, kind string) []unstructured.Unstructured {
	found := &unstructured.UnstructuredList{}
	found.SetGroupVersionKind(schema.FromAPIVersionAndKind(version, kind+"List"))
	ts.Check(c.List(context.Background(), found))
	return found.Items
}
