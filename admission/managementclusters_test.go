package admission_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/testkit"
)

// TestManagementClusters: a management Cluster gives no rights to its provisioning Cluster.
func TestManagementClusters(t *testing.T) {
	crds, err := charts.CRDs()
	require.NoError(t, err)
	testkit.ApplyCRDs(t, crds...)
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v3.AddToScheme(scheme))
	c := testkit.Client(t, scheme)
	enforce(t, c)
	namespace := testkit.Namespace(t)

	// A user with these rights in the whole management cluster, and others in the namespace.
	user := func(name string, wide []rbacv1.PolicyRule, here ...rbacv1.PolicyRule) client.Client {
		t.Helper()
		name += "-" + namespace
		meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
		subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}
		for _, obj := range []client.Object{
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: wide},
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}},
			&rbacv1.Role{ObjectMeta: meta, Rules: here},
			&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}},
		} {
			require.NoError(t, c.Create(t.Context(), obj))
			t.Cleanup(func() { _ = c.Delete(context.Background(), obj) })
		}
		config := rest.CopyConfig(testkit.Config(t))
		config.Impersonate = rest.ImpersonationConfig{UserName: name}
		as, err := client.New(config, client.Options{Scheme: scheme})
		require.NoError(t, err)
		return as
	}
	everything := []rbacv1.PolicyRule{{APIGroups: []string{v3.GroupVersion.Group}, Resources: []string{"clusters"}, Verbs: []string{"*"}}}
	editor := user("editor", everything)
	owner := user("owner", everything, rbacv1.PolicyRule{APIGroups: []string{"provisioning.cattle.io"}, Resources: []string{"clusters"}, ResourceNames: []string{"one"}, Verbs: []string{"delete"}})
	manager := user("manager", append(everything, rbacv1.PolicyRule{APIGroups: []string{v3.GroupVersion.Group}, Resources: []string{"clusters/status"}, Verbs: []string{"patch"}}))
	tenant := user("tenant", nil, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})

	of := func(name, provisioning string) *v3.Cluster {
		return &v3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + namespace}, Spec: v3.ClusterSpec{
			ProvisioningCluster: v3.ProvisioningClusterReference{Namespace: namespace, Name: provisioning, UID: "1"}}}
	}
	awaitRefusal(t, func() error { return editor.Create(t.Context(), of("one", "one"), client.DryRunAll) })
	require.ErrorContains(t, editor.Create(t.Context(), of("one", "one")), "Drover creates management Clusters: create a Cluster of provisioning.cattle.io instead")
	one, two := of("one", "one"), of("two", "two")
	require.NoError(t, manager.Create(t.Context(), one))
	require.NoError(t, manager.Create(t.Context(), two))

	one.Spec.Description, one.Spec.DisplayName = "edited", "edited"
	require.NoError(t, editor.Update(t.Context(), one))
	stolen := one.DeepCopy()
	stolen.Spec.ProvisioningCluster.UID = "2"
	require.ErrorContains(t, editor.Update(t.Context(), stolen), "only Drover changes spec.provisioningCluster of a management Cluster")
	require.NoError(t, manager.Update(t.Context(), stolen))
	for _, change := range []func(*v3.ProvisioningClusterReference){
		func(r *v3.ProvisioningClusterReference) { r.Name = "two" },
		func(r *v3.ProvisioningClusterReference) { r.Namespace = "two" },
	} {
		moved := stolen.DeepCopy()
		change(&moved.Spec.ProvisioningCluster)
		require.ErrorContains(t, c.Update(t.Context(), moved), "a management Cluster keeps its provisioning Cluster")
	}

	const says = "the deletion of a management Cluster deletes its provisioning Cluster, and you may not delete clusters.provisioning.cattle.io one in namespace "
	require.ErrorContains(t, editor.Delete(t.Context(), one), says+namespace)
	require.ErrorContains(t, editor.DeleteAllOf(t.Context(), &v3.Cluster{}), "in namespace "+namespace)
	require.ErrorContains(t, owner.Delete(t.Context(), two), "you may not delete clusters.provisioning.cattle.io two")
	require.NoError(t, owner.Delete(t.Context(), one))
	require.NoError(t, c.Delete(t.Context(), two))

	// The admin of a namespace has no rights.
	for _, err := range []error{tenant.Create(t.Context(), of("tenant", "one")), tenant.Delete(t.Context(), two), tenant.List(t.Context(), &v3.ClusterList{})} {
		require.ErrorContains(t, err, "is forbidden")
	}
	require.NoError(t, tenant.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(namespace)))
}
