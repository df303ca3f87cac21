package machine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// A foreground deletion has the garbage collector take all that the machine owns, also what the removal's pod runs as, which was just
// looked at. Without its ServiceAccount no pod is made, and nobody tells the manager.
func TestMend_makesAgainWhatThePodRunsAs(t *testing.T) {
	s := newWorld(t).machine("digitalocean", "m", droplet())
	s.ready()
	s.delete(s.obj)
	s.reconcile()
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: jobrunner.AccessName("m")}
	access := []client.Object{&corev1.ServiceAccount{ObjectMeta: meta}, &rbacv1.Role{ObjectMeta: meta}, &rbacv1.RoleBinding{ObjectMeta: meta}}
	was := map[client.Object]client.Object{}
	for _, obj := range access {
		was[obj] = testkit.ExpectExists(t, s.client, obj.DeepCopyObject().(client.Object))
		s.delete(obj)
	}
	made := testkit.ExpectExists(t, s.client, s.job(state.Remove, 1)).CreationTimestamp

	clear(s.writes)
	s.clock.SetTime(made.Add(5 * time.Second))
	require.Equal(t, 15*time.Second, testkit.ExpectReconciled(t, s.reconciler, s.obj).RequeueAfter, "a pod takes its time")
	require.Zero(t, s.wrote(), "%v", s.writes)
	testkit.ExpectNotFound(t, s.client, access...)

	s.clock.SetTime(made.Add(20 * time.Second))
	require.Equal(t, 20*time.Second, testkit.ExpectReconciled(t, s.reconciler, s.obj).RequeueAfter)
	for _, obj := range access {
		again := testkit.ExpectExists(t, s.client, obj)
		require.True(t, metav1.IsControlledBy(again, s.obj))
		require.Equal(t, was[obj].GetLabels(), again.GetLabels())
	}
	require.Equal(t, was[access[1]].(*rbacv1.Role).Rules, access[1].(*rbacv1.Role).Rules)
	require.Equal(t, was[access[2]].(*rbacv1.RoleBinding).Subjects, access[2].(*rbacv1.RoleBinding).Subjects)

	clear(s.writes)
	s.clock.SetTime(made.Add(time.Minute))
	require.Equal(t, time.Minute, testkit.ExpectReconciled(t, s.reconciler, s.obj).RequeueAfter, "later and later")
	s.clock.SetTime(made.Add(time.Hour))
	require.Equal(t, 5*time.Minute, testkit.ExpectReconciled(t, s.reconciler, s.obj).RequeueAfter)
	require.Zero(t, s.wrote(), "%v", s.writes)

	// A Job that has its pod needs nothing more.
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "m-rm-1-x", Labels: testkit.ExpectExists(t, s.client, s.job(state.Remove, 1)).Labels},
		Spec: corev1.PodSpec{ServiceAccountName: meta.Name, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	require.Equal(t, string(s.obj.GetUID()), pod.Labels[rkev1.MachineUIDLabel])
	testkit.ExpectApplied(t, s.client, pod)
	s.delete(access[0])
	s.clock.SetTime(made.Add(time.Minute))
	require.Equal(t, 5*time.Minute, testkit.ExpectReconciled(t, s.reconciler, s.obj).RequeueAfter)
	testkit.ExpectNotFound(t, s.client, access[0])
}
