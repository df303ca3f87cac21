package machine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

const tokenVariable = "DIGITALOCEAN_ACCESS_TOKEN"

// credentialStory is one thing that happens to a credential.
type credentialStory struct {
	name string
	// strike is what happens to it.
	strike func(*subject)
	// refused tells that the cloud does not accept the credential any more that a Job was given.
	refused bool
	// reason and says are of the condition CredentialReady when a create needs the credential after that; empty when it
	// is still there, and the cloud may refuse it.
	reason, says string
	// mend makes the credential good again, and token is the one that the next attempt must use.
	mend  func(*subject)
	token string
	// remembered is the token that a remove uses when the machine is deleted before anybody mends anything.
	remembered string
}

func rotate(token string) func(*subject) {
	return func(s *subject) {
		secret := testkit.ExpectExists(s, s.client, credentialSecret(s))
		secret.Data = map[string][]byte{"accessToken": []byte(token)}
		s.update(secret)
	}
}

func credentialSecret(s *subject) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "cred"}}
}

func dropCredential(s *subject) { s.delete(credentialSecret(s)) }

// moveTo makes the machine name another Secret.
func moveTo(name string) func(*subject) {
	return func(s *subject) {
		s.read()
		require.NoError(s, unstructured.SetNestedField(s.obj.Object, name, "spec", "common", "cloudCredentialSecretName"))
		s.update(s.obj)
	}
}

func credentialStories() []credentialStory {
	nothing := func(*subject) {}
	return []credentialStory{
		{name: "rotated", strike: rotate("new-token"), refused: true, mend: nothing, token: "new-token", remembered: "new-token"},
		{name: "expired", strike: nothing, refused: true, mend: rotate("renewed-token"), token: "renewed-token", remembered: "first-token"},
		{name: "revoked and emptied", strike: rotate(""), refused: true,
			reason: rkev1.CredentialInvalidReason, says: "Secret cred: reading the credential of driver digitalocean: key accessToken is missing or empty",
			mend: rotate("issued-token"), token: "issued-token", remembered: "first-token"},
		{name: "deleted", strike: dropCredential, refused: true,
			reason: rkev1.CredentialMissingReason, says: "with the keys accessToken",
			mend:  func(s *subject) { s.secret("cred", "Opaque", map[string]string{"accessToken": "second-token"}) },
			token: "second-token", remembered: "first-token"},
		{name: "moved to a Secret that is there",
			strike: func(s *subject) {
				s.secret("elsewhere", "Opaque", map[string]string{"accessToken": "moved-token"})
				dropCredential(s)
				moveTo("elsewhere")(s)
			}, refused: true, mend: nothing, token: "moved-token", remembered: "moved-token"},
		{name: "moved before the new Secret is there",
			strike: func(s *subject) { dropCredential(s); moveTo("later")(s) }, refused: true,
			reason: rkev1.CredentialMissingReason, says: "the credential Secret later is not there",
			mend:  func(s *subject) { s.secret("later", "Opaque", map[string]string{"accessToken": "late-token"}) },
			token: "late-token", remembered: "first-token"},
	}
}

func credentialWorld(t *testing.T) *subject {
	t.Helper()
	s := newWorld(t).machine("digitalocean", "m", droplet())
	rotate("first-token")(s)
	return s
}

func (s *subject) tokenOf(operation state.Operation, attempt int32) string {
	s.Helper()
	return s.requestOf(operation, attempt).CredentialEnv[tokenVariable]
}

func TestCredential_beforeCreate(t *testing.T) {
	for _, story := range credentialStories() {
		t.Run(story.name, func(t *testing.T) {
			s := credentialWorld(t)
			story.strike(s)
			s.reconcile()
			attempt := int32(1)
			if story.reason != "" {
				require.Contains(t, s.expect(rkev1.CredentialReadyCondition, metav1.ConditionFalse, story.reason).Message, story.says)
				require.Contains(t, s.expect(rkev1.ReadyCondition, metav1.ConditionFalse, story.reason).Message, story.says)
				testkit.ExpectNotFound(t, s.client, s.stateSecret())
			} else if s.tokenOf(state.Create, 1) != story.token {
				s.refuse(state.Create, 1)
				s.reconcile()
				s.expectRefusal(rkev1.CreateJobCondition, rkev1.AttemptsExhaustedReason)
				attempt = 2
			}
			story.mend(s)
			s.reconcile()
			require.Equal(t, story.token, s.tokenOf(state.Create, attempt))
			s.succeed(attempt)
			require.True(t, s.reconcile().Ready)
		})
	}
}

