package capi_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/testkit"
)

// What `clusterctl init` writes over our CRDs ends a manager that embeds Cluster API; started again it does not embed.
func TestHandover(t *testing.T) {
	config := testkit.Fresh(t)
	c, err := client.NewWithWatch(config, client.Options{Scheme: newScheme(t)})
	require.NoError(t, err)
	crds, err := capi.CRDs()
	require.NoError(t, err)
	names := make([]string, 0, len(crds))
	for _, crd := range crds {
		require.NoError(t, c.Create(t.Context(), crd))
		names = append(names, crd.Name)
	}
	require.NoError(t, apply.AwaitEstablished(t.Context(), c, names...))
	controllers := capi.ControllerOptions()
	controllers.SkipNameValidation = new(true)
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: newScheme(t), NewCache: capi.NewCache, Client: capi.ClientOptions(),
		Controller: controllers, Metrics: server.Options{BindAddress: "0"}, GracefulShutdownTimeout: new(5 * time.Second),
		LeaderElection: true, LeaderElectionID: "held-by-another", LeaderElectionNamespace: metav1.NamespaceDefault})
	require.NoError(t, err)
	live := capi.Handover(mgr.GetCache(), mgr.GetAPIReader())
	require.NoError(t, mgr.Add(live))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(t.Context()) }()
	require.True(t, mgr.GetCache().WaitForCacheSync(t.Context()))

	patch := func(name, body string) {
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
		require.NoError(t, c.Patch(t.Context(), crd, client.RawPatch("application/merge-patch+json", []byte(body))))
	}
	patch("clusters.cluster.x-k8s.io", `{"metadata":{"annotations":{"a":"b"}}}`) // means nothing
	patch("machines.cluster.x-k8s.io", `{"spec":{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],`+
		`"clientConfig":{"service":{"namespace":"capi-system","name":"capi-webhook-service"}}}}}}`)
	require.ErrorContains(t, <-ended, "another Cluster API is being installed (machines.cluster.x-k8s.io)")
	mode, err := capi.Resolve(t.Context(), c, capi.Auto)
	require.NoError(t, err)
	require.Equal(t, capi.External, mode)
}
