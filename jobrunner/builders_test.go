package jobrunner_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/jobrunner"
)

var update = flag.Bool("update", false, "write the golden files anew")

func task(operation jobrunner.Operation) jobrunner.Task {
	yes := true
	return jobrunner.Task{
		Settings: jobrunner.Settings{Image: "registry.test/drover-machine:v1"},
		Request: jobrunner.Request{
			Operation: operation, Attempt: 1,
			Machine: jobrunner.MachineRef{Namespace: "team-a", Name: "pool1-abc", UID: "11111111-2222-3333-4444-555555555555",
				Kind: "DigitaloceanMachine", ClusterName: "c1", ClusterUID: "cluster-uid"},
			Driver:        jobrunner.DriverRef{Name: "digitalocean", Builtin: true},
			InstanceName:  "pool1-abc",
			CredentialEnv: map[string]string{"DIGITALOCEAN_ACCESS_TOKEN": "marker-secret"},
			Options:       map[string]any{"digitalocean-region": "fra1"},
			Namespace:     "team-a", StateSecret: "pool1-abc-machine-state",
			HasBootstrap: operation == jobrunner.Create,
		},
		Bootstrap: []byte("#!/bin/sh\n"),
		Owner: &metav1.OwnerReference{APIVersion: "rke-machine.cattle.io/v1", Kind: "DigitaloceanMachine", Name: "pool1-abc",
			UID: types.UID("11111111-2222-3333-4444-555555555555"), Controller: &yes, BlockOwnerDeletion: &yes},
		CAPIMachine: "pool1-abc",
		Hash:        "0123456789abcdef", Try: 1,
	}
}

func probe() jobrunner.Task {
	t := task(jobrunner.Probe)
	t.Request.Machine = jobrunner.MachineRef{}
	t.Request.Driver = jobrunner.DriverRef{Name: "linode", URL: "https://host/linode.tar.gz", Checksum: strings.Repeat("a", 64)}
	t.Request.Options, t.Request.CredentialEnv, t.Request.InstanceName = nil, nil, ""
	t.Request.Namespace, t.Request.StateSecret = "drover-drivers", "probe-linode-1"
	t.Owner, t.CAPIMachine, t.Hash = nil, "", ""
	return t
}

// TestGolden shows the objects whole: a change of any field must be seen in review.
func TestGolden(t *testing.T) {
	hardened := task(jobrunner.Remove)
	hardened.Settings = jobrunner.Settings{
		Image: "registry.test/drover-machine:v1", ImagePullPolicy: corev1.PullAlways, ImagePullSecrets: []string{"regcred"},
		NodeSelector: map[string]string{"pool": "jobs"},
		Tolerations:  []corev1.Toleration{{Key: "jobs", Operator: corev1.TolerationOpExists}},
		Proxy:        jobrunner.Proxy{HTTPS: "http://proxy:3128", No: "10.0.0.0/8"},
		CABundle:     []byte("PEM"), Deadline: 5 * time.Minute, TTL: time.Hour, GracePeriod: time.Minute,
	}
	objects := map[string][]any{
		"create": {state(t, task(jobrunner.Create)), jobrunner.ServiceAccount(task(jobrunner.Create)),
			jobrunner.Role(task(jobrunner.Create)), jobrunner.RoleBinding(task(jobrunner.Create)), jobrunner.Job(task(jobrunner.Create))},
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
			golden(t, name+".yaml", got.Bytes())
		})
	}
}

func state(t *testing.T, from jobrunner.Task) *corev1.Secret {
	t.Helper()
	secret, err := jobrunner.StateSecret(from)
	require.NoError(t, err)
	return secret
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

func TestRequestSecret(t *testing.T) {
	create := task(jobrunner.Create)
	create.Settings.CABundle = []byte("PEM")
	secret, err := jobrunner.RequestSecret(create)
	require.NoError(t, err)
	require.Equal(t, "pool1-abc-create-1", secret.Name)
	require.Equal(t, []byte("#!/bin/sh\n"), secret.Data[jobrunner.BootstrapKey])
	require.Equal(t, []byte("PEM"), secret.Data[jobrunner.CABundleKey])
	var back jobrunner.Request
	require.NoError(t, json.Unmarshal(secret.Data[jobrunner.RequestKey], &back))
	require.Equal(t, create.Request, back)

	create.Bootstrap = bytes.Repeat([]byte("x"), 1<<20)
	_, err = jobrunner.RequestSecret(create)
	require.ErrorContains(t, err, "fit into a Secret")
}

func TestSecretsAreInTheRequestSecretOnly(t *testing.T) {
	create := task(jobrunner.Create)
	for _, obj := range []any{jobrunner.Job(create), state(t, create), jobrunner.Role(create), jobrunner.ServiceAccount(create)} {
		text, err := json.Marshal(obj)
		require.NoError(t, err)
		require.NotContains(t, string(text), "marker-secret")
	}
}

func TestClaim(t *testing.T) {
	claimed := task(jobrunner.Remove)
	claimed.Request.Attempt, claimed.Try = 4, 2
	claim, ok := jobrunner.ReadClaim(state(t, claimed).Annotations)
	require.True(t, ok)
	driver, ok := jobrunner.ReadDriver(state(t, claimed).Annotations)
	require.True(t, ok)
	require.Equal(t, claimed.Request.Driver, driver)
	require.Equal(t, jobrunner.Claim{Operation: jobrunner.Remove, Attempt: 4, Try: 2, Hash: "0123456789abcdef"}, claim)
	for _, bad := range []map[string]string{nil, {"drover.cattle.io/claimed-attempt": "x"},
		{"drover.cattle.io/claimed-operation": "create", "drover.cattle.io/claimed-attempt": "0"},
		{"drover.cattle.io/claimed-operation": "other", "drover.cattle.io/claimed-attempt": "1"}} {
		_, ok := jobrunner.ReadClaim(bad)
		require.False(t, ok)
	}
}

func TestTags(t *testing.T) {
	m := task(jobrunner.Create).Request.Machine
	require.Equal(t, map[string]string{"drover-machine-uid": m.UID, "drover-machine": "team-a-pool1-abc",
		"drover-cluster": "c1", "drover-cluster-uid": "cluster-uid"}, jobrunner.Tags(m))
}
