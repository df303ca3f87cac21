package access_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-project/drover/testkit"
	"github.com/drover-project/drover/testkit/access"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func grant(verb, group, resource, name string) access.Grant {
	return access.Grant{Verb: verb, Group: group, Resource: resource, Name: name}
}

func TestGrants(t *testing.T) {
	require.Equal(t, []access.Grant{
		grant("get", "", "pods", ""), grant("list", "", "pods", ""),
		grant("get", "apps", "deployments/scale", "one"), grant("get", "apps", "deployments/scale", "two"),
	}, access.Grants([]rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments/scale"}, Verbs: []string{"get"}, ResourceNames: []string{"one", "two"}},
		{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}},
	}))
	require.Equal(t, "get deployments/scale.apps one", grant("get", "apps", "deployments/scale", "one").String())
	require.Equal(t, "list pods", grant("list", "", "pods", "").String())
}

func TestGrant_Covers(t *testing.T) {
	use := grant("patch", "apps", "deployments/status", "one")
	for name, c := range map[string]struct {
		granted access.Grant
		want    bool
	}{
		"the same":                             {use, true},
		"any name":                             {grant("patch", "apps", "deployments/status", ""), true},
		"another name":                         {grant("patch", "apps", "deployments/status", "two"), false},
		"any verb":                             {grant("*", "apps", "deployments/status", ""), true},
		"another verb":                         {grant("update", "apps", "deployments/status", ""), false},
		"any group":                            {grant("patch", "*", "deployments/status", ""), true},
		"another group":                        {grant("patch", "", "deployments/status", ""), false},
		"any resource":                         {grant("patch", "apps", "*", ""), true},
		"the subresource of any":               {grant("patch", "apps", "*/status", ""), true},
		"another subresource of any":           {grant("patch", "apps", "*/scale", ""), false},
		"the resource without its subresource": {grant("patch", "apps", "deployments", ""), false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.granted.Covers(use)) })
	}
}

func TestCompare(t *testing.T) {
	granted := []access.Grant{grant("get", "", "secrets", "mine"), grant("list", "", "pods", ""), grant("watch", "", "pods", "")}
	used := []access.Grant{grant("get", "", "secrets", "mine"), grant("get", "", "secrets", "other"), grant("list", "", "pods", ""), grant("list", "", "pods", "x")}
	require.Equal(t, access.Difference{Missing: []string{"get secrets other"}, Unused: []string{"watch pods"}}, access.Compare(granted, used))
	require.Equal(t, access.Difference{}, access.Compare(nil, nil))
}

func TestMarkers(t *testing.T) {
	dir := t.TempDir()
	source := "package x\n\n// Some words.\n// +kubebuilder:rbac:groups=\"\";apps,resources=pods;deployments/status,verbs=get;list\n" +
		"func x() {\n\t// +kubebuilder:rbac:groups=a.b,resources=*,resourceNames=one;two,verbs=patch\n}\n\n// +kubebuilder:object:root=true\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.go"), []byte(source), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.txt"), []byte(source), 0o600))
	require.Equal(t, []rbacv1.PolicyRule{
		{APIGroups: []string{"", "apps"}, Resources: []string{"pods", "deployments/status"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{"a.b"}, Resources: []string{"*"}, ResourceNames: []string{"one", "two"}, Verbs: []string{"patch"}},
	}, access.Markers(t, dir))
	require.Empty(t, access.Markers(t, t.TempDir()))
}

// user is a service account with a Role, as the recorder's clients are.
func user(t *testing.T, namespace string, rules ...rbacv1.PolicyRule) (token string) {
	t.Helper()
	admin, err := kubernetes.NewForConfig(testkit.Config(t))
	require.NoError(t, err)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "user"}
	_, err = admin.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "user"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "user"}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	answer, err := admin.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "user", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return answer.Status.Token
}

func TestRecorder(t *testing.T) {
	namespace := testkit.Namespace(t)
	recorder := access.NewRecorder(t, testkit.Config(t))
	token := user(t, namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps", "roles"}, Verbs: []string{"get", "create", "patch"}},
		rbacv1.PolicyRule{APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"roles"}, Verbs: []string{"create"}})
	config, err := clientcmd.BuildConfigFromFlags("", recorder.Kubeconfig(t, token))
	require.NoError(t, err)
	clients, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	maps := clients.CoreV1().ConfigMaps(namespace)

	_, err = maps.Get(t.Context(), "none", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	apply := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"}}`)
	for range 2 {
		_, err = maps.Patch(t.Context(), "one", types.ApplyPatchType, apply, metav1.PatchOptions{FieldManager: "test"})
		require.NoError(t, err)
	}
	_, err = maps.List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	more := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "more"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}}
	_, err = clients.RbacV1().Roles(namespace).Create(t.Context(), more, metav1.CreateOptions{})
	require.True(t, apierrors.IsForbidden(err), "nobody gives what he does not have: %v", err)

	require.ElementsMatch(t, []access.Grant{
		grant("get", "", "configmaps", "none"), grant("patch", "", "configmaps", "one"),
		grant("create", "", "configmaps", "one"), // by the apply that made it
		grant("list", "", "configmaps", ""), grant("create", "rbac.authorization.k8s.io", "roles", ""),
	}, recorder.Uses())
	require.ElementsMatch(t, []access.Grant{grant("list", "", "configmaps", ""), grant("create", "rbac.authorization.k8s.io", "roles", "")}, recorder.Refused())
}

// TestRecorder_watch: answers are passed on as they come, and refusals by admission are none of RBAC's.
func TestRecorder_watch(t *testing.T) {
	namespace := testkit.Namespace(t)
	recorder := access.NewRecorder(t, testkit.Config(t))
	token := user(t, namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}})
	clients, err := kubernetes.NewForConfig(recorder.Config(token))
	require.NoError(t, err)
	maps := clients.CoreV1().ConfigMaps(namespace)
	watch, err := maps.Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer watch.Stop()
	_, err = maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, "one", (<-watch.ResultChan()).Object.(*corev1.ConfigMap).Name)

	admin, err := kubernetes.NewForConfig(testkit.Config(t))
	require.NoError(t, err)
	require.NoError(t, admin.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}))
	_, err = maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{})
	require.True(t, apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), "%v", err)
	require.Empty(t, recorder.Refused())
}
