package v1_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/testkit"
	"github.com/drover-project/drover/testkit/golden"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// newClient has our static kinds, and those of a driver without flags.
func newClient(t *testing.T) client.WithWatch {
	t.Helper()
	crds, err := charts.CRDs()
	require.NoError(t, err)
	config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: "plain"})
	require.NoError(t, err)
	testkit.ApplyCRDs(t, append(crds, config, template, machine)...)
	scheme := runtime.NewScheme()
	require.NoError(t, rkev1.AddToScheme(scheme))
	return testkit.Client(t, scheme)
}

type written struct{ name, kind, body string }

// writtenObjects are objects as users and ClusterClass write them; the answers are in testdata/answers.golden.
func writtenObjects() []written {
	cluster := func(name, body string) written { return written{name, "RKECluster", body} }
	template := func(name, body string) written { return written{name, "RKEClusterTemplate", body} }
	scan := func(name, body string) written { return written{name, "ServerScan", body} }
	return append(writtenControlPlanes(), []written{
		scan("nothing", "{}"),
		scan("an empty spec", "spec: {}"),
		scan("a driver without a credential", "spec: {driver: digitalocean}"),
		scan("a credential without a driver", "spec: {cloudCredentialSecretName: one}"),
		scan("a look", "spec: {driver: digitalocean, cloudCredentialSecretName: one}"),
		scan("a removal", "spec: {driver: digitalocean, cloudCredentialSecretName: 'ns:one', remove: true, gracePeriod: 2h30m}"),
		scan("a grace period in words", "spec: {driver: digitalocean, cloudCredentialSecretName: one, gracePeriod: long}"),
		scan("a grace period in seconds", "spec: {driver: digitalocean, cloudCredentialSecretName: one, gracePeriod: 3600}"),
		scan("a negative grace period", "spec: {driver: digitalocean, cloudCredentialSecretName: one, remove: true, gracePeriod: -1h}"),
		scan("no grace period", "spec: {driver: digitalocean, cloudCredentialSecretName: one, gracePeriod: 0s}"),
		scan("an empty grace period", "spec: {driver: digitalocean, cloudCredentialSecretName: one, gracePeriod: ''}"),
		scan("kept for a day", "spec: {driver: digitalocean, cloudCredentialSecretName: one, ttlSecondsAfterFinished: 86400}"),
		scan("kept for less than nothing", "spec: {driver: digitalocean, cloudCredentialSecretName: one, ttlSecondsAfterFinished: -1}"),
		scan("kept for ages", "spec: {driver: digitalocean, cloudCredentialSecretName: one, ttlSecondsAfterFinished: 9999999999}"),
		scan("a grace period of ages", "spec: {driver: digitalocean, cloudCredentialSecretName: one, gracePeriod: 9999999h}"),
		scan("the longest grace period", "spec: {driver: digitalocean, cloudCredentialSecretName: one, gracePeriod: 999999h999999m999999.999999999s999999999ms}"),
		scan("a deleted Cluster", "spec: {driver: digitalocean, cloudCredentialSecretName: one, deletedClusters: [5f3c0a5e-6d51-4b63-9e62-0f1e2d3c4b5a]}"),
		scan("a deleted Cluster by its name", "spec: {driver: digitalocean, cloudCredentialSecretName: one, deletedClusters: [store]}"),
		scan("text for remove", "spec: {driver: digitalocean, cloudCredentialSecretName: one, remove: 'true'}"),
		scan("an empty driver", "spec: {driver: '', cloudCredentialSecretName: one}"),
		scan("a long driver", "spec: {driver: "+strings.Repeat("d", 64)+", cloudCredentialSecretName: one}"),
		scan("an unknown field", "spec: {driver: digitalocean, cloudCredentialSecretName: one, force: true}"),
		cluster("nothing", "{}"),
		cluster("an empty spec", "spec: {}"),
		cluster("a null spec", "spec: null"),
		cluster("an endpoint", "spec: {controlPlaneEndpoint: {host: api.example.com, port: 6443}}"),
		cluster("an endpoint by address", "spec: {controlPlaneEndpoint: {host: '2001:db8::1', port: 443}}"),
		cluster("an endpoint by IPv4 address", "spec: {controlPlaneEndpoint: {host: 192.0.2.1, port: 443}}"),
		cluster("a host with its port", "spec: {controlPlaneEndpoint: {host: 'api.example.com:6443', port: 6443}}"),
		cluster("a host with a scheme", "spec: {controlPlaneEndpoint: {host: 'https://api.example.com', port: 6443}}"),
		cluster("an address in brackets", "spec: {controlPlaneEndpoint: {host: '[2001:db8::1]', port: 6443}}"),
		cluster("an address of one network interface", "spec: {controlPlaneEndpoint: {host: 'fe80::1%eth0', port: 6443}}"),
		cluster("a host alone", "spec: {controlPlaneEndpoint: {host: api.example.com}}"),
		cluster("a port alone", "spec: {controlPlaneEndpoint: {port: 6443}}"),
		cluster("an empty endpoint", "spec: {controlPlaneEndpoint: {}}"),
		cluster("an empty host", "spec: {controlPlaneEndpoint: {host: '', port: 6443}}"),
		cluster("a port of zero, as Cluster API wrote before v1beta2", "spec: {controlPlaneEndpoint: {host: h, port: 0}}"),
		cluster("a port out of range", "spec: {controlPlaneEndpoint: {host: h, port: 65536}}"),
		cluster("a port in words", "spec: {controlPlaneEndpoint: {host: h, port: https}}"),
		cluster("a port as text", "spec: {controlPlaneEndpoint: {host: h, port: '6443'}}"),
		cluster("a long host", "spec: {controlPlaneEndpoint: {host: "+strings.Repeat("h", 513)+", port: 1}}"),
		cluster("an unknown field", "spec: {controlPlaneEndpont: {host: h, port: 1}}"),
		cluster("a status by a user", "status: {ready: true, initialization: {provisioned: true}}"),
		template("nothing", "{}"),
		template("an empty template", "spec: {template: {}}"),
		template("labels and an endpoint", "spec: {template: {metadata: {labels: {a: b}, annotations: {c: d}}, spec: {controlPlaneEndpoint: {host: h, port: 1}}}}"),
		template("no template", "spec: {}"),
		template("labels that are numbers", "spec: {template: {metadata: {labels: {a: 1}}}}"),
		template("a name for all", "spec: {template: {metadata: {name: x}}}"),
		template("an empty endpoint", "spec: {template: {spec: {controlPlaneEndpoint: {}}}}"),
	}...)
}