// refuse plays a cloud that does not accept the credential.
func (s *subject) refuse(operation state.Operation, attempt int32) {
	s.Helper()
	s.fail(operation, attempt, rkev1.ClassUnauthorized, "401 Unable to authenticate you", operation == state.Remove)
}

// expectRefusal expects that the message says what the cloud said, which Secret the credential is from, and which key.
func (s *subject) expectRefusal(condition, reason string) {
	s.Helper()
	message := s.expect(condition, metav1.ConditionFalse, reason).Message
	for _, part := range []string{"401 Unable to authenticate you", "Secret cred in namespace " + s.namespace, "accessToken"} {
		require.Contains(s, message, part)
	}
}

func TestCredential_duringCreate_theJobFails(t *testing.T) {
	for _, story := range credentialStories() {
		t.Run(story.name, func(t *testing.T) {
			s := credentialWorld(t)
			s.reconcile()
			require.Equal(t, "first-token", s.tokenOf(state.Create, 1))
			s.podOf(testkit.ExpectExists(t, s.client, s.job(state.Create, 1)))
			story.strike(s)
			s.reconcile()
			s.expect(rkev1.CreateJobCondition, metav1.ConditionUnknown, rkev1.JobRunningReason)
			s.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.JobRunningReason)

			s.refuse(state.Create, 1)
			status := s.reconcile()
			require.Equal(t, rkev1.ClassUnauthorized, status.LastAttempt.Class, "it is known why it failed, whatever is waited for now")
			if story.reason != "" {
				require.Contains(t, s.expect(rkev1.ReadyCondition, metav1.ConditionFalse, story.reason).Message, story.says)
				testkit.ExpectNotFound(t, s.client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "m-create-1"}})
			}
			story.mend(s)
			s.reconcile()
			require.Equal(t, story.token, s.tokenOf(state.Create, 2), "at once, without another wait")
			s.succeed(2)
			require.True(t, s.reconcile().Ready)
		})
	}
}

func TestCredential_beforeRemove(t *testing.T) {
	for _, story := range credentialStories() {
		t.Run(story.name, func(t *testing.T) {
			s := credentialWorld(t)
			s.ready()
			story.strike(s)
			s.remove()
			require.Equal(t, story.remembered, s.tokenOf(state.Remove, 1))
			if story.reason != "" {
				require.Contains(t, s.expect(rkev1.CredentialReadyCondition, metav1.ConditionTrue, rkev1.CredentialRecalledReason).Message, story.says)
			}
			attempt := int32(1)
			if story.remembered != story.token {
				s.refuse(state.Remove, 1)
				s.reconcile()
				message := s.expect(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.ClassUnauthorized).Message
				for _, part := range []string{"401 Unable to authenticate you", "accessToken", "Server m (123) exists", story.says} {
					require.Contains(t, message, part)
				}
				story.mend(s)
				s.reconcile()
				attempt = 2
				require.Equal(t, story.token, s.tokenOf(state.Remove, 2), "at once, without another wait")
			}
			s.removed(attempt)
			s.goes()
		})
	}
}

