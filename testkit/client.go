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
func Config(tb testing.TB) *rest.Config {
	tb.Helper()
	return rest.CopyConfig(started(tb).config)
}

// Fresh is an administrator's access to a server that nobody has used, for one test. It costs some seconds.
func Fresh(tb testing.TB, opts ...Option) *rest.Config {
	tb.Helper()
	s := &server{fresh: true}
	for _, opt := range opts {
		opt(&s.options)
	}
	require.NoError(tb, s.ensure(), "starting a server")
	tb.Cleanup(func() { require.NoError(tb, s.stop()) })
	return rest.CopyConfig(s.config)
}

// Kubeconfig is the path of an administrator's kubeconfig.
func Kubeconfig(tb testing.TB) string {
	tb.Helper()
	return started(tb).kubeconfig
}

// Client is an administrator's uncached client.
func Client(tb testing.TB, scheme *runtime.Scheme) client.WithWatch {
	tb.Helper()
	c, err := client.NewWithWatch(Config(tb), client.Options{Scheme: scheme})
	require.NoError(tb, err, "making a client")
	return c
}

// Namespace makes a namespace for one test. Its deletion is asked for at the
// end and not awaited: names are never used again.
func Namespace(tb testing.TB) string {
	tb.Helper()
	clients, err := kubernetes.NewForConfig(Config(tb))
	require.NoError(tb, err, "making a client")
	namespaces := clients.CoreV1().Namespaces()
	ns, err := namespaces.Create(tb.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	require.NoError(tb, err, "making a namespace")
	tb.Cleanup(func() {
		if err := namespaces.Delete(context.WithoutCancel(tb.Context()), ns.Name, metav1.DeleteOptions{}); err != nil {
			tb.Logf("deleting namespace %s: %v", ns.Name, err)
		}
	})
	return ns.Name
}
