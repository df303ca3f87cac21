package machine

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

func machineNamed(name string) rkev1.DriverMachine {
	obj := rkev1.DriverMachine{Unstructured: &unstructured.Unstructured{Object: map[string]any{}}}
	obj.SetName(name)
	return obj
}

func requestFor(name string) Request {
	return Request{Kind: rkev1.MachineGroupVersion.WithKind("AcmeMachine"), NamespacedName: types.NamespacedName{Namespace: "a", Name: name}}
}

func TestInterests(t *testing.T) {
	i := &watchIndex{}
	key := types.NamespacedName{Namespace: "a", Name: "cloud"}
	one, two := requestFor("one"), requestFor("two")
	i.note(one, watchKey{kind: "Secret", name: key})
	i.note(one, watchKey{kind: "Secret", name: key})
	i.note(two, watchKey{kind: "Secret", name: key})
	i.note(two, watchKey{kind: "NodeDriver", name: types.NamespacedName{Name: "acme"}})
	require.ElementsMatch(t, []Request{one, two}, i.in(watchKey{kind: "Secret", name: key}), "each is woken once")
	require.Empty(t, i.in(watchKey{kind: "Job", name: key}), "a Job of the same name is another object")

	i.forget(two)
	i.forget(requestFor("unknown"))
	require.Equal(t, []Request{one}, i.in(watchKey{kind: "Secret", name: key}))
	require.Empty(t, i.in(watchKey{kind: "NodeDriver", name: types.NamespacedName{Name: "acme"}}))
	i.forget(one)
	require.Empty(t, i.byKey, "machines that are gone leave nothing behind")
	require.Empty(t, i.byRequest)
}

func TestAbandonedMustNameTheMachine(t *testing.T) {
	require.False(t, machineNamed("m1").Abandoned())
	for _, annotation := range []string{rkev1.AbandonAnnotation, rkev1.ForceRemoveAnnotation} {
		for value, want := range map[string]bool{"": false, "true": false, "m2": false, "m1": true} {
			obj := machineNamed("m1")
			obj.SetAnnotations(map[string]string{annotation: value})
			require.Equal(t, want, obj.Abandoned(), "%s=%s", annotation, value)
		}
	}
}

func TestOwnerIsOfClusterAPI(t *testing.T) {
	ref := func(version, kind string) rkev1.DriverMachine {
		obj := machineNamed("m1")
		obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x"}, {APIVersion: version, Kind: kind, Name: "owner", UID: "u"}})
		return obj
	}
	for _, version := range []string{"cluster.x-k8s.io/v1beta2", "cluster.x-k8s.io/v1beta1"} {
		name, uid, ok := ref(version, "Machine").Owner()
		require.True(t, ok, version)
		require.Equal(t, "owner", name)
		require.EqualValues(t, "u", uid)
	}
	for _, other := range [][2]string{{"cluster.x-k8s.io/v1beta2", "MachineSet"}, {"machine.openshift.io/v1beta1", "Machine"}, {"a/b/c", "Machine"}} {
		_, _, ok := ref(other[0], other[1]).Owner()
		require.False(t, ok, other)
	}
}

func TestObjectReadsWhatIsThere(t *testing.T) {
	obj := machineNamed("m1")
	require.Empty(t, obj.ProviderID())
	require.Empty(t, obj.CredentialName())
	require.Empty(t, obj.Spec())
	status, err := obj.Status()
	require.NoError(t, err)
	require.Zero(t, status)

	require.NoError(t, obj.SetProviderID("acme://1"))
	require.NoError(t, unstructured.SetNestedField(obj.Object, "ns:cloud", "spec", "common", "cloudCredentialSecretName"))
	require.Equal(t, "acme://1", obj.ProviderID())
	require.Equal(t, "ns:cloud", obj.CredentialName())
	want := rkev1.RKEMachineStatus{Phase: "Running", ObservedGeneration: 3, Attempts: 2}
	require.NoError(t, obj.SetStatus(want))
	status, err = rkev1.DriverMachine{Unstructured: obj.DeepCopy()}.Status()
	require.NoError(t, err)
	require.Equal(t, want, status)
	obj.Object["status"] = map[string]any{"attempts": "many"}
	_, err = obj.Status()
	require.ErrorContains(t, err, "reading the status")
}

// Another attempt is made at once when the hash changes, and only then.
func TestRequestHash(t *testing.T) {
	base := func() (*Reconciler, *scope) {
		obj := machineNamed("m1")
		obj.SetGeneration(1)
		s := &scope{DriverMachine: obj, credential: state.Credential{Version: "uid/1"}}
		s.driver.ref = state.DriverRef{Name: "acme", Builtin: true}
		return &Reconciler{Options: Options{Settings: jobrunner.Settings{Image: "i:1"}}}, s
	}
	hash := func(operation state.Operation, change func(*Reconciler, *scope)) string {
		r, s := base()
		change(r, s)
		r.settings = hashOf(r.Settings)
		return r.requestHash(s, operation)
	}
	nothing := func(*Reconciler, *scope) {}
	generation := func(_ *Reconciler, s *scope) { s.SetGeneration(2) }
	bootstrap := func(_ *Reconciler, s *scope) {
		s.bootstrap = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "2"}}
	}
	abandon := func(_ *Reconciler, s *scope) { s.SetAnnotations(map[string]string{rkev1.AbandonAnnotation: "m1"}) }
	create, remove := hash(state.Create, nothing), hash(state.Remove, nothing)
	require.Equal(t, create, hash(state.Create, nothing))
	require.NotEqual(t, create, remove)
	for name, change := range map[string]func(*Reconciler, *scope){
		"image":      func(r *Reconciler, _ *scope) { r.Settings.Image = "i:2" },
		"proxy":      func(r *Reconciler, _ *scope) { r.Settings.Proxy.HTTPS = "http://p" },
		"CA":         func(r *Reconciler, _ *scope) { r.Settings.CABundle = []byte("c") },
		"credential": func(_ *Reconciler, s *scope) { s.credential.Version = "uid/2" },
		"driver":     func(_ *Reconciler, s *scope) { s.driver.ref.Checksum = "c" },
		"retry":      func(_ *Reconciler, s *scope) { s.SetAnnotations(map[string]string{rkev1.RetryAnnotation: "now"}) },
	} {
		require.NotEqual(t, create, hash(state.Create, change), name)
		require.NotEqual(t, remove, hash(state.Remove, change), name)
	}
	data := func(version, text, token string) func(*Reconciler, *scope) {
		return func(_ *Reconciler, s *scope) {
			s.bootstrap = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}, Data: map[string][]byte{"value": []byte(text)}}
			if token != "" {
				s.credential.Env = map[string]string{"TOKEN": token}
			}
		}
	}
	with := hash(state.Create, data("1", "a", "t"))
	require.Equal(t, with, hash(state.Create, data("2", "a", "t")), "the Secret was only touched")
	require.NotEqual(t, with, hash(state.Create, data("1", "b", "t")))
	require.NotEqual(t, with, hash(state.Create, data("1", "a", "u")), "who does not know the credential learns nothing of the data")
	require.NotEqual(t, hash(state.Create, data("1", "a", "")), hash(state.Create, data("2", "a", "")))
	require.Equal(t, remove, hash(state.Remove, data("1", "a", "")))
	require.NotEqual(t, create, hash(state.Create, generation))
	require.NotEqual(t, create, hash(state.Create, bootstrap))
	require.Equal(t, remove, hash(state.Remove, generation), "the record has what a remove needs")
	require.NotEqual(t, remove, hash(state.Remove, abandon))
	require.Equal(t, create, hash(state.Create, abandon))
}