func TestServerAnswersWhatUsersWrite(t *testing.T) {
	c, namespace := newClient(t), testkit.Namespace(t)
	strict := client.WithFieldValidation(c, metav1.FieldValidationStrict)
	var out strings.Builder
	for i, tt := range writtenObjects() {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(tt.body), &object.Object))
		object.SetAPIVersion("rke.cattle.io/v1")
		object.SetKind(tt.kind)
		object.SetNamespace(namespace)
		object.SetName(fmt.Sprintf("written-%d", i))
		err := strict.Create(t.Context(), object)
		answer := "refused: "
		if err != nil {
			answer += strings.ReplaceAll(testkit.Refusal(err), object.GetName(), "NAME") + "\n"
		} else {
			delete(object.Object, "metadata")
			text, err := yaml.Marshal(object.Object)
			require.NoError(t, err)
			answer = string(text)
			// A single object that our Go types cannot hold would keep the manager from reading any of its kind.
			typed, err := c.Scheme().New(rkev1.GroupVersion.WithKind(tt.kind))
			require.NoError(t, err)
			require.NoError(t, yaml.Unmarshal(text, typed), "%s: %s", tt.kind, tt.name)
		}
		fmt.Fprintf(&out, "# %s: %s\n%s", tt.kind, tt.name, answer)
	}
	golden.Require(t, "testdata/answers.golden", out.String())
}

// moment is a time as the server keeps it, to the second.
func moment(hours int) *metav1.Time {
	at := metav1.NewTime(time.Unix(1_700_000_000, 0).Add(time.Duration(hours) * time.Hour).Local())
	return &at
}

