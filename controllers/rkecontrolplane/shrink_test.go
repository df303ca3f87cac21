package rkecontrolplane

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/api/plan"
	"github.com/drover-project/drover/planner"
)

// fill uses the quota of all namespaces up but for a kilobyte.
func fill(t *testing.T, m *planMemory) {
	t.Helper()
	for i := range maxOfAllClusters / maxOfNamespace {
		name := types.NamespacedName{Namespace: "other-" + strconv.Itoa(i), Name: "m"}
		require.True(t, m.quota.Set(name.Namespace, name, maxOfNamespace-1<<7))
	}
}

// An informer that starts transforms what it lists twice. What is kept must be the same, or each restart of the manager would deliver every plan anew.
func TestKeep_twice(t *testing.T) {
	full := newPlanMemory()
	fill(t, full)
	for name, s := range map[string]*planMemory{
		"room":    newPlanMemory(),
		"no room": full,
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m"}, Data: map[string][]byte{plan.KeyPlan: []byte(`{"files":[{"path":"/a"}]}`)}}
		s.keep(secret)
		once := secret.DeepCopy()
		_, dropped := once.Annotations[largeAnnotation]
		require.Equal(t, name == "no room", dropped, name)
		require.Equal(t, name == "room", deliveredTo(once) != nil, name)
		s.keep(secret)
		require.Equal(t, once, secret, name)
	}
}

// The goroutine that transforms the plan Secrets of all tenants decodes a plan once, however often a
// tenant changes other parts of its Secret, and does not decode the plan of a Secret that it drops.
func TestKeep_decodesOnce(t *testing.T) {
	decoded := 0
	s := newPlanMemory()
	s.decode = func(raw []byte) *planner.Delivered {
		decoded++
		return planner.NewDelivered(raw)
	}
	event := func(touched int, path string) *corev1.Secret {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m", Annotations: map[string]string{"touched": strconv.Itoa(touched)}},
			Data: map[string][]byte{plan.KeyPlan: []byte(`{"files":[{"path":"` + path + `"}]}`)}}
		s.keep(secret)
		return secret
	}
	for i := range 10 {
		require.Equal(t, []string{"/a"}, deliveredTo(event(i, "/a")).Paths)
	}
	require.Equal(t, 1, decoded)
	require.Equal(t, []string{"/b"}, deliveredTo(event(11, "/b")).Paths)
	require.Equal(t, 2, decoded)

	require.True(t, s.quota.Set("n", types.NamespacedName{Namespace: "n", Name: "other"}, maxOfNamespace-1<<10))
	require.Nil(t, event(12, "/c").Data)
	require.Equal(t, 2, decoded)
}

// A change that the planner does not read does not reconcile the cluster.
func TestPlanChanged(t *testing.T) {
	s := newPlanMemory()
	secret := func(version, annotation, path string) *corev1.Secret {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m", ResourceVersion: version, Annotations: map[string]string{"touched": annotation}},
			Data: map[string][]byte{plan.KeyPlan: []byte(`{"files":[{"path":"` + path + `"}]}`)}}
		s.keep(secret)
		return secret
	}
	before := secret("1", "a", "/a")
	require.False(t, planChanged(before, secret("2", "b", "/a")))
	require.True(t, planChanged(before, before), "a resync")
	require.True(t, planChanged(before, secret("3", "a", "/b")))
	fill(t, s)
	require.True(t, planChanged(before, secret("4", "a", "/a")), "nothing is known of a Secret that was dropped")
}

// A tenant who writes the key that the manager keeps in memory is not believed.
func TestKeep_forged(t *testing.T) {
	s := newPlanMemory()
	forged := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m"}, Data: map[string][]byte{deliveredKey: bytes.Repeat([]byte("x"), 1<<20)}}
	s.keep(forged)
	require.Nil(t, deliveredTo(forged))
	require.Zero(t, s.quota.Used("n"))
}
