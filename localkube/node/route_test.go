package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRouteTo(t *testing.T) {
	worker := &corev1.Node{}
	require.Nil(t, routeTo(worker), "no range yet")
	worker.Spec.PodCIDR = "198.19.1.0/24"
	require.Nil(t, routeTo(worker), "no address yet")
	worker.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "worker"}, {Type: corev1.NodeInternalIP, Address: "198.18.0.2"},
	}
	route := routeTo(worker)
	require.Equal(t, "198.19.1.0/24", route.Dst.String())
	require.Equal(t, "198.18.0.2", route.Gw.String())
}

func TestIsReady_ignores_what_was_said_before(t *testing.T) {
	start := time.Now().Truncate(time.Second)
	said := func(status corev1.ConditionStatus, when time.Time) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: status, LastHeartbeatTime: metav1.NewTime(when)},
		}}}
	}
	require.True(t, isReady(said(corev1.ConditionTrue, start), start))
	require.False(t, isReady(said(corev1.ConditionTrue, start.Add(-time.Second)), start))
	require.False(t, isReady(said(corev1.ConditionFalse, start), start))
	require.False(t, isReady(&corev1.Node{}, start))
}

func TestRestoreSettings_writes_only_what_differs(t *testing.T) {
	require.NoError(t, restoreSettings(before{}))
	require.NoError(t, restoreSettings(before{Settings: map[string]string{"../../../etc/passwd": "x"}}), "unknown names are ignored")
}

func TestRemoveEmpty_keeps_files(t *testing.T) {
	l := newLayout(t)
	_, err := l.Make("gone", "deep")
	require.NoError(t, err)
	require.NoError(t, l.Write([]byte("x"), "kept", "file"))
	require.NoError(t, removeEmpty(l.Path("gone")))
	require.NoError(t, removeEmpty(l.Path("kept")))
	require.NoError(t, removeEmpty(l.Path("never")))
	require.NoDirExists(t, l.Path("gone"))
	require.FileExists(t, l.Path("kept", "file"))
}

func TestRemember_keeps_the_first_state(t *testing.T) {
	l := newLayout(t)
	_, was, err := recall(l)
	require.NoError(t, err)
	require.False(t, was)
	require.NoError(t, remember(l))
	require.NoError(t, l.Write([]byte(`{"settings":{"kernel/panic":"42"}}`), "node", "restore.json"))
	require.NoError(t, remember(l))
	state, was, err := recall(l)
	require.NoError(t, err)
	require.True(t, was)
	require.Equal(t, "42", state.Settings["kernel/panic"])
}
