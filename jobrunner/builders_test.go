package jobrunner_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit/golden"
)

func task(operation state.Operation) jobrunner.Task {
	yes := true
	return jobrunner.Task{
		Settings: jobrunner.Settings{Image: "registry.test/drover-machine:v1"},
		Request: jobrunner.Request{
			Operation: operation, Attempt: 1,
			Machine: jobrunner.MachineRef{Namespace: "team-a", Name: "pool1-abc", UID: "11111111-2222-3333-4444-555555555555",
				Kind: "DigitaloceanMachine", ClusterName: "c1", ClusterUID: "cluster-uid"},
			Driver:        state.DriverRef{Name: "digitalocean", Builtin: true},
			InstanceName:  "pool1-abc",
			CredentialEnv: map[string]string{"DIGITALOCEAN_ACCESS_TOKEN": "marker-secret"},
			Options:       map[string]any{"digitalocean-region": "fra1"},
			Namespace:     "team-a", StateSecret: "pool1-abc-machine-state",
			HasBootstrap: operation == state.Create,
		},
		Bootstrap: []byte("#!/bin/sh\n"),
		Owner: &metav1.OwnerReference{APIVersion: "rke-machine.cattle.io/v1", Kind: "DigitaloceanMachine", Name: "pool1-abc",
			UID: types.UID("11111111-2222-3333-4444-555555555555"), Controller: &yes, BlockOwnerDeletion: &yes},
		CAPIMachine: "pool1-abc",
		Hash:        "0123456789abcdef", Try: 1,
	}
}

func probe() jobrunner.Task {
	t := task(state.Probe)
	t.Request.Machine = jobrunner.MachineRef{}
	t.Request.Driver = state.DriverRef{Name: "linode", URL: "https://host/linode.tar.gz", Checksum: strings.Repeat("a", 64)}
	t.Request.Options, t.Request.CredentialEnv, t.Request.InstanceName = nil, nil, ""
	t.Request.Namespace, t.Request.StateSecret = "drover-drivers", "probe-linode-1"
	t.Owner, t.CAPIMachine, t.Hash = nil, "", ""
	return t
}

// TestGolden shows the objects whole: a change of any field must be seen in review.
func TestGolden(t *testing.T) {
	hardened := task(state.Remove)
	hardened.Settings = jobrunner.Settings{
		Image: "registry.test/drover-machine:v1", ImagePullPolicy: corev1.PullAlways, ImagePullSecrets: []string{"regcred"},
		NodeSelector: map[string]string{"pool": "jobs"},
		Tolerations:  []corev1.Toleration{{Key: "jobs", Operator: corev1.TolerationOpExists}},
		Proxy:        jobrunner.Proxy{HTTPS: "http://proxy:3128", No: "10.0.0.0/8"},
		CABundle:     []byte("PEM"), Deadline: 5 * time.Minute, TTL: time.Hour, GracePeriod: time.Minute,
	}
	objects := map[string][]any{
		"create": {stateSecret(t, task(state.Create)), jobrunner.ServiceAccount(task(state.Create)),
			jobrunner.Role(task(state.Create)), jobrunner.RoleBinding(task(state.Create)), jobrunner.Job(task(state.Create))},
		"remove": {jobrunner.Job(hardened)},
		"probe": {jobrunner.ResultSecret(probe()), jobrunner.ServiceAccount(probe()), jobrunner.Role(probe()),
			jobrunner.RoleBinding(probe()), jobrunner.ProbeJob(probe())},
	}
	for name, list := range objects {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			for _, obj := range list {
				text, err := yaml.Marshal(obj)
				require.NoError(t, err)
				got.WriteString("---\n")
				got.Write(text)
			}
			golden.Require(t, "testdata/"+name+".yaml", got.String())
		})
	}
}

func stateSecret(t *testing.T, from jobrunner.Task) *corev1.Secret {
	t.Helper()
	secret, err := jobrunner.StateSecret(from)
	require.NoError(t, err)
	return secret
}

