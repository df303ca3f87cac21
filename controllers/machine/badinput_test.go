package machine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	managementv3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// badInput is what a user got wrong, what is said of it, and how it is mended.
type badInput struct {
	name      string
	driver    string
	machine   string
	spec      map[string]any
	prepare   func(*world, *subject)
	condition string
	reason    string
	message   string
	mend      func(*world, *subject)
}

func badInputs() []badInput {
	spec := func(credential string) map[string]any {
		return map[string]any{"region": "fra1", "common": map[string]any{"cloudCredentialSecretName": credential}}
	}
	return []badInput{
		{name: "unknown driver", driver: "generic", spec: map[string]any{"ipAddress": "198.18.0.9"},
			condition: rkev1.DriverReadyCondition, reason: rkev1.DriverNotFoundReason, message: "create one named generic",
			mend: func(w *world, _ *subject) { w.nodeDriver("generic", "local://", nil) }},
		{name: "inactive driver", driver: "generic", spec: map[string]any{"ipAddress": "198.18.0.9"},
			prepare: func(w *world, _ *subject) {
				w.nodeDriver("generic", "local://", func(nd *managementv3.NodeDriver) { nd.Spec.Active = false })
			},
			condition: rkev1.DriverReadyCondition, reason: rkev1.DriverNotReadyReason, message: "spec.active",
			mend: func(w *world, _ *subject) {
				nd := testkit.ExpectExists(w, w.client, &managementv3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "generic"}})
				nd.Spec.Active = true
				w.update(nd)
			}},
		{name: "SSH key that is none", driver: "generic", spec: map[string]any{"ipAddress": "198.18.0.9", "common": map[string]any{"cloudCredentialSecretName": "other"}},
			prepare: func(w *world, _ *subject) {
				w.nodeDriver("generic", "local://", nil)
				w.secret("other", "Opaque", map[string]string{"sshKey": "/root/.ssh/id_rsa"})
			},
			condition: rkev1.CredentialReadyCondition, reason: rkev1.CredentialInvalidReason, message: "key sshKey: must be the content of a private key",
			mend: func(w *world, _ *subject) { w.setKey("other", "sshKey", "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n") }},
		{name: "Windows in a machine that is older than the rule",
			prepare:   func(w *world, s *subject) { s.withOS(w, "windows") },
			condition: rkev1.DriverReadyCondition, reason: rkev1.SpecInvalidReason, message: "field os: is Windows, which is not supported yet",
			mend: func(w *world, s *subject) { s.withOS(w, "linux") }},
		{name: "no credential named", spec: map[string]any{"region": "fra1"},
			condition: rkev1.CredentialReadyCondition, reason: rkev1.CredentialMissingReason, message: "accessToken",
			mend: func(_ *world, s *subject) {
				s.read()
				require.NoError(s, unstructured.SetNestedField(s.obj.Object, "cred", "spec", "common", "cloudCredentialSecretName"))
				s.update(s.obj)
			}},
		{name: "credential missing", spec: spec("other"),
			condition: rkev1.CredentialReadyCondition, reason: rkev1.CredentialMissingReason, message: "accessToken",
			mend: func(w *world, _ *subject) { w.secret("other", "Opaque", map[string]string{"accessToken": "x"}) }},
		{name: "credential without its key", spec: spec("other"),
			prepare:   func(w *world, _ *subject) { w.secret("other", "Opaque", map[string]string{"unrelated": "x"}) },
			condition: rkev1.CredentialReadyCondition, reason: rkev1.CredentialInvalidReason, message: "accessToken is missing",
			mend: func(w *world, _ *subject) { w.setKey("other", "accessToken", "x") }},
		{name: "credential is another kind of Secret", spec: spec("other"),
			prepare: func(w *world, _ *subject) {
				w.secret("other", "example.org/token", map[string]string{"accessToken": "x"})
			},
			condition: rkev1.CredentialReadyCondition, reason: rkev1.CredentialInvalidReason, message: "of type example.org/token"},
		{name: "bootstrap Secret missing",
			prepare: func(w *world, _ *subject) {
				w.delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "bootstrap"}})
			},
			condition: rkev1.BootstrapReadyCondition, reason: rkev1.BootstrapSecretMissingReason, message: "bootstrap Secret bootstrap",
			mend: func(w *world, _ *subject) {
				w.secret("bootstrap", "Opaque", map[string]string{"value": "#!/bin/sh"})
			}},
		{name: "bootstrap Secret without value",
			prepare: func(w *world, _ *subject) {
				w.delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "bootstrap"}})
				w.secret("bootstrap", "Opaque", map[string]string{"data": "#!/bin/sh"})
			},
			condition: rkev1.BootstrapReadyCondition, reason: rkev1.BootstrapSecretInvalidReason, message: "no key value",
			mend: func(w *world, _ *subject) { w.setKey("bootstrap", "value", "#!/bin/sh") }},
		{name: "bootstrap Secret of a name that none can have",
			prepare:   func(w *world, s *subject) { s.bootstrapFrom(w, "../../x") },
			condition: rkev1.BootstrapReadyCondition, reason: rkev1.BootstrapSecretInvalidReason, message: `CAPI Machine m is "../../x", which is not a valid name of a Secret`,
			mend: func(w *world, s *subject) { s.bootstrapFrom(w, "bootstrap") }},
		{name: "user data over the cloud's limit",
			prepare: func(w *world, _ *subject) {
				w.setKey("bootstrap", "value", "#!/bin/sh\n"+incompressible(80<<10))
			},
			condition: rkev1.BootstrapReadyCondition, reason: rkev1.UserDataTooLargeReason, message: "at most 65536",
			mend: func(w *world, _ *subject) { w.setKey("bootstrap", "value", "#!/bin/sh\n") }},
		{name: "limit of the name is no number",
			prepare:   func(_ *world, s *subject) { s.annotate(rkev1.HostnameLengthLimitAnnotation, "five") },
			condition: rkev1.DriverReadyCondition, reason: rkev1.SpecInvalidReason, message: "between 10 and 63",
			mend: func(_ *world, s *subject) { s.annotate(rkev1.HostnameLengthLimitAnnotation, "20") }},
		{name: "name too long for the cloud", driver: "google", machine: "g" + strings.Repeat("o", 61), spec: map[string]any{"authEncodedJson": "{}"},
			prepare:   func(_ *world, s *subject) { s.annotate(rkev1.HostnameLengthLimitAnnotation, "63") },
			condition: rkev1.DriverReadyCondition, reason: rkev1.NameTooLongReason, message: "58",
			mend: func(_ *world, s *subject) { s.annotate(rkev1.HostnameLengthLimitAnnotation, "40") }},
	}
}

