package workload

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

func node(machine, provider string) *corev1.Node {
	n := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: provider}}
	if machine != "" {
		n.Labels = map[string]string{rkev1.NodeMachineLabel: machine}
	}
	return n
}

func TestNodeWatcher_tellsOfProviderIDsThatAreNew(t *testing.T) {
	waiting := node("u", "")
	waiting.Spec.Taints = []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Effect: corev1.TaintEffectNoSchedule}}
	for name, tt := range map[string]struct {
		before, after any
		want          []types.UID
	}{
		"joins with its ID":        {nil, node("u", "acme://1"), []types.UID{"u"}},
		"joins without":            {nil, node("u", ""), []types.UID{"u"}},
		"waits for its cloud":      {nil, waiting, nil},
		"gets its ID":              {node("u", ""), node("u", "acme://1"), []types.UID{"u"}},
		"gets its label":           {node("", "acme://1"), node("u", "acme://1"), []types.UID{"u"}},
		"of another machine now":   {node("u", "acme://1"), node("v", "acme://1"), []types.UID{"v"}},
		"stays the same":           {node("u", "acme://1"), node("u", "acme://1"), nil},
		"nobody's, so anybody's":   {node("", ""), node("", "acme://1"), []types.UID{""}},
		"loses its label":          {node("u", "acme://1"), node("", "acme://1"), []types.UID{""}},
		"not a Node":               {nil, &corev1.Pod{}, nil},
		"a tombstone was the last": {"gone", node("u", "acme://1"), []types.UID{"u"}},
		"nothing at all":           {nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []types.UID
			w := &nodeWatcher{cluster: client.ObjectKey{Namespace: "a", Name: "c1"}, listeners: &listeners{}}
			w.listeners.add(func(cluster client.ObjectKey, machine types.UID) {
				require.Equal(t, client.ObjectKey{Namespace: "a", Name: "c1"}, cluster)
				got = append(got, machine)
			})
			w.tell(tt.before, tt.after)
			require.Equal(t, tt.want, got)
			require.Equal(t, "drover-nodes", w.Name())
			require.IsType(t, &corev1.Node{}, w.Object())
		})
	}
}