// While a remove Job runs nothing is done about it; the next one uses what is there then.
func TestCredential_duringRemove(t *testing.T) {
	for _, story := range credentialStories() {
		t.Run(story.name, func(t *testing.T) {
			s := credentialWorld(t)
			s.ready()
			s.remove()
			require.Equal(t, "first-token", s.tokenOf(state.Remove, 1))
			s.podOf(testkit.ExpectExists(t, s.client, s.job(state.Remove, 1)))
			story.strike(s)
			s.reconcile()
			s.expect(rkev1.DeleteJobCondition, metav1.ConditionUnknown, rkev1.JobRunningReason)
			testkit.ExpectNotFound(t, s.client, s.job(state.Remove, 2))

			s.refuse(state.Remove, 1)
			s.reconcile()
			if story.remembered == "first-token" {
				message := s.expect(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.ClassUnauthorized).Message
				for _, part := range []string{"401 Unable to authenticate you", "accessToken", story.says,
					"Server m (123) exists. Do not abandon it: with a valid credential the next attempt, which then starts immediately, removes it"} {
					require.Contains(t, message, part)
				}
				s.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.ClassUnauthorized)
				require.NotContains(t, message, "abandon m ")
				require.NotContains(t, message, rkev1.AbandonAnnotation)
				story.mend(s)
				s.reconcile()
			}
			require.Equal(t, story.token, s.tokenOf(state.Remove, 2), "at once, without another wait")
			s.removed(2)
			s.goes()
		})
	}
}

// A machine that is deleted while its create runs and its credential is lost: what the create has begun is removed.
func TestCredential_deletedDuringCreate(t *testing.T) {
	for _, story := range credentialStories() {
		t.Run(story.name, func(t *testing.T) {
			s := credentialWorld(t)
			s.reconcile()
			s.write(map[string]any{state.JournalKey: state.Journal{Operation: state.Create, Attempt: 1, Phase: state.PhaseIntent, InstanceName: "m"}})
			story.strike(s)
			s.read()
			s.remove()
			s.expect(rkev1.DeleteJobCondition, metav1.ConditionUnknown, rkev1.JobCancelledReason)
			s.dropJobFinalizers()
			s.reconcile()
			require.Equal(t, story.remembered, s.tokenOf(state.Remove, 1))
			s.removed(1)
			s.goes()
		})
	}
}

// If the state records no server, a rejected credential leaves it unknown whether one exists.
func TestCredential_refusedWithoutARecordedServer(t *testing.T) {
	s := credentialWorld(t)
	s.reconcile()
	s.fail(state.Create, 1, rkev1.ClassTransient, "connection reset", true)
	s.reconcile()
	s.remove()
	s.refuse(state.Remove, 1)
	s.reconcile()
	require.Contains(t, s.expect(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.ServerMayExistReason).Message, "A server named m may still exist")
}

// Whatever became of the credential, the user can let the machine go.
func TestCredential_neverKeepsAMachineForEver(t *testing.T) {
	for _, story := range credentialStories() {
		t.Run(story.name, func(t *testing.T) {
			s := credentialWorld(t)
			s.ready()
			story.strike(s)
			s.remove()
			s.refuse(state.Remove, 1)
			status := s.reconcile()
			require.NotNil(t, status.NextAttemptTime, "a remove is never given up by itself")
			s.annotate(rkev1.AbandonAnnotation, "m")
			s.reconcile()
			s.refuse(state.Remove, 2)
			s.goes()
		})
	}
}

// The copy is for the case that the Secret is gone: a copy that nobody can read is as good as none, and the
// driver's own record may be all that a remove needs.
func TestCredential_copyThatCannotBeRead(t *testing.T) {
	s := credentialWorld(t)
	s.ready()
	last := testkit.ExpectExists(t, s.client, s.lastCredential())
	last.Data[state.CredentialKey] = []byte("{")
	s.update(last)
	dropCredential(s)
	s.remove()
	require.Empty(t, s.tokenOf(state.Remove, 1))
	s.refuse(state.Remove, 1)
	s.reconcile()
	s.expectRefusal(rkev1.DeleteJobCondition, rkev1.ClassUnauthorized)

	s.secret("cred", "Opaque", map[string]string{"accessToken": "again"})
	s.reconcile()
	require.Equal(t, "again", s.tokenOf(state.Remove, 2))
}

