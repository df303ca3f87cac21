package jobrunner_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

func TestPullSecret(t *testing.T) {
	source := func(name string, kind corev1.SecretType, key, document string) corev1.Secret {
		return corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "drover-system", Name: name}, Type: kind, Data: map[string][]byte{key: []byte(document)}}
	}
	one := source("one", corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, `{"auths":{"a":{"auth":"1"},"b":{"auth":"2"}},"credHelpers":{"c":"x"}}`)
	old := source("old", corev1.SecretTypeDockercfg, corev1.DockerConfigKey, `{"b":{"auth":"3"},"d":{"auth":"4"}}`)
	for name, c := range map[string]struct {
		have   []corev1.Secret
		named  []string
		want   string
		inPod  []string
		reason string
	}{
		"none":                      {nil, nil, "", nil, ""},
		"the manager has none":      {nil, []string{"regcred"}, "", []string{"regcred"}, ""},
		"one":                       {[]corev1.Secret{one}, []string{"one"}, `{"auths":{"a":{"auth":"1"},"b":{"auth":"2"}}}`, []string{"pool1-abc-create-1-pull"}, ""},
		"several, and one of users": {[]corev1.Secret{one, old}, []string{"one", "regcred", "old"}, `{"auths":{"a":{"auth":"1"},"b":{"auth":"2"},"d":{"auth":"4"}}}`, []string{"pool1-abc-create-1-pull", "regcred"}, ""},
		"of another type":           {[]corev1.Secret{source("x", corev1.SecretTypeOpaque, "token", "marker-secret")}, []string{"x"}, "", nil, `the pull Secret x in namespace drover-system is of type "Opaque"`},
		"rubbish":                   {[]corev1.Secret{source("x", corev1.SecretTypeDockercfg, corev1.DockerConfigKey, "marker-secret")}, []string{"x"}, "", nil, "does not match its type"},
	} {
		t.Run(name, func(t *testing.T) {
			given := task(state.Create)
			given.Settings.ImagePullSecrets, given.PullSecrets = c.named, c.have
			got, err := jobrunner.PullSecret(given)
			if c.reason != "" {
				require.ErrorContains(t, err, c.reason)
				require.NotContains(t, err.Error(), "marker-secret")
				return
			}
			require.NoError(t, err)
			var names []string
			for _, ref := range jobrunner.Job(given).Spec.Template.Spec.ImagePullSecrets {
				names = append(names, ref.Name)
			}
			require.Equal(t, c.inPod, names)
			if c.want == "" {
				require.Nil(t, got)
				return
			}
			require.Equal(t, corev1.SecretTypeDockerConfigJson, got.Type)
			require.JSONEq(t, c.want, string(got.Data[corev1.DockerConfigJsonKey]))
			require.Equal(t, jobrunner.Job(given).OwnerReferences, got.OwnerReferences)
			require.Equal(t, c.inPod[0], got.Name)
		})
	}
}
