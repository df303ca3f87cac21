package jobrunner_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// stage is a namespace on a real API server that lets only restricted pods in.
type stage struct {
	client.WithWatch
	namespace string
	applier   apply.Applier
}

func newStage(t *testing.T) *stage {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	s := &stage{WithWatch: testkit.Client(t, scheme), namespace: testkit.Namespace(t)}
	namespace := &corev1.Namespace{}
	require.NoError(t, s.Get(t.Context(), client.ObjectKey{Name: s.namespace}, namespace))
	namespace.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
	require.NoError(t, s.Update(t.Context(), namespace))
	// Nobody here makes the namespace's own account.
	require.NoError(t, s.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "default"}}))
	s.applier = apply.Applier{Client: s, Reader: s, Owner: "drover-machine"}
	return s
}

// task is one in this namespace.
func (s *stage) task(operation state.Operation, name string) jobrunner.Task {
	given := task(operation)
	given.Owner = nil
	if operation == state.Probe {
		given = probe()
		given.Request.Driver.Name = name
	}
	given.Request.Machine.Namespace, given.Request.Namespace, given.Request.Machine.Name = s.namespace, s.namespace, name
	given.Request.StateSecret = jobrunner.StateSecretName(name)
	if operation == state.Scan {
		given.Base = name
	}
	return given
}

// objects are all that a task is made of, the Job last.
func objects(t *testing.T, given jobrunner.Task) []client.Object {
	t.Helper()
	secret, err := jobrunner.StateSecret(given)
	require.NoError(t, err)
	secret.Finalizers = nil
	request, err := jobrunner.RequestSecret(given)
	require.NoError(t, err)
	job := jobrunner.Job(given)
	if given.Request.Operation == state.Probe {
		job = jobrunner.ProbeJob(given)
	}
	return []client.Object{secret, jobrunner.ServiceAccount(given), jobrunner.Role(given), jobrunner.RoleBinding(given), request, job}
}

// names that users give, and that must become names the API takes.
var oddNames = []string{"m", "pool1-abc", "pool.1.abc", strings.Repeat("long-", 40) + "x", "0", "a.b-c.d", strings.Repeat("a", 253)}

// The API server takes all that we build, for every operation, name and setting; a kubelet of a restricted namespace the pod.
func TestServer_takesWhatWeBuild(t *testing.T) {
	s := newStage(t)
	plain := jobrunner.Settings{Image: "registry.test/machine:v1"}
	full := jobrunner.Settings{Image: "registry.test/machine@sha256:" + strings.Repeat("a", 64), ImagePullPolicy: corev1.PullAlways, ImagePullSecrets: []string{"regcred"},
		NodeSelector: map[string]string{"pool": "jobs"}, Tolerations: []corev1.Toleration{{Key: "jobs", Operator: corev1.TolerationOpExists}},
		Proxy: jobrunner.Proxy{HTTP: "http://p:1", HTTPS: "http://p:1", No: "example.test"}, CABundle: []byte("PEM"), Deadline: time.Minute,
		TTL: time.Minute, GracePeriod: time.Second}
	for _, operation := range []state.Operation{state.Create, state.Remove, state.Probe, state.Scan} {
		for i, name := range oddNames {
			for _, settings := range []jobrunner.Settings{plain, full} {
				t.Run(fmt.Sprintf("%s of %.20s %d", operation, name, len(settings.CABundle)), func(t *testing.T) {
					given := s.task(operation, name)
					given.Settings, given.Request.Attempt = settings, int32(i+1)
					for _, obj := range objects(t, given) {
						require.NoError(t, s.Create(t.Context(), obj, client.DryRunAll, client.FieldValidation("Strict")), "%T %s", obj, obj.GetName())
					}
					// The pod that the Job controller would make.
					job := jobrunner.Job(given)
					if operation == state.Probe {
						job = jobrunner.ProbeJob(given)
					}
					job.Spec.Template.Spec.ServiceAccountName = "" // that of the task is not there in a dry run
					pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, GenerateName: "p-", Labels: job.Spec.Template.Labels},
						Spec: job.Spec.Template.Spec}
					require.NoError(t, s.Create(t.Context(), pod, client.DryRunAll))
				})
			}
		}
	}
}

// as speaks with the token that the pod of a task gets.
func (s *stage) as(t *testing.T, given jobrunner.Task) client.Client {
	t.Helper()
	account := jobrunner.ServiceAccount(given)
	token := &authenticationv1.TokenRequest{}
	require.NoError(t, s.SubResource("token").Create(t.Context(), account, token))
	config := rest.AnonymousClientConfig(testkit.Config(t))
	config.BearerToken = token.Status.Token
	pod, err := client.New(config, client.Options{Scheme: s.Scheme()})
	require.NoError(t, err)
	return pod
}

// play makes all of a task but its Job.
func (s *stage) play(t *testing.T, given jobrunner.Task) {
	t.Helper()
	all := objects(t, given)
	for _, obj := range all[:len(all)-1] {
		require.NoError(t, s.Create(t.Context(), obj))
	}
}