// bootstrapFrom names another Secret in the CAPI Machine.
func (s *subject) bootstrapFrom(w *world, secret string) {
	testkit.ExpectExists(w, w.client, s.capi)
	s.capi.Spec.Bootstrap.DataSecretName = &secret
	w.update(s.capi)
}

// withOS gives the kind an operating system that no schema has seen.
func (s *subject) withOS(w *world, value string) {
	fields := slices.DeleteFunc(slices.Clone(s.kind.Fields), func(field crdgen.Field) bool { return field.Name == "os" })
	s.kind.Fields = append(fields, crdgen.Field{Name: "os", Flag: "digitalocean-os", Type: crdgen.String, Default: value})
	s.reconciler = w.manager().For(s.kind)
}

// TestBadInput: each gets a condition that says what to do, nothing is made, and mending it is all it takes.
func TestBadInput(t *testing.T) {
	for _, tt := range badInputs() {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			if tt.driver == "" {
				tt.driver = "digitalocean"
			}
			if tt.machine == "" {
				tt.machine = "m"
			}
			if tt.spec == nil {
				tt.spec = droplet()
			}
			s := w.machine(tt.driver, tt.machine, tt.spec)
			if tt.prepare != nil {
				tt.prepare(w, s)
			}
			status := s.reconcile()
			c := s.expect(tt.condition, metav1.ConditionFalse, tt.reason)
			require.Contains(t, c.Message, tt.message)
			s.expect(rkev1.ReadyCondition, metav1.ConditionFalse, tt.reason)
			require.Equal(t, rkev1.PhasePending, status.Phase)
			testkit.ExpectNotFound(t, s.client, s.job(state.Create, 1), s.stateSecret())
			require.Len(t, s.events(), 1)
			s.reconcile()
			require.Empty(t, s.events(), "nothing changed")
			if tt.mend == nil {
				return
			}
			tt.mend(w, s)
			require.Equal(t, rkev1.PhaseCreating, s.reconcile().Phase)
			testkit.ExpectExists(t, s.client, s.job(state.Create, 1))
		})
	}
}