// With neither Secret, copy nor record there is nothing to try, but the user still decides.
func TestCredential_nothingToRemoveWith(t *testing.T) {
	s := credentialWorld(t)
	s.reconcile()
	s.fail(state.Create, 1, rkev1.ClassTransient, "connection reset", true)
	s.reconcile()
	last := testkit.ExpectExists(t, s.client, s.lastCredential())
	last.Data[state.CredentialKey] = []byte("{")
	s.update(last)
	dropCredential(s)
	s.remove()
	require.Contains(t, s.expect(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.CredentialMissingReason).Message,
		"the credential Secret cred is not there: create it in namespace "+s.namespace+" with the keys accessToken\n* Create the Secret cred with one key per credential field")
	s.annotate(rkev1.AbandonAnnotation, "m")
	s.goes()
	testkit.ExpectNotFound(t, s.client, s.job(state.Remove, 1))
}

// In a namespace that is being deleted nobody can make the credential again: one of another namespace is shared.
func TestCredential_namespaceIsGoing(t *testing.T) {
	s := credentialWorld(t)
	s.reconcile()
	s.fail(state.Create, 1, rkev1.ClassTransient, "connection reset", true)
	s.reconcile()
	last := testkit.ExpectExists(t, s.client, s.lastCredential())
	last.Data[state.CredentialKey] = []byte("{")
	s.update(last)
	dropCredential(s)
	s.delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	s.remove()
	message := s.expect(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.CredentialMissingReason).Message
	require.Contains(t, message, "Share a valid credential from another namespace: kubectl -n NAMESPACE annotate secret NAME drover.cattle.io/allowed-namespaces="+s.namespace)
	require.NotContains(t, message, "create secret")
}

// A credential that is used first in the spec itself has no Secret to look at.
func TestCredential_inTheSpec(t *testing.T) {
	s := newWorld(t).machine("acme", "m", map[string]any{"token": "from-the-spec"})
	s.external("acme", "https://drivers.test/acme", "abc")
	s.reconcile()
	s.expect(rkev1.CredentialReadyCondition, metav1.ConditionTrue, rkev1.CredentialNotNeededReason)
	require.Equal(t, "from-the-spec", s.requestOf(state.Create, 1).Options["acme-token"])
	s.refuse(state.Create, 1)
	s.reconcile()
	message := s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.AttemptsExhaustedReason).Message
	require.Contains(t, message, "No Secret was given: check the machine's spec, or name a Secret with the keys keyText, token in its spec.common.cloudCredentialSecretName")
	require.NotContains(t, message, "from-the-spec")
}

// A credential of another namespace is named with it, and stops being usable the moment its owner says so.
func TestCredential_ofAnotherNamespace(t *testing.T) {
	w := newWorld(t)
	other := testkit.Namespace(t)
	shared := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "cloud",
		Annotations: map[string]string{rkev1.AllowedNamespacesAnnotation: w.namespace}}, StringData: map[string]string{"accessToken": "shared"}}
	testkit.ExpectApplied(t, w.client, shared)
	s := w.machine("digitalocean", "m", map[string]any{"region": "fra1", "common": map[string]any{"cloudCredentialSecretName": other + ":cloud"}})
	s.reconcile()
	s.refuse(state.Create, 1)
	s.reconcile()
	require.Contains(t, s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.AttemptsExhaustedReason).Message,
		"Secret cloud in namespace "+other+": check its keys accessToken")

	testkit.ExpectExists(t, w.client, shared)
	shared.Annotations = nil
	w.update(shared)
	s.reconcile()
	s.expect(rkev1.CredentialReadyCondition, metav1.ConditionFalse, rkev1.CredentialNotSharedReason)
	s.remove()
	require.Equal(t, "shared", s.tokenOf(state.Remove, 1), "what may be left of the attempt goes with the credential it was made with")
}

