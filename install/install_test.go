package install_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-project/drover/admission"
	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/install"
	"github.com/drover-project/drover/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(s))
	require.NoError(t, apiextensionsv1.AddToScheme(s))
	require.NoError(t, v3.AddToScheme(s))
	return s
}

func TestCheckRancher(t *testing.T) {
	crd := func(labels map[string]string) client.Object {
		return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "rkecontrolplanes.rke.cattle.io", Labels: labels}}
	}
	for name, tt := range map[string]struct {
		there client.Object
		want  bool
	}{
		"server":          {there: &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-system", Name: "rancher"}}, want: true},
		"its kinds":       {there: crd(nil), want: true},
		"our own kinds":   {there: crd(map[string]string{capi.InstalledByLabel: capi.InstalledByValue})},
		"the chart's":     {there: crd(map[string]string{"cluster.x-k8s.io/provider": "infrastructure-drover"})},
		"another's":       {there: crd(map[string]string{"cluster.x-k8s.io/provider": "control-plane-rke2"}), want: true},
		"Rancher's agent": {there: &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-system", Name: "cattle-cluster-agent"}}},
	} {
		t.Run(name, func(t *testing.T) {
			err := install.CheckRancher(t.Context(), fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(tt.there).Build())
			if !tt.want {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, install.ErrRancher)
			require.ErrorContains(t, err, "--allow-rancher")
		})
	}
}

func TestPredefined(t *testing.T) {
	c := testkit.Client(t, scheme(t))
	crds, err := charts.CRDs()
	require.NoError(t, err)
	testkit.ApplyCRDs(t, crds...)
	mine := &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "linode"}, Spec: v3.NodeDriverSpec{URL: "https://198.18.0.1/x", Description: "ours"}}
	require.NoError(t, c.Create(t.Context(), mine))
	for range 2 {
		require.NoError(t, (&install.Predefined{Client: c, Reader: c}).Start(t.Context()))
	}
	require.Equal(t, "ours", testkit.ExpectExists(t, c, mine).Spec.Description)
	var all v3.NodeDriverList
	require.NoError(t, c.List(t.Context(), &all))
	require.Len(t, all.Items, len(driver.Predefined()))
}

func TestObjects(t *testing.T) {
	c := testkit.Client(t, scheme(t))
	for range 2 {
		require.NoError(t, install.Objects(t.Context(), c, nil))
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: driver.CacheNamespace, Name: install.DriversReaderName}}
	require.Equal(t, []string{"get"}, testkit.ExpectExists(t, c, role).Rules[0].Verbs)
	namespace := testkit.ExpectExists(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: driver.CacheNamespace}})
	require.Equal(t, "restricted", namespace.Labels["pod-security.kubernetes.io/enforce"])
}

func TestWebhooks_changeOfMode(t *testing.T) {
	c := testkit.Client(t, scheme(t))
	target := admission.Target{URL: "https://localhost:1", CAPI: true}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: admission.ConfigurationName}}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: admission.ConfigurationName}}
	require.NoError(t, install.Webhooks(t.Context(), c, target))
	testkit.ExpectExists(t, c, mutating)
	t.Cleanup(func() { _ = c.Delete(t.Context(), validating) })

	target.CAPI = false
	require.NoError(t, install.Webhooks(t.Context(), c, target))
	testkit.ExpectNotFound(t, c, mutating)
	require.Len(t, testkit.ExpectExists(t, c, validating).Webhooks, 8, "Cluster API's go, ours stay")
	require.NoError(t, c.Delete(t.Context(), validating))
}