func TestBadInput_credentialOfAnotherNamespace(t *testing.T) {
	w := newWorld(t)
	other := testkit.Namespace(t)
	s := w.machine("digitalocean", "m", map[string]any{"region": "fra1", "common": map[string]any{"cloudCredentialSecretName": other + ":cred"}})
	s.reconcile()
	missing := s.expect(rkev1.CredentialReadyCondition, metav1.ConditionFalse, rkev1.CredentialNotSharedReason)

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "cred"}, StringData: map[string]string{"accessToken": "shared"}}
	testkit.ExpectApplied(t, w.client, secret)
	s.reconcile()
	closed := s.expect(rkev1.CredentialReadyCondition, metav1.ConditionFalse, rkev1.CredentialNotSharedReason)
	require.Equal(t, missing.Message, closed.Message, "nobody learns which Secrets another namespace has")
	require.Contains(t, closed.Message, rkev1.AllowedNamespacesAnnotation)

	secret.Annotations = map[string]string{rkev1.AllowedNamespacesAnnotation: "x, " + w.namespace}
	w.update(secret)
	s.reconcile()
	require.Equal(t, "shared", s.requestOf(state.Create, 1).CredentialEnv["DIGITALOCEAN_ACCESS_TOKEN"])
}

// A credential as Rancher's user interface makes it, in a namespace that the manager was told to trust.
func TestCredential_ofRanchersUserInterface(t *testing.T) {
	w := newWorld(t)
	global := testkit.Namespace(t)
	w.trusted = []string{global}
	for _, name := range []string{"cc-x7k2p", "other"} {
		testkit.ExpectApplied(t, w.client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: global, Name: name},
			StringData: map[string]string{"digitaloceancredentialConfig-accessToken": "ranchers"}})
	}
	s := w.machine("digitalocean", "m", map[string]any{"region": "fra1", "common": map[string]any{"cloudCredentialSecretName": global + ":cc-x7k2p"}})
	s.reconcile()
	require.Equal(t, "ranchers", s.requestOf(state.Create, 1).CredentialEnv["DIGITALOCEAN_ACCESS_TOKEN"])

	other := w.machine("digitalocean", "other", map[string]any{"region": "fra1", "common": map[string]any{"cloudCredentialSecretName": global + ":other"}})
	other.reconcile()
	other.expect(rkev1.CredentialReadyCondition, metav1.ConditionFalse, rkev1.CredentialNotSharedReason)
}

func TestBadInput_fieldOfTheWrongTypeIsRefusedAtOnce(t *testing.T) {
	w := newWorld(t)
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"region": int64(5)}}}
	obj.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind("DigitaloceanMachine"))
	obj.SetNamespace(w.namespace)
	obj.SetName("m")
	err := w.client.Create(t.Context(), obj)
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	require.ErrorContains(t, err, "spec.region")
}

func TestBadInput_integerThatIsNoneInAString(t *testing.T) {
	s := newWorld(t).machine("digitalocean", "m", map[string]any{"sshPort": "2222", "common": map[string]any{"cloudCredentialSecretName": "cred"}})
	s.reconcile()
	require.EqualValues(t, 2222, s.requestOf(state.Create, 1).Options["digitalocean-ssh-port"])
}

