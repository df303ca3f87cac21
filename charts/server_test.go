package charts_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m, testkit.WithControllers()) }

// install applies what a user would pipe into kubectl, strictly, twice.
func install(t *testing.T, s charts.Settings) (client.Client, []client.Object) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	c := testkit.Client(t, scheme)
	objs := objects(t, s)
	applied := map[string][]metav1.ManagedFieldsEntry{}
	for round := range 2 {
		for _, obj := range objs {
			sent := obj.(*unstructured.Unstructured).DeepCopy()
			id := sent.GetKind() + " " + sent.GetName()
			require.NoError(t, c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(sent), client.FieldOwner("user"), client.ForceOwnership), id)
			if round == 0 {
				applied[id] = ofUser(sent)
			} else if sent.GetKind() != "CustomResourceDefinition" {
				require.Equal(t, applied[id], ofUser(sent), "%s: applying again must change nothing", id)
			}
		}
	}
	return c, objs
}

// ofUser tells what the user applied, and when that changed an object last. Controllers write into some meanwhile, so that the object's version tells nothing.
func ofUser(obj client.Object) []metav1.ManagedFieldsEntry {
	return slices.DeleteFunc(slices.Clone(obj.GetManagedFields()), func(e metav1.ManagedFieldsEntry) bool { return e.Manager != "user" })
}

// A real API server takes all of it, and lets the manager's pod into a namespace that takes only restricted ones.
func TestServerTakesAnInstallation(t *testing.T) {
	for name, s := range settings() {
		t.Run(name, func(t *testing.T) {
			s.WithCRDs = true
			c, objs := install(t, s)
			deployment := find[appsv1.Deployment](t, objs[len(objs)-1:], charts.Name)
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: "one", Labels: deployment.Spec.Template.Labels},
				Spec:       deployment.Spec.Template.Spec,
			}
			require.NoError(t, c.Create(t.Context(), pod.DeepCopy()))
			t.Cleanup(func() { _ = c.Delete(t.Context(), pod) })

			pod.Name, pod.Spec.SecurityContext.RunAsNonRoot, pod.Spec.SecurityContext.RunAsUser = "two", nil, new(int64)
			require.ErrorContains(t, c.Create(t.Context(), pod), `violates PodSecurity "restricted:latest"`, "the namespace takes nothing else")
			requireSelected(t, c, deployment)
			requireRights(t, c, deployment.Namespace)
		})
	}
}

// requireSelected: Services and the budget find the pods, and ports have the names and numbers of the container.
func requireSelected(t *testing.T, c client.Client, deployment *appsv1.Deployment) {
	t.Helper()
	pod := deployment.Spec.Template
	require.Equal(t, pod.Labels, deployment.Spec.Selector.MatchLabels)
	ports := map[int32]bool{}
	for _, port := range pod.Spec.Containers[0].Ports {
		ports[port.ContainerPort] = true
	}
	for _, name := range []string{charts.WebhookService, "drover-metrics"} {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: name}}
		testkit.ExpectExists(t, c, service)
		require.Equal(t, pod.Labels, service.Spec.Selector)
		require.True(t, ports[service.Spec.Ports[0].TargetPort.IntVal], "%s leads to a port nobody listens on", name)
	}
}

// A pod that is told to end is called no more while it still answers; one that is not ready is not called yet.
func TestServicesLeadToReadyPods(t *testing.T) {
	c, objs := install(t, settings()["least"])
	deployment := find[appsv1.Deployment](t, objs[len(objs)-1:], charts.Name)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: "called", Labels: deployment.Spec.Template.Labels}, Spec: deployment.Spec.Template.Spec}
	pod.Spec.NodeName = node.Name
	for _, obj := range []client.Object{node, pod} {
		require.NoError(t, c.Create(t.Context(), obj))
		t.Cleanup(func() { _ = c.Delete(context.Background(), obj, client.GracePeriodSeconds(0)) })
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "198.18.0.1", PodIPs: []corev1.PodIP{{IP: "198.18.0.1"}}}
	leadsTo := func(want bool) {
		t.Helper()
		testkit.Eventually(t, time.Minute, func() error {
			slices := &discoveryv1.EndpointSliceList{}
			require.NoError(t, c.List(t.Context(), slices, client.InNamespace(pod.Namespace)))
			found := 0
			for _, slice := range slices.Items {
				for _, endpoint := range slice.Endpoints {
					if endpoint.TargetRef.Name == pod.Name && *endpoint.Conditions.Ready == want && *endpoint.Conditions.Terminating == (pod.DeletionTimestamp != nil) {
						found++
					}
				}
			}
			if found != 2 {
				return fmt.Errorf("%d Services of 2 know", found)
			}
			return nil
		})
	}
	require.NoError(t, c.Status().Update(t.Context(), pod))
	leadsTo(false)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	require.NoError(t, c.Status().Update(t.Context(), pod))
	leadsTo(true)
	require.NoError(t, c.Delete(t.Context(), pod))
	testkit.ExpectExists(t, c, pod)
	leadsTo(false)
}