// fullStatus has a value in every field of a machine's status.
func fullStatus() rkev1.RKEMachineStatus {
	return rkev1.RKEMachineStatus{
		Conditions: []metav1.Condition{{Type: rkev1.ReadyCondition, Status: metav1.ConditionFalse, Reason: rkev1.JobRunningReason, Message: "m",
			LastTransitionTime: *moment(0), ObservedGeneration: 3}},
		JobName: "j", Ready: true, DriverHash: "h", DriverURL: "u", CloudCredentialSecretName: "ns:s", FailureReason: rkev1.CreateErrorReason, FailureMessage: "f",
		Addresses:          []clusterv1.MachineAddress{{Type: clusterv1.MachineExternalIP, Address: "198.18.0.9"}},
		Initialization:     rkev1.InfrastructureInitialization{Provisioned: new(true)},
		ObservedGeneration: 4, Phase: rkev1.PhaseCreating, InstanceName: "i", Attempts: 5,
		LastAttempt: &rkev1.AttemptStatus{Operation: "create", Number: 5, StartTime: moment(1), EndTime: moment(2), Outcome: "Failed",
			Class: rkev1.ClassQuota, Message: "m", LogTail: "l"},
		NextAttemptTime: moment(3),
	}
}

func plainMachine(t *testing.T, namespace string) *unstructured.Unstructured {
	t.Helper()
	common := rkev1.RKECommonNodeConfig{Labels: map[string]string{"a": "b"}, CloudCredentialSecretName: "ns:s",
		Taints: []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute, TimeAdded: moment(0)}}}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&common)
	require.NoError(t, err)
	machine := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"common": content}}}
	machine.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind("PlainMachine"))
	machine.SetNamespace(namespace)
	machine.SetName("one")
	return machine
}

// What controllers write as Go types goes through the generated kind and comes back whole.
func TestServerKeepsEveryFieldOfAMachine(t *testing.T) {
	c, machine := newClient(t), plainMachine(t, testkit.Namespace(t))
	written := machine.DeepCopy()
	require.NoError(t, c.Create(t.Context(), machine))
	require.Equal(t, written.Object["spec"], machine.Object["spec"])
	want := fullStatus()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&want)
	require.NoError(t, err)
	machine.Object["status"] = content
	require.NoError(t, c.Status().Update(t.Context(), machine))
	testkit.ExpectExists(t, c, machine)
	require.Equal(t, content, machine.Object["status"], "nothing is pruned")
	var got rkev1.RKEMachineStatus
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(machine.Object["status"].(map[string]any), &got))
	require.Equal(t, want, got)
}

// fullScan has a value in every field.
func fullScan(namespace string) *rkev1.ServerScan {
	return &rkev1.ServerScan{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one"},
		Spec: rkev1.ServerScanSpec{Driver: "digitalocean", CloudCredentialSecretName: "one", Remove: true,
			GracePeriod: &metav1.Duration{Duration: 90 * time.Minute}},
		Status: rkev1.ServerScanStatus{
			Conditions: []metav1.Condition{{Type: rkev1.ScanDoneCondition, Status: metav1.ConditionTrue, Reason: rkev1.ScannedReason, LastTransitionTime: *moment(0)}},
			Attempt:    2, Known: 3, Orphans: 4, MachinesNotListed: []string{"ns/m"}, CompletionTime: moment(1),
			Servers: []rkev1.ScannedServerStatus{{ID: "7", Name: "n", MachineUID: "u", Machine: "m", Cluster: "c", Created: moment(2),
				Verdict: rkev1.VerdictYoung, Message: "why"}},
		},
	}
}