func TestBadInput_longNameIsCut(t *testing.T) {
	name := "machine." + strings.Repeat("very-long-", 12) + "x"
	s := newWorld(t).machine("digitalocean", name, droplet())
	s.annotate(rkev1.HostnameLengthLimitAnnotation, "20")
	status := s.reconcile()
	require.Len(t, s.requestOf(state.Create, 1).InstanceName, 20)
	require.Equal(t, s.requestOf(state.Create, 1).InstanceName, status.InstanceName)

	// What the server is called does not change any more.
	s.annotate(rkev1.HostnameLengthLimitAnnotation, "30")
	s.fail(state.Create, 1, rkev1.ClassTransient, "try again", false)
	s.annotate(rkev1.RetryAnnotation, "1")
	s.reconcile()
	require.Equal(t, status.InstanceName, s.requestOf(state.Create, 2).InstanceName)
}

func TestBadInput_twoMachinesWithOneName(t *testing.T) {
	w := newWorld(t)
	w.nodeDriver("generic", "local://", nil)
	first := w.machine("digitalocean", "m", droplet())
	first.ready()
	require.NoError(t, w.client.Delete(t.Context(), first.capi))
	second := w.machine("generic", "m", map[string]any{"ipAddress": "198.18.0.9"})
	second.reconcile()
	c := second.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.NameTakenReason)
	require.Contains(t, c.Message, "DigitaloceanMachine m")
	require.Equal(t, first.obj.GetUID(), testkit.ExpectExists(t, w.client, first.stateSecret()).OwnerReferences[0].UID)

	// The second goes without touching the first one's server.
	second.delete(second.obj)
	testkit.ExpectReconciled(t, second.reconciler, second.obj)
	second.gone()
	require.True(t, first.reconcile().Ready)
	testkit.ExpectNotFound(t, w.client, first.job(state.Remove, 1))
}

func TestBadInput_foreignJobOfOurName(t *testing.T) {
	w := newWorld(t)
	s := w.machine("digitalocean", "m", droplet())
	job := s.job(state.Create, 1)
	job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "x"}}}
	require.NoError(t, w.client.Create(t.Context(), job))
	s.reconcile()
	s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.NameTakenReason)
	require.NoError(t, w.client.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	require.Equal(t, rkev1.PhaseCreating, s.reconcile().Phase)
}

// access are what a Job needs, each under the name that the machine's first attempt gives it.
func (s *subject) access() map[string]client.Object {
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: jobrunner.AccessName(s.name)}
	return map[string]client.Object{
		"ServiceAccount": &corev1.ServiceAccount{ObjectMeta: meta},
		"Role":           &rbacv1.Role{ObjectMeta: meta},
		"RoleBinding":    &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "admin"}},
		"Secret":         &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: jobrunner.JobName(s.name, state.Create, 1)}},
	}
}

// A machine's name is a user's choice, and what has the names that follow from it may be somebody else's.
func TestBadInput_foreignAccess(t *testing.T) {
	w := newWorld(t)
	another := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "ci", UID: "another", Controller: new(true)}
	for i, kind := range []string{"ServiceAccount", "Role", "RoleBinding", "Secret"} {
		for j, owners := range [][]metav1.OwnerReference{nil, {another}} {
			t.Run(fmt.Sprintf("%s %d", kind, j), func(t *testing.T) {
				s := w.machine("digitalocean", fmt.Sprintf("ci%d%d", i, j), droplet())
				foreign := s.access()[kind]
				foreign.SetOwnerReferences(owners)
				require.NoError(t, w.client.Create(t.Context(), foreign))
				before := testkit.ExpectExists(t, w.client, foreign).GetResourceVersion()
				result := testkit.ExpectReconciled(t, s.reconciler, s.obj)
				s.read()
				c := s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.NameTakenReason)
				require.Contains(t, c.Message, fmt.Sprintf("the %s %s does not belong to this machine", kind, foreign.GetName()))
				require.Equal(t, time.Minute, result.RequeueAfter, "nobody watches it")
				s.reconcile()
				require.Equal(t, before, testkit.ExpectExists(t, w.client, foreign).GetResourceVersion(), "it is left as it was")
				testkit.ExpectNotFound(t, w.client, s.job(state.Create, 1))

				require.NoError(t, w.client.Delete(t.Context(), foreign))
				require.Equal(t, rkev1.PhaseCreating, s.reconcile().Phase)
			})
		}
	}
}

