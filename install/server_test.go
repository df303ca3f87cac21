package install_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/admission"
	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/endpoint/certificate"
	"github.com/drover-project/drover/install"
	"github.com/drover-project/drover/testkit"
)

// writes counts what a client writes.
func writes(c client.WithWatch, count *int) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			*count++
			return c.Apply(ctx, obj, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			*count++
			return c.Create(ctx, obj, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			*count++
			return c.Delete(ctx, obj, opts...)
		},
	})
}

// everything is what a manager installs when it starts.
func everything(t *testing.T, c client.WithWatch, owner *metav1.OwnerReference) {
	t.Helper()
	require.NoError(t, install.Kinds(t.Context(), c, true))
	require.NoError(t, install.Objects(t.Context(), c, owner))
	require.NoError(t, install.Webhooks(t.Context(), c, admission.Target{URL: "https://localhost:1", CAPI: true, Owner: owner}))
	require.NoError(t, (&install.Predefined{Client: c, Reader: c}).Start(t.Context()))
	// Nobody answers these webhooks; they must not stand in the way of the other tests.
	t.Cleanup(func() {
		meta := metav1.ObjectMeta{Name: admission.ConfigurationName}
		_ = c.Delete(context.Background(), &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta})
		_ = c.Delete(context.Background(), &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta})
	})
}

// The first start installs all, the second writes nothing at all.
func TestInstallation_restartWritesNothing(t *testing.T) {
	c, count := testkit.Client(t, scheme(t)), 0
	counting := writes(c, &count)
	require.NoError(t, (&install.Predefined{Client: c, Reader: c}).Start(cancelled(t)), "a manager that is told to stop stops")
	installKinds(t, c)
	require.NoError(t, (&install.Predefined{Client: c, Reader: c}).Start(t.Context()))
	everything(t, counting, nil)
	require.Positive(t, count)
	count = 0
	everything(t, counting, nil)
	require.Zero(t, count)

	var crds apiextensionsv1.CustomResourceDefinitionList
	require.NoError(t, c.List(t.Context(), &crds, client.MatchingLabels{capi.InstalledByLabel: capi.InstalledByValue}))
	names := map[string]bool{}
	for _, crd := range crds.Items {
		names[crd.Name] = true
	}
	for _, name := range []string{"nodedrivers.management.cattle.io", "rkeclusters.rke.cattle.io", "machines.cluster.x-k8s.io", "clusters.cluster.x-k8s.io"} {
		require.True(t, names[name], "%s must be known as ours, or the next start would think that Rancher or another Cluster API runs here", name)
	}
	require.NoError(t, install.CheckRancher(t.Context(), c), "our own kinds are no sign of Rancher")
}

func installKinds(t *testing.T, c client.WithWatch) {
	t.Helper()
	require.NoError(t, install.Kinds(t.Context(), c, false))
}

func cancelled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// What somebody changed for the worse is put right at the next start, and what they added stays.
func TestObjects_afterOthersTouchedThem(t *testing.T) {
	c := testkit.Client(t, scheme(t))
	owner := ownerRole(t, c)
	require.NoError(t, install.Objects(t.Context(), c, owner))
	namespace := testkit.ExpectExists(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: driver.CacheNamespace}})
	namespace.Labels["pod-security.kubernetes.io/enforce"], namespace.Labels["team"] = "privileged", "platform"
	require.NoError(t, c.Update(t.Context(), namespace))
	role := testkit.ExpectExists(t, c, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: driver.CacheNamespace, Name: install.DriversReaderName}})
	role.Rules[0].Verbs = []string{"get", "delete"}
	require.NoError(t, c.Update(t.Context(), role))
	binding := testkit.ExpectExists(t, c, &rbacv1.RoleBinding{ObjectMeta: role.ObjectMeta})
	binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "mallory"})
	require.NoError(t, c.Update(t.Context(), binding))
	policy := testkit.ExpectExists(t, c, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: admission.PolicyName}})
	policy.Spec.Validations[0].Expression = "true"
	require.NoError(t, c.Update(t.Context(), policy))
	count := 0
	require.NoError(t, install.Objects(t.Context(), writes(c, &count), owner))
	require.Equal(t, 4, count)

	require.Equal(t, "restricted", testkit.ExpectExists(t, c, namespace).Labels["pod-security.kubernetes.io/enforce"])
	require.Equal(t, "platform", namespace.Labels["team"])
	require.Equal(t, []string{"get"}, testkit.ExpectExists(t, c, role).Rules[0].Verbs)
	require.Len(t, testkit.ExpectExists(t, c, binding).Subjects, 1)
	require.Equal(t, "object.spec == oldObject.spec", testkit.ExpectExists(t, c, policy).Spec.Validations[0].Expression)
	require.Equal(t, []metav1.OwnerReference{*owner}, policy.OwnerReferences, "it goes when the chart goes")
	require.Empty(t, namespace.OwnerReferences, "cached drivers outlive the chart, for servers may be left to remove")
}

