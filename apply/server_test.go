package apply_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/testkit"
)

func configMap(namespace string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one"}, Data: data}
}

// counted is a client that counts its writes.
func counted(c client.WithWatch, writes *atomic.Int32) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			writes.Add(1)
			return c.Apply(ctx, obj, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			writes.Add(1)
			return c.Create(ctx, obj, opts...)
		},
	})
}

// A restart writes nothing: all that an installation consists of, of many kinds that the server fills with defaults.
func TestAll_ofAnInstallation(t *testing.T) {
	applier, c := newApplier(t)
	var writes atomic.Int32
	applier.Client = counted(c, &writes)
	objs, err := charts.Objects(charts.Settings{Namespace: "applied", Image: "i", Replicas: 2, ImagePullSecrets: []string{"s"}, Jobs: charts.JobSettings{CABundle: "PEM"}, WithCRDs: true,
		NodeSelector: map[string]string{"a": "b"}, Tolerations: []string{"k"}})
	require.NoError(t, err)
	wrote, err := applier.All(t.Context(), objs...)
	require.NoError(t, err)
	require.Equal(t, len(objs), wrote)
	require.EqualValues(t, len(objs), writes.Load())
	again, err := charts.Objects(charts.Settings{Namespace: "applied", Image: "i", Replicas: 2, ImagePullSecrets: []string{"s"}, Jobs: charts.JobSettings{CABundle: "PEM"}, WithCRDs: true,
		NodeSelector: map[string]string{"a": "b"}, Tolerations: []string{"k"}})
	require.NoError(t, err)
	for range 2 {
		wrote, err = applier.All(t.Context(), again...)
		require.NoError(t, err)
		require.Zero(t, wrote)
	}
	require.EqualValues(t, len(objs), writes.Load())
}

// What somebody else did to our objects, and whether it is undone.
func TestApply_afterOthersTouchedIt(t *testing.T) {
	applier, c := newApplier(t)
	for name, tt := range map[string]struct {
		touch func(*corev1.ConfigMap)
		wrote bool
		want  map[string]string
	}{
		"changed ours":       {func(m *corev1.ConfigMap) { m.Data["ours"] = "x" }, true, map[string]string{"ours": "1"}},
		"took ours away":     {func(m *corev1.ConfigMap) { delete(m.Data, "ours") }, true, map[string]string{"ours": "1"}},
		"added theirs":       {func(m *corev1.ConfigMap) { m.Data["theirs"] = "x" }, false, map[string]string{"ours": "1", "theirs": "x"}},
		"did both":           {func(m *corev1.ConfigMap) { m.Data["theirs"], m.Data["ours"] = "x", "x" }, true, map[string]string{"ours": "1", "theirs": "x"}},
		"took the mark away": {func(m *corev1.ConfigMap) { delete(m.Annotations, apply.HashAnnotation) }, true, map[string]string{"ours": "1"}},
		"labelled it":        {func(m *corev1.ConfigMap) { m.Labels = map[string]string{"a": "b"} }, false, map[string]string{"ours": "1"}},
		"set a finalizer":    {func(m *corev1.ConfigMap) { m.Finalizers = []string{"example.com/x"} }, false, map[string]string{"ours": "1"}},
		"only looked at it":  {func(*corev1.ConfigMap) {}, false, map[string]string{"ours": "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			ns := testkit.Namespace(t)
			_, err := applier.Apply(t.Context(), configMap(ns, map[string]string{"ours": "1"}))
			require.NoError(t, err)
			live := testkit.ExpectExists(t, c, configMap(ns, nil))
			tt.touch(live)
			require.NoError(t, c.Update(t.Context(), live))
			wrote, err := applier.Apply(t.Context(), configMap(ns, map[string]string{"ours": "1"}))
			require.NoError(t, err)
			require.Equal(t, tt.wrote, wrote)
			live = testkit.ExpectExists(t, c, configMap(ns, nil))
			require.Equal(t, tt.want, live.Data)
			require.NotEmpty(t, live.Annotations[apply.HashAnnotation])
			live.Finalizers = nil
			require.NoError(t, c.Update(t.Context(), live))
		})
	}
}

// Versions of the desired object follow each other, as with updates of Drover: each leaves exactly what it says.
func TestApply_versionsOfOneObject(t *testing.T) {
	applier, c := newApplier(t)
	ns := testkit.Namespace(t)
	for i, data := range []map[string]string{{"a": "1"}, {"a": "1", "b": "2"}, {"b": "2"}, nil, {"c": ""}, {}, nil} {
		wrote, err := applier.Apply(t.Context(), configMap(ns, data))
		require.NoError(t, err)
		require.Equal(t, i < 6, wrote, "version %d: only the last is the one before, in other words", i)
		if i < 6 {
			live := testkit.ExpectExists(t, c, configMap(ns, nil))
			require.Len(t, live.Data, len(data))
			for key, value := range data {
				require.Equal(t, value, live.Data[key])
			}
		}
	}
}

