package node

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestRouteTo(t *testing.T) {
	node := &corev1.Node{}
	require.Nil(t, routeTo(node), "it has no range yet")
	node.Spec.PodCIDR = "198.18.129.0/24"
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "web-2"}, {Type: corev1.NodeInternalIP, Address: "2001:db8::1"}}
	require.Nil(t, routeTo(node), "it has no address yet")
	node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "198.18.0.3"})
	route := routeTo(node)
	require.Equal(t, []string{"198.18.129.0/24", "198.18.0.3"}, []string{route.Dst.String(), route.Gw.String()})
}