// A manager of one namespace is not told when another's credential comes or is mended: it looks.
func TestCredential_ofAnotherNamespaceIsLookedAtAgain(t *testing.T) {
	w := newWorld(t)
	other := testkit.Namespace(t)
	s := w.machine("digitalocean", "m", map[string]any{"region": "fra1", "common": map[string]any{"cloudCredentialSecretName": other + ":cloud"}})
	looksAgain := func(reason string) {
		t.Helper()
		require.Equal(t, 5*time.Minute, testkit.ExpectReconciled(t, s.reconciler, s.obj).RequeueAfter)
		s.read()
		s.expect(rkev1.CredentialReadyCondition, metav1.ConditionFalse, reason)
	}
	looksAgain(rkev1.CredentialNotSharedReason)
	shared := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "cloud",
		Annotations: map[string]string{rkev1.AllowedNamespacesAnnotation: w.namespace}}, StringData: map[string]string{"other": "x"}}
	testkit.ExpectApplied(t, w.client, shared)
	looksAgain(rkev1.CredentialInvalidReason)
	near := w.machine("digitalocean", "near", map[string]any{"region": "fra1", "common": map[string]any{"cloudCredentialSecretName": "late"}})
	require.Zero(t, testkit.ExpectReconciled(t, near.reconciler, near.obj).RequeueAfter, "its own namespace is watched")
}

// A retry that the user asks for uses the present credential too, and every change counts once.
func TestCredential_retryUsesThePresentOne(t *testing.T) {
	s := credentialWorld(t)
	s.reconcile()
	s.fail(state.Create, 1, rkev1.ClassQuota, "droplet limit", false)
	first := s.reconcile()
	require.NotNil(t, first.NextAttemptTime)
	rotate("of-another-account")(s)
	require.EqualValues(t, 2, s.reconcile().Attempts, "another account has another quota")
	require.Equal(t, "of-another-account", s.tokenOf(state.Create, 2))
	s.fail(state.Create, 2, rkev1.ClassQuota, "droplet limit", false)
	status := s.reconcile()
	require.EqualValues(t, 2, status.Attempts)
	require.Less(t, status.NextAttemptTime.Sub(s.clock.Now()), 13*time.Minute, "back-off begins anew")
	s.annotate(rkev1.RetryAnnotation, "1")
	s.reconcile()
	require.Equal(t, "of-another-account", s.tokenOf(state.Create, 3))
}

// touch changes a Secret without changing what is in it.
func touch(s *subject, value string) {
	s.Helper()
	secret := testkit.ExpectExists(s, s.client, credentialSecret(s))
	secret.Annotations = map[string]string{"synced-at": value}
	s.update(secret)
}

// Some tools touch Secrets all the time. An attempt for each touch would be a loop of new servers.
func TestCredential_touchedIsNoOther(t *testing.T) {
	for name, class := range map[string]string{"quota": rkev1.ClassQuota, "unauthorized": rkev1.ClassUnauthorized} {
		t.Run(name, func(t *testing.T) {
			s := credentialWorld(t)
			s.reconcile()
			s.fail(state.Create, 1, class, "no", false)
			before := s.reconcile()
			for _, at := range []string{"1", "2", "3"} {
				touch(s, at)
				require.Equal(t, before, s.reconcile())
			}
			secret := credentialSecret(s)
			s.delete(secret)
			s.secret("cred", "Opaque", map[string]string{"accessToken": "first-token"})
			require.EqualValues(t, 1, s.reconcile().Attempts, "made anew, with the same in it")
			s.annotate(rkev1.RetryAnnotation, "1")
			require.EqualValues(t, 2, s.reconcile().Attempts, "the user may know more")
			s.fail(state.Create, 2, class, "no", false)
			s.reconcile()
			touch(s, "4")
			require.EqualValues(t, 2, s.reconcile().Attempts)
			rotate("other")(s)
			require.EqualValues(t, 3, s.reconcile().Attempts)
		})
	}
}

// The same for a remove: that the Secret goes is no reason to try again with what it held.
func TestCredential_removeIsPacedWithoutItsSecret(t *testing.T) {
	s := credentialWorld(t)
	s.ready()
	s.remove()
	s.refuse(state.Remove, 1)
	next := s.reconcile().NextAttemptTime
	dropCredential(s)
	status := s.reconcile()
	require.Equal(t, next, status.NextAttemptTime)
	require.Equal(t, "m-rm-1", status.JobName)
	require.Contains(t, s.expect(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.ClassUnauthorized).Message,
		"The Job used the credential of the last attempt: the credential Secret cred is not there")
	s.secret("cred", "Opaque", map[string]string{"accessToken": "right"})
	s.reconcile()
	require.Equal(t, "right", s.tokenOf(state.Remove, 2))
}
