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

// The manager's pull Secret is where a Job runs as long as that does, and writes over nobody's.
func TestPullSecret(t *testing.T) {
	w := newWorld(t)
	w.settings.PullNamespace, w.settings.ImagePullSecrets = testkit.Namespace(t), []string{"registry", "theirs"}
	source := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.settings.PullNamespace, Name: "registry"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{"registry.test":{"auth":"eA=="}}}`)}}
	testkit.ExpectApplied(t, w.client, source)
	s := w.machine("digitalocean", "m", droplet())
	taken := w.secret("m-create-1-pull", "Opaque", map[string]string{"a": "b"})
	s.reconcile()
	require.Contains(t, s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.NameTakenReason).Message, "Secret m-create-1-pull that is not of this machine")
	w.delete(taken)
	s.reconcile()
	s.reconcile()
	pod := testkit.ExpectExists(t, w.client, s.job(state.Create, 1)).Spec.Template.Spec
	require.Equal(t, []corev1.LocalObjectReference{{Name: "m-create-1-pull"}, {Name: "theirs"}}, pod.ImagePullSecrets)
	carried := testkit.ExpectExists(t, w.client, taken)
	require.True(t, metav1.IsControlledBy(carried, s.obj))
	require.JSONEq(t, string(source.Data[corev1.DockerConfigJsonKey]), string(carried.Data[corev1.DockerConfigJsonKey]))
	s.fail(state.Create, 1, rkev1.ClassTransient, "a hiccup", false)
	s.reconcile()
	testkit.ExpectNotFound(t, w.client, taken)

	source.Data[corev1.DockerConfigJsonKey] = []byte("marker-secret")
	source.Data = map[string][]byte{"x": []byte("y")}
	w.delete(source)
	source.ResourceVersion, source.UID, source.Type = "", "", corev1.SecretTypeOpaque
	testkit.ExpectApplied(t, w.client, source)
	s.annotate(rkev1.RetryAnnotation, "1")
	s.reconcile()
	require.Contains(t, s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, "JobRefused").Message, "the pull Secret registry in namespace "+w.settings.PullNamespace+` is of type "Opaque"`)
}
