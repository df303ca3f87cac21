package machine_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// TestCredential_ofAnotherTenant: a credential that a pool names, which reaches the machine as an
// annotation, is checked like one in the machine's spec.
func TestCredential_ofAnotherTenant(t *testing.T) {
	w := newWorld(t)
	other := testkit.Namespace(t)
	testkit.ExpectApplied(t, w.client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "cred"}, StringData: map[string]string{"accessToken": "c4n4ry"}})
	s := w.machine("digitalocean", "m", map[string]any{"region": "fra1", "common": map[string]any{"cloudCredentialSecretName": "own"}})
	s.obj.SetAnnotations(map[string]string{rkev1.CredentialAnnotation: other + ":cred"})
	w.update(s.obj)
	s.reconcile()
	refused := s.expect(rkev1.CredentialReadyCondition, metav1.ConditionFalse, rkev1.CredentialNotSharedReason)
	require.NotContains(t, refused.Message, "c4n4ry")
	testkit.ExpectNotFound(t, w.client, s.job(state.Create, 1))
}