// What an earlier machine of the same name left is no obstacle: the garbage collector may not have come to it, and a backup
// brings it back without owners.
func TestBadInput_accessOfAnEarlierMachine(t *testing.T) {
	w := newWorld(t)
	for name, leave := range map[string]func(*subject, client.Object){
		"left": func(s *subject, obj client.Object) {
			obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: s.obj.GetAPIVersion(), Kind: s.obj.GetKind(), Name: s.name, UID: "earlier", Controller: new(true)}})
		},
		"restored": func(_ *subject, obj client.Object) {
			obj.SetLabels(map[string]string{rkev1.MachineUIDLabel: "earlier"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := w.machine("digitalocean", name, droplet())
			for _, obj := range s.access() {
				leave(s, obj)
				require.NoError(t, w.client.Create(t.Context(), obj))
			}
			require.Equal(t, rkev1.PhaseCreating, s.reconcile().Phase)
			for kind, obj := range s.access() {
				now := testkit.ExpectExists(t, w.client, obj)
				require.True(t, metav1.IsControlledBy(now, s.obj), kind)
				require.Len(t, now.GetOwnerReferences(), 1, kind)
			}
			binding := testkit.ExpectExists(t, w.client, s.access()["RoleBinding"]).(*rbacv1.RoleBinding)
			require.Equal(t, jobrunner.AccessName(s.name), binding.RoleRef.Name)
		})
	}
}

func TestBadInput_foreignAccessOfALaterAttempt(t *testing.T) {
	s := begun(t)
	s.fail(state.Create, 1, rkev1.ClassTransient, "try again", false)
	s.secret(jobrunner.JobName("m", state.Create, 2), "Opaque", nil)
	s.annotate(rkev1.RetryAnnotation, "1")
	s.reconcile()
	c := s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.NameTakenReason)
	require.Contains(t, c.Message, "the Secret m-create-2 does not belong")
	testkit.ExpectNotFound(t, s.client, s.job(state.Create, 2))
}

func TestFailure_isKeptAndPaced(t *testing.T) {
	s := begun(t)
	s.events()
	s.fail(state.Create, 1, rkev1.ClassQuota, "you have reached your droplet limit", false)
	status := s.reconcile()
	c := s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.WaitingForRetryReason)
	require.Contains(t, c.Message, "droplet limit")
	require.Equal(t, rkev1.PhaseFailed, status.Phase)
	require.Equal(t, rkev1.CreateErrorReason, status.FailureReason)
	require.Equal(t, "you have reached your droplet limit", status.FailureMessage)
	require.Equal(t, "Quota", status.LastAttempt.Class)
	require.Equal(t, "the log of the driver\n", status.LastAttempt.LogTail)
	require.Len(t, s.events(), 1)

	// The Job may go; what it said stays.
	s.delete(s.job(state.Create, 1))
	s.dropJobFinalizers()
	result := testkit.ExpectReconciled(t, s.reconciler, s.obj)
	require.Equal(t, status, s.read())
	require.Empty(t, s.events())
	require.InDelta(t, (11 * time.Minute).Seconds(), result.RequeueAfter.Seconds(), 61)

	s.clock.SetTime(status.NextAttemptTime.Add(time.Second))
	status = s.reconcile()
	require.EqualValues(t, 2, status.Attempts)
	s.expect(rkev1.CreateJobCondition, metav1.ConditionUnknown, rkev1.JobRunningReason)
	s.fail(state.Create, 2, rkev1.ClassQuota, "you have reached your droplet limit.", false)
	status = s.reconcile()
	require.NotContains(t, s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.WaitingForRetryReason).Message, "..", "one full stop ends a sentence")
	require.EqualValues(t, 2, status.LastAttempt.Number)
	require.Greater(t, status.NextAttemptTime.Sub(s.clock.Now()), 19*time.Minute, "each wait is longer")
	s.clock.SetTime(status.NextAttemptTime.Add(time.Second))
	s.reconcile()
	s.dropJobFinalizers()
	testkit.ExpectNotFound(t, s.client, s.job(state.Create, 2))
	s.succeed(3)
	status = s.reconcile()
	require.True(t, status.Ready)
	require.Empty(t, status.FailureReason)
}