// ownerRole makes the chart's ClusterRole and returns the reference to it.
func ownerRole(t *testing.T, c client.Client) *metav1.OwnerReference {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: charts.Name}}
	none, err := install.Owner(t.Context(), c, "drover-system")
	require.NoError(t, err)
	require.Nil(t, none, "a manager that was started by hand owns nothing")
	renamed := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "drover-system-" + charts.Name}}
	require.NoError(t, c.Create(t.Context(), renamed))
	byClusterctl, err := install.Owner(t.Context(), c, "drover-system")
	require.NoError(t, err)
	require.Equal(t, renamed.UID, byClusterctl.UID)
	require.NoError(t, c.Delete(t.Context(), renamed))
	require.NoError(t, c.Create(t.Context(), role))
	t.Cleanup(func() { _ = c.Delete(context.Background(), role) })
	owner, err := install.Owner(t.Context(), c, "drover-system")
	require.NoError(t, err)
	require.Equal(t, &metav1.OwnerReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "drover-manager", UID: role.UID}, owner)
	return owner
}

// A driver's binary can be read by every Job, whatever its namespace, and nothing else can be done with it.
func TestObjects_whoMayReadDrivers(t *testing.T) {
	c := testkit.Client(t, scheme(t))
	require.NoError(t, install.Objects(t.Context(), c, nil))
	binding := testkit.ExpectExists(t, c, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: driver.CacheNamespace, Name: install.DriversReaderName}})
	require.Equal(t, []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts"}}, binding.Subjects)
	role := testkit.ExpectExists(t, c, &rbacv1.Role{ObjectMeta: binding.ObjectMeta})
	require.Equal(t, []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}}, role.Rules)
	aggregated := testkit.ExpectExists(t, c, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "drover-aggregated-manager"}})
	for _, manager := range []string{"", "kubeadm.controlplane.", "rke2.controlplane."} {
		require.Equal(t, "true", aggregated.Labels[manager+"cluster.x-k8s.io/aggregate-to-manager"])
	}
	for _, rule := range aggregated.Rules {
		require.NotContains(t, rule.Verbs, "*")
		for _, group := range rule.APIGroups {
			require.Contains(t, []string{"rke.cattle.io", "rke-machine.cattle.io", "rke-machine-config.cattle.io"}, group)
		}
	}
}

var errRBAC = apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "x", errors.New("RBAC"))

// refusing is a cluster in which one kind of call is forbidden.
func refusing(t *testing.T, verb string) client.WithWatch {
	t.Helper()
	var calls interceptor.Funcs
	switch verb {
	case "get":
		calls.Get = func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errRBAC
		}
	case "apply":
		calls.Apply = func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return errRBAC
		}
	case "delete":
		calls.Delete = func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return errRBAC }
	}
	left := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: admission.ConfigurationName}}
	return fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(left).WithInterceptorFuncs(calls).Build()
}

