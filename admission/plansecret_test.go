package admission_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/api/plan"
	"github.com/drover-project/drover/testkit"
)

// planWorld is an API server with the policies, and a machine's plan Secret with its agent's account in it.
type planWorld struct {
	client.WithWatch
	*testing.T
	at    client.ObjectKey
	agent client.Client
}

func newPlanWorld(t *testing.T) *planWorld {
	t.Helper()
	w := &planWorld{T: t, WithWatch: testkit.Client(t, clientgoscheme.Scheme), at: client.ObjectKey{Namespace: testkit.Namespace(t), Name: "m-machine-plan"}}
	enforce(t, w)
	meta := metav1.ObjectMeta{Namespace: w.at.Namespace, Name: w.at.Name, Labels: map[string]string{"a": "b"}}
	account := &corev1.ServiceAccount{ObjectMeta: meta}
	for _, obj := range []client.Object{account, &corev1.Secret{ObjectMeta: meta, Type: plan.SecretType},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{w.at.Name},
			Verbs: []string{"get", "update"}}}},
		&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: w.at.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.at.Namespace, Name: w.at.Name}}}} {
		require.NoError(t, w.Create(t.Context(), obj))
	}
	w.agent = withTokenOf(t, w, account)
	awaitRefusal(t, func() error {
		return w.update(w.agent, func(s *corev1.Secret) { s.Labels["a"] = "c" }, client.DryRunAll)
	})
	return w
}

// update writes the Secret as somebody.
func (w *planWorld) update(by client.Client, change func(*corev1.Secret), opts ...client.UpdateOption) error {
	w.Helper()
	secret := testkit.ExpectExists(w.T, w.WithWatch, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.at.Namespace, Name: w.at.Name}})
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	change(secret)
	return by.Update(w.Context(), secret, opts...)
}

// The policy and the table of api/plan say the same of every key, whether it is set, changed or deleted.
func TestPlanPolicy_keys(t *testing.T) {
	w := newPlanWorld(t)
	full := map[string][]byte{"unknown": []byte("1")}
	for _, writer := range []plan.Writer{plan.Planner, plan.Agent, plan.Endpoint, plan.Bootstrap} {
		for _, key := range plan.KeysOf(writer) {
			full[key] = []byte("1")
		}
	}
	delete(full, plan.KeyState)
	delete(full, plan.KeyRevision) // the table knows more of it: it does not go back
	for key := range full {
		for _, before := range []map[string][]byte{full, without(full, key)} {
			require.NoError(t, w.update(w.WithWatch, func(s *corev1.Secret) { s.Data = before }))
			for _, after := range []map[string][]byte{without(full, key), with(full, key, "2")} {
				err := w.update(w.agent, func(s *corev1.Secret) { s.Data = after }, client.DryRunAll)
				w.expect(plan.MayWrite(plan.Agent, before, after), err, "%s: %q to %q", key, before[key], after[key])
			}
		}
	}
}

// So it is with every change of a plan's state.
func TestPlanPolicy_states(t *testing.T) {
	w := newPlanWorld(t)
	for _, from := range plan.States() {
		before := map[string][]byte{plan.KeyState: []byte(from)}
		require.NoError(t, w.update(w.WithWatch, func(s *corev1.Secret) { s.Data = before }))
		for _, to := range append(plan.States(), "another") {
			after := map[string][]byte{plan.KeyState: []byte(to)}
			w.expect(plan.MayWrite(plan.Agent, before, after), w.update(w.agent, func(s *corev1.Secret) { s.Data = after }, client.DryRunAll), "%q to %q", from, to)
		}
	}
}

func (w *planWorld) expect(want, got error, format string, args ...any) {
	w.Helper()
	if want == nil {
		require.NoError(w, got, append([]any{format}, args...)...)
		return
	}
	require.True(w, apierrors.IsInvalid(got) || apierrors.IsForbidden(got), append([]any{format}, args...)...)
}

func with(data map[string][]byte, key, value string) map[string][]byte {
	data = maps.Clone(data)
	data[key] = []byte(value)
	return data
}

func without(data map[string][]byte, key string) map[string][]byte {
	data = maps.Clone(data)
	delete(data, key)
	return data
}

// Whose the Secret is, an agent does not say; others are not held by what it may not.
func TestPlanPolicy_metadata(t *testing.T) {
	w := newPlanWorld(t)
	for what, change := range map[string]func(*corev1.Secret){
		"a label": func(s *corev1.Secret) { s.Labels["a"] = "c" },
		"an annotation": func(s *corev1.Secret) {
			s.Annotations = map[string]string{"rke.cattle.io/join-url": "https://198.18.0.9:6443"}
		},
		"a finalizer": func(s *corev1.Secret) { s.Finalizers = []string{"example.org/for-ever"} },
		"an owner": func(s *corev1.Secret) {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "y"}}
		},
		"never a change": func(s *corev1.Secret) { s.Immutable = new(true) },
		"a key as text":  func(s *corev1.Secret) { s.StringData = map[string]string{plan.KeyPlan: "{}"} },
	} {
		err := w.update(w.agent, change, client.DryRunAll)
		require.True(t, apierrors.IsInvalid(err) || apierrors.IsForbidden(err), what)
		require.NoError(t, w.update(w.WithWatch, change, client.DryRunAll), what)
	}
}
