package testkit

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Config is an administrator's access to the server; the caller may change it.
func Config(t testing.TB) *rest.Config {
	t.Helper()
	return rest.CopyConfig(started(t).config)
}

// Kubeconfig is the path of an administrator's kubeconfig.
func Kubeconfig(t testing.TB) string {
	t.Helper()
	return started(t).kubeconfig
}

// Client is an administrator's uncached client.
func Client(t testing.TB, scheme *runtime.Scheme) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(Config(t), client.Options{Scheme: scheme})
	require.NoError(t, err, "making a client")
	return c
}

// Namespace makes a namespace for one test. Its deletion is asked for at the
// end and not awaited: names are never used again.
func Namespace(t testing.TB) string {
	t.Helper()
	clients, err := kubernetes.NewForConfig(Config(t))
	require.NoError(t, err, "making a client")
	namespaces := clients.CoreV1().Namespaces()
	ns, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	require.NoError(t, err, "making a namespace")
	t.Cleanup(func() {
		if err := namespaces.Delete(context.WithoutCancel(t.Context()), ns.Name, metav1.DeleteOptions{}); err != nil {
			t.Logf("deleting namespace %s: %v", ns.Name, err)
		}
	})
	return ns.Name
}