// The caller's object stays as it is, and its status is never sent.
func TestApply_changesNoInput(t *testing.T) {
	applier, c := newApplier(t)
	ns := testkit.Namespace(t)
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "one", Annotations: map[string]string{"x": "y"}},
		Spec:   appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, Template: pod},
		Status: appsv1.DeploymentStatus{Replicas: 7}}
	before := deployment.DeepCopy()
	wrote, err := applier.Apply(t.Context(), deployment)
	require.NoError(t, err)
	require.True(t, wrote)
	require.Equal(t, before, deployment)
	require.Zero(t, testkit.ExpectExists(t, c, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "one"}}).Status.Replicas)
	require.NoError(t, c.Delete(t.Context(), deployment.DeepCopy()))
	wrote, err = applier.Apply(t.Context(), deployment)
	require.NoError(t, err)
	require.True(t, wrote, "what was deleted comes back")
}

// What is new is created at once; of what is there Check says whether it may be written over.
func TestAdd(t *testing.T) {
	applier, c := newApplier(t)
	refused := errors.New("somebody else's")
	asked := 0
	applier.Check = func(_ context.Context, live client.Object) error {
		asked++
		if live.GetLabels()["ours"] == "" {
			return refused
		}
		return nil
	}
	ns := testkit.Namespace(t)
	require.NoError(t, applier.Add(t.Context(), configMap(ns, map[string]string{"a": "1"})))
	require.NoError(t, applier.Add(t.Context(), configMap(ns, map[string]string{"a": "1"})), "it is so already")
	require.Zero(t, asked)
	for _, add := range []func(client.Object) error{
		func(obj client.Object) error { return applier.Add(t.Context(), obj) },
		func(obj client.Object) error { _, err := applier.Apply(t.Context(), obj); return err },
	} {
		require.ErrorIs(t, add(configMap(ns, map[string]string{"a": "2"})), refused)
	}
	live := testkit.ExpectExists(t, c, configMap(ns, nil))
	require.Equal(t, map[string]string{"a": "1"}, live.Data)

	live.Labels = map[string]string{"ours": "yes"}
	require.NoError(t, c.Update(t.Context(), live))
	require.NoError(t, applier.Add(t.Context(), configMap(ns, map[string]string{"a": "2"})))
	require.Equal(t, map[string]string{"a": "2"}, testkit.ExpectExists(t, c, configMap(ns, nil)).Data)
}

// A used up quota rejects the creation of an object that exists, too: the error names the object that is missing.
func TestAdd_quota(t *testing.T) {
	applier, c := newApplier(t)
	ns := testkit.Namespace(t)
	hard := corev1.ResourceList{corev1.ResourceSecrets: resource.MustParse("1")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
	require.NoError(t, c.Create(t.Context(), quota))
	quota.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: corev1.ResourceList{corev1.ResourceSecrets: resource.MustParse("0")}}
	require.NoError(t, c.Status().Update(t.Context(), quota)) // as the quota controller does
	secret := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string][]byte{"k": []byte("v")}}
	}
	require.Eventually(t, func() bool { return applier.Add(t.Context(), secret("first")) == nil }, 10*time.Second, 50*time.Millisecond, "the API server reads the quota")
	require.NoError(t, applier.Add(t.Context(), secret("first")))
	err := applier.Add(t.Context(), secret("first"), secret("second"))
	require.ErrorContains(t, err, `creating Secret second: secrets "second" is forbidden: exceeded quota`)
	require.True(t, apierrors.IsForbidden(err))
}