func TestRequestSecret(t *testing.T) {
	create := task(state.Create)
	create.Settings.CABundle = []byte("PEM")
	secret, err := jobrunner.RequestSecret(create)
	require.NoError(t, err)
	require.Equal(t, "pool1-abc-create-1", secret.Name)
	require.True(t, *secret.Immutable, "the kubelet must not read it again after its deletion")
	require.Equal(t, []byte("#!/bin/sh\n"), secret.Data[jobrunner.BootstrapKey])
	require.Equal(t, []byte("PEM"), secret.Data[jobrunner.CABundleKey])
	var back jobrunner.Request
	require.NoError(t, json.Unmarshal(secret.Data[jobrunner.RequestKey], &back))
	require.Equal(t, create.Request, back)
}

func TestSecretsAreInTheRequestSecretOnly(t *testing.T) {
	create := task(state.Create)
	for _, obj := range []any{jobrunner.Job(create), stateSecret(t, create), jobrunner.Role(create), jobrunner.ServiceAccount(create)} {
		text, err := json.Marshal(obj)
		require.NoError(t, err)
		require.NotContains(t, string(text), "marker-secret")
	}
}

func TestTags(t *testing.T) {
	m := task(state.Create).Request.Machine
	require.Equal(t, map[string]string{"drover-machine-uid": m.UID, "drover-machine": "team-a-pool1-abc",
		"drover-cluster": "c1", "drover-cluster-uid": "cluster-uid"}, jobrunner.Tags(m))
	m.Management = "kube-system-uid"
	require.Equal(t, "kube-system-uid", jobrunner.Tags(m)["drover-management"])
}

// A manager and a pod of two versions talk to each other while one of them is upgraded: the form of what they say is fixed here.
func TestRequest_goldenForm(t *testing.T) {
	text, err := json.MarshalIndent(jobrunner.Request{Operation: state.Create, Attempt: 2,
		Machine:      jobrunner.MachineRef{Namespace: "team-a", Name: "pool1-abc", UID: "uid", Kind: "AcmeMachine", ClusterName: "c1", ClusterUID: "cluster-uid"},
		Driver:       state.DriverRef{Name: "acme", Builtin: true, Digest: "d", URL: "https://host/acme", Checksum: "c", SkipChecksum: true},
		InstanceName: "pool1-abc", Options: map[string]any{"acme-region": "x", "acme-size": 3, "acme-tags": []string{"a", "b"}, "acme-ipv6": true},
		Files: map[string][]byte{"acme-userdata": []byte("#!/bin/sh\n")}, CredentialEnv: map[string]string{"ACME_TOKEN": "t"}, Secrets: []string{"s"},
		Tags: map[string]string{"drover-machine-uid": "uid"}, Namespace: "team-a", StateSecret: "pool1-abc-machine-state",
		ProviderIDTemplate: "acme://{ID}", ProviderID: "acme://1", HasBootstrap: true, SSHTimeoutSeconds: 60, Abandon: true, Scan: []jobrunner.ScanTarget{{ID: "1", MachineUID: "uid"}}, ScanNotAfter: end}, "", "  ")
	require.NoError(t, err)
	golden.Require(t, "testdata/document-request.json", string(text)+"\n")
}

// The credential of an attempt is kept, but not in the state, of which the manager writes no data at all.
func TestCredentialSecret(t *testing.T) {
	given := task(state.Create)
	given.Credential = state.Credential{Name: "cloud", Env: map[string]string{"TOKEN": "t"}, Files: map[string][]byte{"f": []byte("c")}}
	require.Empty(t, stateSecret(t, given).Data)
	secret, err := jobrunner.CredentialSecret(given)
	require.NoError(t, err)
	kept, err := state.ReadCredential(secret.Data)
	require.NoError(t, err)
	require.Equal(t, given.Credential, kept)
	require.Equal(t, "pool1-abc-machine-credential", secret.Name)
	require.Equal(t, stateSecret(t, given).OwnerReferences, secret.OwnerReferences)
	require.Equal(t, stateSecret(t, given).Finalizers, secret.Finalizers)
	for _, rule := range jobrunner.Role(given).Rules {
		require.NotContains(t, rule.ResourceNames, secret.Name)
	}
}

func document(tb testing.TB, v any) []byte {
	tb.Helper()
	text, err := json.Marshal(v)
	require.NoError(tb, err)
	return text
}