// requireRights asks the API server itself what the manager's account may do after the installation.
func requireRights(t *testing.T, c client.Client, namespace string) {
	t.Helper()
	for _, tt := range []struct {
		verb, group, resource, namespace, name string
		want                                   bool
	}{
		{"create", "batch", "jobs", "team", "", true},
		{"get", "", "secrets", "team", "", true},
		{"patch", "rke-machine.cattle.io", "anydrivermachines", "team", "", true},
		{"patch", "management.cattle.io", "nodedrivers", "", "", true},
		{"create", "coordination.k8s.io", "leases", namespace, "", true},
		{"update", "coordination.k8s.io", "leases", namespace, charts.Name, true},
		{"update", "coordination.k8s.io", "leases", namespace, "another", false},
		{"delete", "management.cattle.io", "nodedrivers", "", "", false},
		{"delete", "", "namespaces", "", "", false},
		{"create", "", "pods", "team", "", false},
		{"create", "", "pods/exec", "team", "", false},
		{"delete", "", "nodes", "", "", false},
		{"escalate", "rbac.authorization.k8s.io", "clusterroles", "", "", false},
		{"delete", "rbac.authorization.k8s.io", "clusterroles", "", "", false},
		{"create", "rbac.authorization.k8s.io", "clusterrolebindings", "", "", false},
		{"impersonate", "", "users", "", "", false},
		{"create", "", "serviceaccounts/token", "team", "", true}, // for agents
	} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + namespace + ":" + charts.Name,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: tt.verb, Group: tt.group, Resource: tt.resource, Namespace: tt.namespace, Name: tt.name},
		}}
		require.NoError(t, c.Create(t.Context(), review))
		require.Equal(t, tt.want, review.Status.Allowed, "%s %s.%s in %q", tt.verb, tt.resource, tt.group, tt.namespace)
	}
}

// Installing from the printed definitions gives kinds with a status of its own, as controllers need it.
func TestServerHasAStatusAfterAnInstallation(t *testing.T) {
	s := settings()["least"]
	s.WithCRDs = true
	c, _ := install(t, s)
	crds, err := charts.CRDs()
	require.NoError(t, err)
	testkit.ApplyCRDs(t, crds...)
	cluster := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "rke.cattle.io/v1", "kind": "RKECluster",
		"metadata": map[string]any{"namespace": testkit.Namespace(t), "name": "one"}, "status": map[string]any{"ready": true}}}
	require.NoError(t, c.Create(t.Context(), cluster))
	require.NotContains(t, cluster.Object, "status", "a user cannot write it")
	cluster.Object["status"] = map[string]any{"ready": true}
	require.NoError(t, c.Status().Update(t.Context(), cluster))
	testkit.ExpectExists(t, c, cluster)
	require.Equal(t, map[string]any{"ready": true}, cluster.Object["status"])
}

// TestUserRoles: who is view, edit or admin of a namespace, as Kubernetes brings these roles along, is so of our kinds, those of
// drivers that come later included; and sees and does no more.
func TestUserRoles(t *testing.T) {
	c, _ := install(t, settings()["least"])
	ns, other := testkit.Namespace(t), testkit.Namespace(t)
	for _, role := range []string{"view", "edit", "admin"} {
		require.NoError(t, c.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: role},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: role + "-of-" + ns}}}))
	}
	may := func(role, verb, group, resource, namespace string) bool {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: role + "-of-" + ns,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Namespace: namespace}}}
		require.NoError(t, c.Create(t.Context(), review))
		return review.Status.Allowed
	}
	testkit.Eventually(t, time.Minute, func() error {
		// A controller puts them together, one after another, each from several.
		for _, role := range []string{"view", "edit", "admin"} {
			if !may(role, "list", "rke-machine.cattle.io", "acmemachines", ns) || role != "view" && !may(role, "create", "cluster.x-k8s.io", "clusters", ns) {
				return errors.New("the roles are not put together yet")
			}
		}
		if !may("admin", "create", "rke.cattle.io", "serverscans", ns) {
			return errors.New("the role of an admin is not put together yet")
		}
		return nil
	})
	const machines, configs, core = "rke-machine.cattle.io", "rke-machine-config.cattle.io", "cluster.x-k8s.io"
	for _, tt := range []struct {
		verb, group, resource string
		view, edit, admin     bool
	}{
		{"list", machines, "newdrivermachines", true, true, true},
		{"watch", configs, "newdriverconfigs", true, true, true},
		{"get", core, "machinedeployments", true, true, true},
		{"get", "rke.cattle.io", "serverscans", true, true, true},
		{"create", machines, "newdrivermachinetemplates", false, true, true},
		{"patch", machines, "newdrivermachines", false, true, true},
		{"delete", "rke.cattle.io", "rkeclusters", false, true, true},
		{"create", core, "clusters", false, true, true},
		{"patch", core, "machinedeployments/scale", false, true, true},
		{"create", "rke.cattle.io", "serverscans", false, false, true},
		{"get", "", "secrets", false, true, true},
		{"create", "management.cattle.io", "nodedrivers", false, false, false},
		{"create", "runtime.cluster.x-k8s.io", "extensionconfigs", false, false, false},
	} {
		for role, want := range map[string]bool{"view": tt.view, "edit": tt.edit, "admin": tt.admin} {
			require.Equal(t, want, may(role, tt.verb, tt.group, tt.resource, ns), "%s %s %s.%s", role, tt.verb, tt.resource, tt.group)
			require.False(t, may(role, tt.verb, tt.group, tt.resource, other), "%s %s %s.%s elsewhere", role, tt.verb, tt.resource, tt.group)
		}
	}
}
