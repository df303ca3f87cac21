package rkecontrolplane

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/api/plan"
)

// An informer that starts transforms what it lists twice. What is kept must be the same, or each restart of the manager would deliver every plan anew.
func TestKeep_twice(t *testing.T) {
	for name, s := range map[string]*shares{
		"room":    {sizes: map[types.NamespacedName]int{}, ofNamespace: map[string]int{}},
		"no room": {sizes: map[types.NamespacedName]int{}, ofNamespace: map[string]int{}, sum: maxOfAllClusters},
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