// A driver that takes its pod's token for itself reaches its own machine's state and nothing else.
func TestServer_aPodReachesItsOwnStateOnly(t *testing.T) {
	s := newStage(t)
	mine, other := s.task(state.Create, "mine"), s.task(state.Create, "other")
	other.Request.Machine.UID = "another"
	s.play(t, mine)
	s.play(t, other)
	pod := s.as(t, mine)

	own := &corev1.Secret{}
	ownKey := client.ObjectKey{Namespace: s.namespace, Name: mine.Request.StateSecret}
	require.NoError(t, pod.Get(t.Context(), ownKey, own))
	require.NoError(t, pod.Patch(t.Context(), own, client.RawPatch(types.MergePatchType, []byte(`{"stringData":{"server.json":"{}"}}`))))

	secret := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	}
	for name, attempt := range map[string]func() error{
		"another's state": func() error {
			return pod.Get(t.Context(), client.ObjectKeyFromObject(secret(other.Request.StateSecret)), &corev1.Secret{})
		},
		"another's state, written": func() error {
			return pod.Patch(t.Context(), secret(other.Request.StateSecret), client.RawPatch(types.MergePatchType, []byte(`{"data":null}`)))
		},
		"its own request": func() error {
			return pod.Get(t.Context(), client.ObjectKeyFromObject(secret(mine.Name())), &corev1.Secret{})
		},
		"all Secrets":         func() error { return pod.List(t.Context(), &corev1.SecretList{}, client.InNamespace(s.namespace)) },
		"to delete its state": func() error { return pod.Delete(t.Context(), own) },
		"a new Secret":        func() error { return pod.Create(t.Context(), secret("new")) },
		"a pod":               func() error { return pod.List(t.Context(), &corev1.PodList{}, client.InNamespace(s.namespace)) },
		"a Job":               func() error { return pod.Create(t.Context(), jobrunner.Job(other)) },
		"a Role":              func() error { return pod.Create(t.Context(), jobrunner.Role(s.task(state.Create, "more"))) },
		"its own Role":        func() error { return pod.Delete(t.Context(), jobrunner.Role(mine)) },
		"a token of another": func() error {
			return pod.SubResource("token").Create(t.Context(), jobrunner.ServiceAccount(other), &authenticationv1.TokenRequest{})
		},
		"nodes":                  func() error { return pod.List(t.Context(), &corev1.NodeList{}) },
		"ConfigMaps":             func() error { return pod.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(s.namespace)) },
		"Secrets of other names": func() error { return pod.List(t.Context(), &corev1.SecretList{}) },
	} {
		require.True(t, apierrors.IsForbidden(attempt()), "%s: %v", name, attempt())
	}
}

// The pod of a probe writes the cache of drivers, but takes nothing out of it that it does not name, and reads no list.
func TestServer_aProbeReachesTheCache(t *testing.T) {
	s := newStage(t)
	given := s.task(state.Probe, "acme")
	s.play(t, given)
	pod := s.as(t, given)
	part := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "driver-x-0"}}
	require.NoError(t, pod.Create(t.Context(), part))
	require.NoError(t, pod.Get(t.Context(), client.ObjectKeyFromObject(part), part))
	require.True(t, apierrors.IsForbidden(pod.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(s.namespace))))
	require.True(t, apierrors.IsForbidden(pod.DeleteAllOf(t.Context(), part, client.InNamespace(s.namespace))))
	elsewhere := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace(t), Name: "driver-x-0"}}
	require.True(t, apierrors.IsForbidden(pod.Create(t.Context(), elsewhere)))
}

// The state Secret has two writers: what the pod wrote stays when the manager claims the next attempt, and the manager's
// own words are replaced.
func TestServer_stateHasTwoWriters(t *testing.T) {
	s := newStage(t)
	first := s.task(state.Create, "m")
	s.claim(t, first)
	for _, access := range []client.Object{jobrunner.ServiceAccount(first), jobrunner.Role(first), jobrunner.RoleBinding(first)} {
		require.NoError(t, s.Create(t.Context(), access))
	}
	pod := s.as(t, first)
	key := client.ObjectKey{Namespace: s.namespace, Name: first.Request.StateSecret}
	secret := &corev1.Secret{}
	require.NoError(t, pod.Get(t.Context(), key, secret))
	require.NoError(t, pod.Patch(t.Context(), secret, client.RawPatch(types.MergePatchType,
		[]byte(`{"stringData":{"journal.json":"{\"phase\":\"Recorded\"}","extractedConfig":"a tar.gz"}}`))))

	second := first
	second.Request.Attempt, second.Try, second.Hash = 2, 2, "fedcba9876543210"
	s.claim(t, second)
	require.NoError(t, s.Get(t.Context(), key, secret))
	require.Equal(t, "a tar.gz", string(secret.Data[state.ExtractedConfigKey]))
	require.NotContains(t, secret.Data, state.CredentialKey)
	claim, ok := state.ReadClaim(secret.Annotations)
	require.True(t, ok)
	require.Equal(t, state.Claim{Operation: state.Create, Attempt: 2, Try: 2, Hash: "fedcba9876543210"}, claim)
}

func (s *stage) claim(t *testing.T, given jobrunner.Task) {
	t.Helper()
	secret, err := jobrunner.StateSecret(given)
	require.NoError(t, err)
	secret.Finalizers = nil
	_, err = s.applier.Apply(t.Context(), secret)
	require.NoError(t, err)
}
