package apply_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func newApplier(t *testing.T) (apply.Applier, client.WithWatch) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	c := testkit.Client(t, scheme)
	return apply.Applier{Client: c, Reader: c, Owner: "tester"}, c
}

func TestApply(t *testing.T) {
	applier, c := newApplier(t)
	ns := testkit.Namespace(t)
	desired := func() *rbacv1.Role {
		return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "one", Labels: map[string]string{"a": "b"}},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}}}
	}
	expect := func(obj client.Object, wrote bool) {
		t.Helper()
		got, err := applier.Apply(t.Context(), obj)
		require.NoError(t, err)
		require.Equal(t, wrote, got)
	}
	expect(desired(), true)
	expect(desired(), false)

	live := testkit.ExpectExists(t, c, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "one"}})
	live.Labels["theirs"] = "x"
	require.NoError(t, c.Update(t.Context(), live))
	expect(desired(), false)
	live.Rules[0].Verbs = []string{"*"}
	require.NoError(t, c.Update(t.Context(), live))
	expect(desired(), true)

	less := desired()
	less.Labels = nil
	expect(less, true)
	testkit.ExpectExists(t, c, live)
	require.Equal(t, map[string]string{"theirs": "x"}, live.Labels, "what is desired no more goes, what is others' stays")
	require.Equal(t, []string{"get"}, live.Rules[0].Verbs)
}

func TestWrite_makesItSoWithoutLooking(t *testing.T) {
	applier, c := newApplier(t)
	ns := testkit.Namespace(t)
	applier.Reader = nil
	desired := func(value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "one"}, Data: map[string]string{"k": value}}
	}
	require.NoError(t, applier.Write(t.Context(), desired("first")))
	require.NoError(t, applier.Write(t.Context(), desired("second")))
	live := testkit.ExpectExists(t, c, desired(""))
	require.Equal(t, "second", live.Data["k"])
	require.NoError(t, applier.Write(t.Context(), desired("second")))
	require.Equal(t, live.ResourceVersion, testkit.ExpectExists(t, c, desired("")).ResourceVersion, "what is so already is not written")
}

func TestWrite_ofSeveral(t *testing.T) {
	applier, c := newApplier(t)
	ns := testkit.Namespace(t)
	desired := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string]string{"k": "v"}}
	}
	require.NoError(t, applier.Write(t.Context()))
	require.NoError(t, applier.Write(t.Context(), desired("one"), desired("two")))
	err := applier.Write(t.Context(), desired("A"), desired("three"), desired("B"))
	require.ErrorContains(t, err, "applying ConfigMap A: ")
	require.NotContains(t, err.Error(), "ConfigMap B", "one error is enough to read")
	for _, name := range []string{"one", "two", "three"} {
		require.Equal(t, "v", testkit.ExpectExists(t, c, desired(name)).Data["k"], "an error stops none of the others")
	}
}

// The API server rejects new data for an immutable Secret: Add replaces the Secret, unless it
// belongs to another owner.
func TestAdd_replacesAnImmutableSecret(t *testing.T) {
	applier, c := newApplier(t)
	ns := testkit.Namespace(t)
	desired := func(value string, immutable *bool) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "one"}, Immutable: immutable, Data: map[string][]byte{"k": []byte(value)}}
	}
	require.NoError(t, applier.Add(t.Context(), desired("of an earlier manager", nil)))
	first := testkit.ExpectExists(t, c, desired("", nil))
	require.NoError(t, applier.Add(t.Context(), desired("first", new(true))))
	live := testkit.ExpectExists(t, c, desired("", nil))
	require.Equal(t, first.UID, live.UID, "a mutable Secret is changed")
	require.Equal(t, "first", string(live.Data["k"]))

	require.NoError(t, applier.Add(t.Context(), desired("first", new(true))))
	require.Equal(t, live.ResourceVersion, testkit.ExpectExists(t, c, desired("", nil)).ResourceVersion, "the same content needs no write")

	refused := applier
	refused.Check = func(context.Context, client.Object) error { return context.Canceled }
	require.ErrorIs(t, refused.Add(t.Context(), desired("second", new(true))), context.Canceled)
	require.Equal(t, live.ResourceVersion, testkit.ExpectExists(t, c, desired("", nil)).ResourceVersion)

	second := desired("second", new(true))
	require.NoError(t, applier.Add(t.Context(), second))
	replaced := testkit.ExpectExists(t, c, desired("", nil))
	require.NotEqual(t, live.UID, replaced.UID)
	require.Equal(t, "second", string(replaced.Data["k"]))
	require.True(t, *replaced.Immutable)
}

func TestCreate_leavesWhatIsThere(t *testing.T) {
	applier, c := newApplier(t)
	ns := testkit.Namespace(t)
	mine := func(value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "one"}, Data: map[string]string{"k": value}}
	}
	wrote, err := applier.Create(t.Context(), mine("first"))
	require.NoError(t, err)
	require.True(t, wrote)
	wrote, err = applier.Create(t.Context(), mine("second"))
	require.NoError(t, err)
	require.False(t, wrote)
	require.Equal(t, "first", testkit.ExpectExists(t, c, mine("")).Data["k"])
}

func TestAwaitEstablished(t *testing.T) {
	applier, c := newApplier(t)
	config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: "waited"})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- apply.AwaitEstablished(t.Context(), c, config.Name, template.Name, machine.Name) }()
	wrote, err := applier.All(t.Context(), config, template, machine)
	require.NoError(t, err)
	require.Equal(t, 3, wrote)
	require.NoError(t, <-done)

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, apply.AwaitEstablished(ctx, c, "nothings.example.org"), context.DeadlineExceeded)
}