// Replicas of the manager start at the same time.
func TestApply_byManyAtOnce(t *testing.T) {
	applier, c := newApplier(t)
	ns := testkit.Namespace(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := applier.Apply(t.Context(), configMap(ns, map[string]string{"a": "1"})); err != nil {
				t.Error(err)
			}
			other := configMap(ns, map[string]string{"a": "1"})
			other.Name = "created"
			if _, err := applier.Create(t.Context(), other); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Equal(t, map[string]string{"a": "1"}, testkit.ExpectExists(t, c, configMap(ns, nil)).Data)
	wrote, err := applier.Apply(t.Context(), configMap(ns, map[string]string{"a": "1"}))
	require.NoError(t, err)
	require.False(t, wrote)
}

// Each error names the object and keeps what the server said.
func TestErrorsNameTheObject(t *testing.T) {
	applier, c := newApplier(t)
	ns := testkit.Namespace(t)
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "one", errors.New("RBAC"))
	failing := interceptor.NewClient(c, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return forbidden
		},
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return forbidden
		},
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return forbidden },
	})
	bad := configMap(ns, map[string]string{"no/key": "x"})
	unknown := &unknownKind{}
	const said = `configmaps "one" is forbidden: RBAC`
	for name, tt := range map[string]struct {
		do  func() error
		err string
	}{
		"apply, reading":  {func() error { _, err := apply.Applier{Client: c, Reader: failing}.Apply(t.Context(), bad); return err }, "reading ConfigMap one: " + said},
		"apply, writing":  {func() error { _, err := apply.Applier{Client: failing, Reader: c}.Apply(t.Context(), bad); return err }, "applying ConfigMap one: " + said},
		"create, reading": {func() error { _, err := apply.Applier{Client: c, Reader: failing}.Create(t.Context(), bad); return err }, "reading ConfigMap one: " + said},
		"create, writing": {func() error { _, err := apply.Applier{Client: failing, Reader: c}.Create(t.Context(), bad); return err }, "creating ConfigMap one: " + said},
		"apply, unknown":  {func() error { _, err := applier.Apply(t.Context(), unknown); return err }, "finding the kind of *apply_test.unknownKind: "},
		"create, unknown": {func() error { _, err := applier.Create(t.Context(), unknown); return err }, "finding the kind of *apply_test.unknownKind: "},
		"refused":         {func() error { _, err := applier.Apply(t.Context(), bad); return err }, `applying ConfigMap one: ConfigMap "one" is invalid: data[no/key]: `},
	} {
		t.Run(name, func(t *testing.T) { require.ErrorContains(t, tt.do(), tt.err) })
	}
	good := configMap(ns, nil)
	good.Name = "first"
	wrote, err := applier.All(t.Context(), good, bad, configMap(ns, nil))
	require.Error(t, err)
	require.Equal(t, 1, wrote, "what came before the error is counted")
	testkit.ExpectNotFound(t, c, configMap(ns, nil))
}

type unknownKind struct{ corev1.ConfigMap }

func (u *unknownKind) DeepCopyObject() runtime.Object { return &unknownKind{*u.DeepCopy()} }

// Somebody is faster between looking and creating.
func TestCreate_race(t *testing.T) {
	_, c := newApplier(t)
	ns := testkit.Namespace(t)
	racing := interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if err := c.Create(ctx, configMap(ns, map[string]string{"by": "another"})); err != nil {
				return err
			}
			return c.Create(ctx, obj, opts...)
		},
	})
	wrote, err := apply.Applier{Client: racing, Reader: c}.Create(t.Context(), configMap(ns, map[string]string{"by": "us"}))
	require.NoError(t, err)
	require.False(t, wrote)
	require.Equal(t, "another", testkit.ExpectExists(t, c, configMap(ns, nil)).Data["by"])
}

// Names that another kind has already are the reason that is told, not only that time ran out.
func TestAwaitEstablished_saysWhyNot(t *testing.T) {
	applier, c := newApplier(t)
	first, _, _, err := crdgen.CRDs(crdgen.Schema{Driver: "taken"})
	require.NoError(t, err)
	second := first.DeepCopy()
	second.Spec.Names.Plural, second.Spec.Names.Singular = "others", "other"
	second.Name = "others." + second.Spec.Group
	_, err = applier.All(t.Context(), first)
	require.NoError(t, err)
	require.NoError(t, apply.AwaitEstablished(t.Context(), c, first.Name))
	_, err = applier.All(t.Context(), second)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Delete(context.Background(), second) })
	for apply.NotAccepted(testkit.ExpectExists(t, c, second)) == "" {
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // enough to be told why
	defer cancel()
	err = apply.AwaitEstablished(ctx, c, first.Name, second.Name)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "waiting for CRD others.rke-machine-config.cattle.io to be established: context deadline exceeded: its names are not accepted: ")
	require.ErrorContains(t, err, "is already in use")
}

// A server that is away is told, not waited for.
func TestAwaitEstablished_away(t *testing.T) {
	_, c := newApplier(t)
	away := interceptor.NewClient(c, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("no route to host")
		},
	})
	require.EqualError(t, apply.AwaitEstablished(t.Context(), away, "x"), "waiting for CRD x to be established: no route to host")
}
