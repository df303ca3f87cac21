package machine_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// Who may read the state, to log in, has no right to the cloud account: the credential of last resort is a Secret apart, which lives
// as long as the state does.
func TestLastCredential_isNotInTheState(t *testing.T) {
	s := made(t)
	kept := testkit.ExpectExists(t, s.client, s.stateSecret())
	all, err := json.Marshal(kept)
	require.NoError(t, err)
	require.NotContains(t, kept.Data, state.CredentialKey)
	require.NotContains(t, string(all), "DIGITALOCEAN_ACCESS_TOKEN")
	last := testkit.ExpectExists(t, s.client, s.lastCredential())
	require.EqualValues(t, rkev1.MachineCredentialSecretType, last.Type)
	require.True(t, metav1.IsControlledBy(last, s.obj))
	require.Equal(t, kept.Finalizers, last.Finalizers)
	credential, err := state.ReadCredential(last.Data)
	require.NoError(t, err)
	require.Equal(t, "cred", credential.Name)

	s.remove()
	s.removed(1)
	s.goes()
	require.Empty(t, testkit.ExpectExists(t, s.client, s.lastCredential()).Finalizers, "the garbage collector may have it")
}

// asBefore makes the state what an earlier manager left: the credential in it, and nowhere else.
func (s *subject) asBefore() {
	s.Helper()
	last := testkit.ExpectExists(s, s.client, s.lastCredential())
	s.write(map[string]any{state.CredentialKey: string(last.Data[state.CredentialKey])})
	last.Finalizers = nil
	s.update(last)
	s.delete(last)
}

func TestLastCredential_movesOutOfAnOldState(t *testing.T) {
	s := made(t)
	s.asBefore()
	s.reconcile()
	require.NotContains(t, testkit.ExpectExists(t, s.client, s.stateSecret()).Data, state.CredentialKey)
	s.expect(rkev1.ReadyCondition, metav1.ConditionTrue, "")
	credential, err := state.ReadCredential(testkit.ExpectExists(t, s.client, s.lastCredential()).Data)
	require.NoError(t, err)
	require.Equal(t, "cred", credential.Name)
	clear(s.writes)
	s.reconcile()
	require.Zero(t, s.wrote(), "%v", s.writes)
}

// Whoever may write Secrets beside the machine may write the one of last resort: of what it names, the driver's process is given the
// driver's own variables and files only, for it may run where other machines' drivers do.
func TestLastCredential_namesOnlyWhatTheDriverTakes(t *testing.T) {
	for name, old := range map[string]bool{"in its Secret": false, "in an old state": true} {
		t.Run(name, func(t *testing.T) {
			s := made(t)
			forged, err := json.Marshal(state.Credential{Name: "cred", Version: "v", Env: map[string]string{
				"DIGITALOCEAN_ACCESS_TOKEN": "token", "DIGITALOCEAN_SSH_USER": "root", "DIGITALOCEAN_EXTRA": "kept", "DIGITALOCEAN_CONFIG_FILE": "/x",
				"AWS_CONFIG_FILE": "/x", "HTTPS_PROXY": "http://x", "https_proxy": "http://x", "LD_PRELOAD": "/x.so", "PATH": "/x", "SSL_CERT_FILE": "/x",
				"MACHINE_PLUGIN_DRIVER_NAME": "generic", "GODEBUG": "x",
			}, Files: map[string][]byte{"digitalocean-ssh-key-path": []byte("key"), "digitalocean-region": []byte("/etc/passwd"), "other": nil}})
			require.NoError(t, err)
			if old {
				s.asBefore()
				s.write(map[string]any{state.CredentialKey: string(forged)})
			} else {
				last := testkit.ExpectExists(t, s.client, s.lastCredential())
				last.Data[state.CredentialKey] = forged
				s.update(last)
			}
			s.delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "cred"}})
			s.remove()
			request := s.requestOf(state.Remove, 1)
			require.Equal(t, map[string]string{"DIGITALOCEAN_ACCESS_TOKEN": "token", "DIGITALOCEAN_SSH_USER": "root", "DIGITALOCEAN_EXTRA": "kept"}, request.CredentialEnv)
			require.NotContains(t, request.Files, "digitalocean-region")
			require.NotContains(t, request.Files, "other")
			message := s.expect(rkev1.CredentialReadyCondition, metav1.ConditionTrue, rkev1.CredentialRecalledReason).Message
			require.Contains(t, message, "LD_PRELOAD")
			require.Contains(t, message, "are not fields of the driver and are ignored")
		})
	}
}

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
	require.Contains(t, s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.NameTakenReason).Message, "Secret m-create-1-pull does not belong to this machine")
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