// A scan is done once: its spec never changes, and all that was found is kept.
func TestServerKeepsEveryFieldOfAScan(t *testing.T) {
	c := newClient(t)
	want := fullScan(testkit.Namespace(t))
	scan := want.DeepCopy()
	require.NoError(t, c.Create(t.Context(), scan))
	scan.Status = want.Status
	require.NoError(t, c.Status().Update(t.Context(), scan))
	back := testkit.ExpectExists(t, c, &rkev1.ServerScan{ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}})
	require.Equal(t, want.Spec, back.Spec)
	require.Equal(t, want.Status, back.Status)
	for name, change := range map[string]func(*rkev1.ServerScanSpec){
		"remove":     func(s *rkev1.ServerScanSpec) { s.Remove = false },
		"driver":     func(s *rkev1.ServerScanSpec) { s.Driver = "azure" },
		"credential": func(s *rkev1.ServerScanSpec) { s.CloudCredentialSecretName = "two" },
		"shorter":    func(s *rkev1.ServerScanSpec) { s.GracePeriod.Duration = time.Second },
		"at once":    func(s *rkev1.ServerScanSpec) { s.GracePeriod = nil },
	} {
		changed := back.DeepCopy()
		change(&changed.Spec)
		require.ErrorContains(t, c.Update(t.Context(), changed), "spec: Invalid value: a ServerScan is done once: make another one", name)
	}
	back.Labels = map[string]string{"a": "b"}
	require.NoError(t, c.Update(t.Context(), back))
}

// What a status may not be: each is a mistake a controller could make.
func TestServerRefusesBrokenStatuses(t *testing.T) {
	c, machine := newClient(t), plainMachine(t, testkit.Namespace(t))
	require.NoError(t, c.Create(t.Context(), machine))
	for name, tt := range map[string]struct {
		change  func(*rkev1.RKEMachineStatus)
		refusal string
	}{
		"two conditions of one type": {func(s *rkev1.RKEMachineStatus) { s.Conditions = append(s.Conditions, s.Conditions[0]) },
			`status.conditions[1]: Duplicate value: {"type":"Ready"}`},
		"a condition that is maybe": {func(s *rkev1.RKEMachineStatus) { s.Conditions[0].Status = "Maybe" },
			`status.conditions[0].status: Unsupported value: "Maybe": supported values: "True", "False", "Unknown"`},
		"a flood": {func(s *rkev1.RKEMachineStatus) { s.LastAttempt.LogTail = strings.Repeat("l", 32<<10+1) },
			"status.lastAttempt.logTail: Too long: may not be more than 32768 bytes"},
		"a word too long for a phase": {func(s *rkev1.RKEMachineStatus) { s.Phase = strings.Repeat("p", 33) },
			"status.phase: Too long: may not be more than 32 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			status := fullStatus()
			tt.change(&status)
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
			require.NoError(t, err)
			broken := machine.DeepCopy()
			broken.Object["status"] = content
			require.ErrorContains(t, c.Status().Update(t.Context(), broken), tt.refusal)
		})
	}
}

// The status of a cluster is written by its controller alone, in the words of Cluster API's contract.
func TestServerKeepsEveryFieldOfACluster(t *testing.T) {
	c := newClient(t)
	cluster := &rkev1.RKECluster{ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace(t), Name: "one"},
		Spec: rkev1.RKEClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "api.example.com", Port: 6443}}}
	require.NoError(t, c.Create(t.Context(), cluster))
	cluster.Status = rkev1.RKEClusterStatus{Conditions: fullStatus().Conditions, Ready: true, ObservedGeneration: 1,
		Initialization: rkev1.InfrastructureInitialization{Provisioned: new(true)}}
	want := *cluster.DeepCopy()
	require.NoError(t, c.Status().Update(t.Context(), cluster))
	back := testkit.ExpectExists(t, c, &rkev1.RKECluster{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "one"}})
	require.Equal(t, want.Spec, back.Spec)
	require.Equal(t, want.Status, back.Status)
	raw := &unstructured.Unstructured{}
	raw.SetGroupVersionKind(rkev1.GroupVersion.WithKind("RKECluster"))
	raw.SetNamespace(cluster.Namespace)
	raw.SetName("one")
	testkit.ExpectExists(t, c, raw)
	provisioned, found, err := unstructured.NestedBool(raw.Object, "status", "initialization", "provisioned")
	require.NoError(t, err)
	require.True(t, found && provisioned, "where Cluster API looks")
	host, _, err := unstructured.NestedString(raw.Object, "spec", "controlPlaneEndpoint", "host")
	require.NoError(t, err)
	require.Equal(t, "api.example.com", host)
}