// What only a user can mend is tried again when he has mended it, or asks for it, or the manager got other settings.
func TestFailure_exhaustedUntilSomethingChanges(t *testing.T) {
	settings := func(change func(*jobrunner.Settings)) func(*subject) {
		return func(s *subject) {
			change(&s.settings)
			s.reconciler = s.manager().For(s.kind)
		}
	}
	changes := map[string]func(*subject){
		"retry annotation": func(s *subject) { s.annotate(rkev1.RetryAnnotation, "now") },
		"spec": func(s *subject) {
			s.read()
			require.NoError(s, unstructured.SetNestedField(s.obj.Object, "ams3", "spec", "region"))
			s.update(s.obj)
		},
		"credential": func(s *subject) {
			s.setKey("cred", "accessToken", "right")
		},
		"bootstrap Secret": func(s *subject) {
			s.setKey("bootstrap", "value", "#!/bin/sh\nmended\n")
		},
		"proxy": settings(func(to *jobrunner.Settings) { to.Proxy.HTTPS = "http://proxy.test:3128" }),
		"CA":    settings(func(to *jobrunner.Settings) { to.CABundle = []byte("-----BEGIN CERTIFICATE-----") }),
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			s := begun(t)
			s.fail(state.Create, 1, rkev1.ClassInvalid, "no such region", false)
			status := s.reconcile()
			says := s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.AttemptsExhaustedReason).Message
			require.Contains(t, says, "bootstrap data")
			require.Contains(t, says, "proxy, CA")
			require.Nil(t, status.NextAttemptTime)
			s.clock.SetTime(start.Add(1000 * time.Hour))
			require.EqualValues(t, 1, s.reconcile().Attempts)
			change(s)
			require.EqualValues(t, 2, s.reconcile().Attempts)
			require.EqualValues(t, 2, s.requestOf(state.Create, 2).Attempt)
			require.EqualValues(t, 2, s.reconcile().Attempts, "a change counts once")
		})
	}
}

func TestRunning_sayWhatHoldsThePodUp(t *testing.T) {
	s := begun(t)
	job := testkit.ExpectExists(t, s.client, s.job(state.Create, 1))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "p", Labels: job.Spec.Template.Labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "machine", Image: "x"}}, ServiceAccountName: "m-machine", AutomountServiceAccountToken: new(bool)}}
	require.NoError(t, s.client.Create(t.Context(), pod))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "machine", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}
	require.NoError(t, s.client.Status().Update(t.Context(), pod))
	result := testkit.ExpectReconciled(t, s.reconciler, s.obj)
	require.Equal(t, 5*time.Minute, result.RequeueAfter, "a safety net only: the pod is watched")
	s.read()
	c := s.expect(rkev1.CreateJobCondition, metav1.ConditionUnknown, rkev1.ImageReason)
	require.Contains(t, c.Message, "no such image")
}

// incompressible is text that zipping does not help, always the same.
func incompressible(length int) string {
	var b strings.Builder
	random := rand.New(rand.NewPCG(1, 2))
	for b.Len() < length {
		b.WriteByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[random.IntN(64)])
	}
	return b.String()
}
