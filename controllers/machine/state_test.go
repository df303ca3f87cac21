package machine_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/testkit"
)

func TestKeep_putsOwnersAndFinalizersBack(t *testing.T) {
	cases := map[string]func(*metav1.ObjectMeta){
		"owner lost":                  func(m *metav1.ObjectMeta) { m.OwnerReferences = nil },
		"finalizer lost":              func(m *metav1.ObjectMeta) { m.Finalizers = nil },
		"both lost":                   func(m *metav1.ObjectMeta) { m.OwnerReferences, m.Finalizers = nil, nil },
		"owner of another version":    func(m *metav1.ObjectMeta) { m.OwnerReferences[0].APIVersion = "rke-machine.cattle.io/v1alpha1" },
		"owner that does not control": func(m *metav1.ObjectMeta) { m.OwnerReferences[0].Controller = nil },
	}
	for name, lose := range cases {
		t.Run(name, func(t *testing.T) {
			s := newWorld(t).machine("digitalocean", "m", droplet())
			s.ready()
			kept := []*corev1.Secret{s.stateSecret(), s.lastCredential()}
			for i := range kept {
				kept[i] = testkit.ExpectExists(t, s.client, kept[i])
				lose(&kept[i].ObjectMeta)
				require.NoError(t, s.client.Update(t.Context(), kept[i]))
			}
			s.obj.SetFinalizers(nil)
			require.NoError(t, s.client.Update(t.Context(), s.obj))

			s.reconcile()
			require.Equal(t, []string{rkev1.MachineFinalizer}, s.obj.GetFinalizers())
			for i := range kept {
				kept[i] = testkit.ExpectExists(t, s.client, kept[i])
				require.Equal(t, []string{rkev1.MachineFinalizer}, kept[i].Finalizers)
				require.Len(t, kept[i].OwnerReferences, 1)
				owner := metav1.GetControllerOf(kept[i])
				require.NotNil(t, owner)
				require.Equal(t, s.obj.GetUID(), owner.UID)
				require.Equal(t, s.obj.GetAPIVersion(), owner.APIVersion)
			}
			s.reconcile()
			for _, before := range kept {
				require.Equal(t, before.ResourceVersion, testkit.ExpectExists(t, s.client, before).ResourceVersion, "nothing to write")
			}
		})
	}
}
