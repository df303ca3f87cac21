package admission_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// stateWorld is an API server with the policies, and a machine's state in it.
type stateWorld struct {
	client.WithWatch
	task    jobrunner.Task
	applier apply.Applier
	// pod has the token of the machine's pod; unbound has its name and every right.
	pod, unbound client.Client
}

func newStateWorld(t *testing.T) *stateWorld {
	t.Helper()
	s := &stateWorld{WithWatch: testkit.Client(t, clientgoscheme.Scheme)}
	namespace := testkit.Namespace(t)
	s.task = jobrunner.Task{Hash: "0123456789abcdef", Try: 1, Credential: state.Credential{Name: "cloud", Env: map[string]string{"TOKEN": "t"}},
		Request: jobrunner.Request{Operation: state.Create, Attempt: 1, Namespace: namespace, StateSecret: jobrunner.StateSecretName("m"), InstanceName: "m",
			Machine: jobrunner.MachineRef{Namespace: namespace, Name: "m", UID: "u-1", Kind: "AcmeMachine"}, Driver: state.DriverRef{Name: "acme"}}}
	s.applier = apply.Applier{Client: s, Reader: s, Owner: "drover-machine"}
	enforce(t, s)
	s.claim(t)
	account := jobrunner.ServiceAccount(s.task)
	for _, obj := range []client.Object{account, jobrunner.Role(s.task), jobrunner.RoleBinding(s.task)} {
		require.NoError(t, s.Create(t.Context(), obj))
	}
	s.pod = withTokenOf(t, s, account)
	config := testkit.Config(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + account.Namespace + ":" + account.Name, Groups: []string{"system:masters"}}
	var err error
	s.unbound, err = client.New(config, client.Options{})
	require.NoError(t, err)
	awaitRefusal(t, func() error {
		return s.pod.Patch(t.Context(), s.state(), merge(`{"metadata":{"labels":{"x":"y"}}}`), client.DryRunAll)
	})
	return s
}

// claim is the manager's write.
func (s *stateWorld) claim(t *testing.T) {
	t.Helper()
	secret, err := jobrunner.StateSecret(s.task)
	require.NoError(t, err)
	require.NoError(t, s.applier.Write(t.Context(), secret))
}

func (s *stateWorld) state() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.task.Request.Namespace, Name: s.task.Request.StateSecret}}
}

func merge(patch string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(patch)) }

// A driver that takes its pod's token for itself changes neither what was claimed nor whose the state is.
func TestStatePolicy_keepsThePodOut(t *testing.T) {
	s := newStateWorld(t)
	// As an earlier manager left it.
	require.NoError(t, s.Patch(t.Context(), s.state(), merge(`{"data":{"credential.json":"e30K"}}`)))
	for name, patch := range map[string]string{
		"the hash of the request, for a Job without end": `{"metadata":{"annotations":{"drover.cattle.io/request-hash":"junk"}}}`,
		"the driver":                     `{"metadata":{"annotations":{"drover.cattle.io/driver":"{\"name\":\"another\"}"}}}`,
		"the account, to be one of none": `{"metadata":{"annotations":{"drover.cattle.io/pod-account":null}}}`,
		"all annotations":                `{"metadata":{"annotations":null}}`,
		"one more":                       `{"metadata":{"annotations":{"a":"b"}}}`,
		"the machine's UID":              `{"metadata":{"labels":{"drover.cattle.io/machine-uid":"another"}}}`,
		"all labels":                     `{"metadata":{"labels":null}}`,
		"the finalizer":                  `{"metadata":{"finalizers":null}}`,
		"one more finalizer":             `{"metadata":{"finalizers":["drover.cattle.io/machine","example.org/for-ever"]}}`,
		"an owner":                       `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"y","controller":true}]}}`,
		"the credential":                 `{"data":{"credential.json":"e30="}}`,
		"no credential":                  `{"data":{"credential.json":null}}`,
		"no data":                        `{"data":null}`,
		"the credential as a text":       `{"stringData":{"credential.json":"{}"}}`,
		"never a change":                 `{"immutable":true}`,
		"the type":                       `{"type":"Opaque"}`,
		"its own data and the claim":     `{"data":{"server.json":"e30="},"metadata":{"annotations":{"drover.cattle.io/claimed-attempt":"9"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			before := testkit.ExpectExists(t, s, s.state())
			err := s.pod.Patch(t.Context(), s.state(), merge(patch))
			require.True(t, apierrors.IsInvalid(err) || apierrors.IsForbidden(err), "%v", err)
			require.Equal(t, before, testkit.ExpectExists(t, s, s.state()))
		})
	}
}

// What a pod has to write, and what others write, is let through.
func TestStatePolicy_isInNobodysWay(t *testing.T) {
	s := newStateWorld(t)
	for _, key := range []string{state.ExtractedConfigKey, state.SSHPrivateKeyKey, state.SSHPublicKeyKey, state.SSHKnownHostsKey,
		state.ServerKey, state.JournalKey, state.ResultKey, state.LogKey} {
		for _, value := range []string{`"e30="`, `"e30K"`, `null`} {
			require.NoError(t, s.pod.Patch(t.Context(), s.state(), merge(fmt.Sprintf(`{"data":{%q:%s}}`, key, value))), key)
		}
	}
	require.NoError(t, s.pod.Patch(t.Context(), s.state(), merge(`{"data":{"server.json":"e30="}}`)))

	s.task.Request.Attempt, s.task.Hash, s.task.Credential.Env = 2, "fedcba9876543210", map[string]string{"TOKEN": "new"}
	s.claim(t)
	secret := testkit.ExpectExists(t, s, s.state())
	require.Equal(t, "2", secret.Annotations["drover.cattle.io/claimed-attempt"])
	require.Equal(t, "{}", string(secret.Data[state.ServerKey]))
	require.NoError(t, s.Patch(t.Context(), s.state(), merge(`{"metadata":{"annotations":{"a":"b"}}}`)), "an administrator")

	// What no account is noted on, by one who has the name that would be refused.
	metadata := `{"metadata":{"labels":{"a":"b"},"annotations":{"a":"b"}},"data":{"credential.json":"e30="}}`
	for name, secret := range map[string]*corev1.Secret{
		"plain":              {},
		"of the old manager": {Type: rkev1.MachineStateSecretType, ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"drover.cattle.io/claimed-attempt": "1"}}},
		"a result":           {Type: rkev1.MachineStateSecretType},
		"of another type":    {Type: "example.org/x", ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{rkev1.PodAccountAnnotation: "m-machine"}}},
		"of another pod":     {Type: rkev1.MachineStateSecretType, ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{rkev1.PodAccountAnnotation: "n-machine"}}},
	} {
		t.Run(name, func(t *testing.T) {
			secret.Namespace, secret.GenerateName = s.task.Request.Namespace, "s-"
			require.NoError(t, s.Create(t.Context(), secret))
			require.NoError(t, s.unbound.Patch(t.Context(), secret, merge(metadata)))
		})
	}
	require.Error(t, s.unbound.Patch(t.Context(), s.state(), merge(metadata)))
}
