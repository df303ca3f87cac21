package inventory_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/cmd/drover/facts"
)

// leaseOf stores the Lease of a manager that was last renewed at a time.
func (w *world) leaseOf(t *testing.T, holder string, renewed time.Time) *coordinationv1.Lease {
	t.Helper()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "drover-manager", Labels: map[string]string{"app.kubernetes.io/version": "v1.2.3"}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: new(metav1.NewMicroTime(renewed))},
	}
	w.make(t, lease)
	return lease
}

func TestManager(t *testing.T) {
	const brief = 10 * time.Millisecond
	w := newWorld(t)
	found, err := w.Manager(t.Context(), now, brief)
	require.NoError(t, err)
	require.Equal(t, &facts.Manager{Namespace: "drover-system"}, found, "without a Lease")

	for name, tt := range map[string]struct {
		holder  string
		age     time.Duration
		running bool
	}{
		"renews its Lease":                    {"pod-1", time.Second, true},
		"stopped without releasing its Lease": {"pod-1", 20 * time.Second, false},
		"released its Lease":                  {"", time.Second, false},
		"has another clock, and is silent":    {"pod-1", -time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			seen := now.Add(-tt.age)
			w.leaseOf(t, tt.holder, seen)
			found, err := w.Manager(t.Context(), now, brief)
			require.NoError(t, err)
			require.Equal(t, seen, found.Seen.UTC())
			require.Equal(t, tt.running, found.Running)
			require.Equal(t, "v1.2.3", found.Version)
			require.Equal(t, w.namespace, found.Namespace)
		})
	}
}

// A manager whose clock differs from this computer's clock still renews its Lease.
func TestManager_otherClock(t *testing.T) {
	w := newWorld(t)
	lease := w.leaseOf(t, "pod-1", now.Add(-time.Hour))
	renewals := time.NewTicker(50 * time.Millisecond)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range renewals.C {
			before := lease.DeepCopy()
			lease.Spec.RenewTime = new(metav1.NewMicroTime(lease.Spec.RenewTime.Add(2 * time.Second)))
			if w.Patch(t.Context(), lease, client.MergeFrom(before)) != nil {
				return // the test ended
			}
		}
	}()
	t.Cleanup(func() {
		<-ended
		renewals.Stop()
	})
	found, err := w.Manager(t.Context(), now, time.Minute)
	require.NoError(t, err)
	require.True(t, found.Running)
}

func TestManager_fewRights(t *testing.T) {
	w := newWorld(t)
	w.leaseOf(t, "pod-1", now)
	found, err := w.as(t, "guest").Manager(t.Context(), now, 0)
	require.NoError(t, err)
	require.Nil(t, found, "the user may not read the Lease")
	system := &world{Client: w.Client, API: w.API, namespace: "drover-system"}
	system.make(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system.namespace}})
	system.leaseOf(t, "pod-2", now)
	reader := system.as(t, "reader", rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "watch"}})
	found, err = reader.Manager(t.Context(), now, 0)
	require.NoError(t, err)
	require.Equal(t, "drover-system", found.Namespace)
	require.True(t, found.Running)
}