// What the manager says when its role is too narrow: which step, which object, and the server's own words.
func TestErrorsSayWhichStep(t *testing.T) {
	for name, tt := range map[string]struct {
		verb string
		do   func(client.WithWatch) error
		err  string
	}{
		"kinds, read":        {"get", func(c client.WithWatch) error { return install.Kinds(t.Context(), c, false) }, "installing a CRD: reading CustomResourceDefinition clusters.management.cattle.io: "},
		"kinds, write":       {"apply", func(c client.WithWatch) error { return install.Kinds(t.Context(), c, false) }, "installing a CRD: applying CustomResourceDefinition clusters.management.cattle.io: "},
		"objects":            {"apply", func(c client.WithWatch) error { return install.Objects(t.Context(), c, nil) }, "applying Namespace drover-drivers: "},
		"webhooks":           {"apply", func(c client.WithWatch) error { return install.Webhooks(t.Context(), c, admission.Target{}) }, "applying ValidatingWebhookConfiguration drover-webhooks: "},
		"owner":              {"get", func(c client.WithWatch) error { _, err := install.Owner(t.Context(), c, "drover-system"); return err }, "reading our own ClusterRole: "},
		"Rancher":            {"get", func(c client.WithWatch) error { return install.CheckRancher(t.Context(), c) }, "looking for Rancher: "},
		"webhooks left over": {"delete", func(c client.WithWatch) error { return install.Webhooks(t.Context(), c, admission.Target{}) }, "removing the webhooks of the embedded Cluster API: "},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.do(refusing(t, tt.verb))
			require.EqualError(t, err, tt.err+errRBAC.Error())
			require.True(t, apierrors.IsForbidden(err))
		})
	}
}

// The words with which a manager refuses to start beside Rancher name what was found and what to do.
func TestCheckRancher_inFullWords(t *testing.T) {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "dynamicschemas.management.cattle.io"}}
	err := install.CheckRancher(t.Context(), fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(crd).Build())
	require.EqualError(t, err, "this cluster runs Rancher (found CustomResourceDefinition dynamicschemas.management.cattle.io): Drover serves the same kinds and "+
		"would fight with it over every object. Use another cluster, or start the manager with --allow-rancher if Rancher is gone and left this behind")
}

// A NodeDriver that is refused, now or for ever, does not keep the others from being made; it is tried again, not in a hurry.
func TestPredefined_oneIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts, allowed := map[string]int{}, false
		c := fake.NewClientBuilder().WithScheme(scheme(t)).WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				attempts[obj.GetName()]++
				if obj.GetName() == "amazonec2" && !allowed {
					return errors.New(`admission webhook "policy.example" denied the request`)
				}
				return c.Create(ctx, obj, opts...)
			},
		}).Build()
		done := make(chan error)
		go func() { done <- (&install.Predefined{Client: c, Reader: c}).Start(t.Context()) }()
		synctest.Wait()
		var all v3.NodeDriverList
		require.NoError(t, c.List(t.Context(), &all))
		require.Len(t, all.Items, len(driver.Predefined())-1, "all others are there at once")
		<-time.After(time.Minute)
		synctest.Wait()
		require.Equal(t, 31, attempts["amazonec2"], "each two seconds")
		allowed = true
		require.NoError(t, <-done)
		delete(attempts, "amazonec2")
		for name, count := range attempts {
			require.Equal(t, 1, count, name)
		}
	})
	require.True(t, (&install.Predefined{}).NeedLeaderElection())
}

// Webhooks of both modes name the same objects, and a change of the certificate changes nothing else.
func TestWebhooks_anotherCertificate(t *testing.T) {
	c := testkit.Client(t, scheme(t))
	now := time.Now()
	authority, _, err := certificate.Authority("test", now, now.Add(time.Hour))
	require.NoError(t, err)
	target := admission.Target{Service: client.ObjectKey{Namespace: "drover-system", Name: "drover-webhooks"},
		CABundle: authority, Username: "system:serviceaccount:a:b"}
	require.NoError(t, install.Webhooks(t.Context(), c, target))
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: admission.ConfigurationName}}
	t.Cleanup(func() { _ = c.Delete(context.Background(), configuration) })
	before := testkit.ExpectExists(t, c, configuration).DeepCopy()
	target.CABundle = slices.Concat(authority, authority)
	count := 0
	require.NoError(t, install.Webhooks(t.Context(), writes(c, &count), target))
	require.Equal(t, 1, count)
	testkit.ExpectExists(t, c, configuration)
	for i := range configuration.Webhooks {
		require.Equal(t, target.CABundle, configuration.Webhooks[i].ClientConfig.CABundle)
		configuration.Webhooks[i].ClientConfig.CABundle = before.Webhooks[i].ClientConfig.CABundle
	}
	require.Equal(t, before.Webhooks, configuration.Webhooks)
}
