package capi_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/testkit"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	crds, err := capi.CRDs()
	own, ownErr := charts.CRDs()
	if err = errors.Join(err, ownErr); err != nil {
		panic(err)
	}
	testkit.Main(m, testkit.WithCRDs(append(crds, own...)...))
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), capi.AddToScheme(scheme), rkev1.AddToScheme(scheme)))
	return scheme
}

// newManager makes one as the real one is made, with a certificate of its own and its webhooks on a port of its own.
func newManager(t *testing.T) (manager.Manager, int) {
	t.Helper()
	donor := httptest.NewTLSServer(nil)
	donor.Close()
	certificate := &donor.TLS.Certificates[0]
	port, err := strconv.Atoi(testkit.FreePort(t))
	require.NoError(t, err)
	controllers := capi.ControllerOptions()
	controllers.SkipNameValidation = new(true)
	mgr, err := ctrl.NewManager(testkit.Config(t), ctrl.Options{
		Scheme: newScheme(t), NewCache: capi.NewCache, Client: capi.ClientOptions(), Metrics: server.Options{BindAddress: "0"},
		Controller: controllers,
		WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, TLSOpts: []func(*tls.Config){
			func(c *tls.Config) {
				c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate, nil }
			},
		}}),
	})
	require.NoError(t, err)
	return mgr, port
}

// run runs a manager or its cache until the test ends.
func run(t *testing.T, started manager.Runnable, cached cache.Cache) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- started.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	require.True(t, cached.WaitForCacheSync(t.Context()))
}
