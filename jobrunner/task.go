package jobrunner

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/state"
)

// maxSecret is the size that fits into a Secret with its metadata; the API's limit is 1 MiB for the
// data.
const maxSecret = 1000 << 10

// Task describes a Job to create: its operation, its machine and its settings.
type Task struct {
	// Settings of all Jobs.
	Settings Settings
	// Request is the request for the pod. All objects of the task are created in its Namespace.
	Request Request
	// PullSecrets are the manager's pull Secrets, from which the Job's PullSecret is made.
	PullSecrets []corev1.Secret
	// Bootstrap is the bootstrap data; for Create only.
	Bootstrap []byte
	// Credential that the request was made with, to be kept in its CredentialSecret.
	Credential state.Credential
	// Owner is the infra machine or NodeDriver, as controller; nil when it lives elsewhere.
	Owner *metav1.OwnerReference
	// Base is the prefix of names instead of the machine's name if the machine's namespace cannot
	// hold the objects; for a Scan, the name of the object that requests it.
	Base string
	// CAPIMachine is the name of the CAPI Machine, if there is one.
	CAPIMachine string
	// Hash of the request, and Try, which counts the attempts since the hash last changed; see
	// Claim.
	Hash string
	Try  int32
	// Made counts the attempts among them that made a server and then failed.
	Made int32
}

// StateSecretName is the name of a machine's state Secret.
func StateSecretName(machine string) string { return ObjectName(machine, "machine", "state") }

// CredentialSecretName is the name of the Secret with the credential that the machine's last Job
// was given.
func CredentialSecretName(machine string) string { return ObjectName(machine, "machine", "credential") }

// AccessName is the name of a machine's service account, Role and RoleBinding.
func AccessName(machine string) string { return ObjectName(machine, "machine") }

// JobName is the name of one attempt's Job and of its request Secret.
func JobName(machine string, operation state.Operation, attempt int32) string {
	short := string(operation)
	if operation == state.Remove {
		short = "rm"
	}
	return ObjectName(machine, short, strconv.Itoa(int(attempt)))
}

// Name is the name of the task's Job and request Secret.
func (t Task) Name() string {
	switch t.Request.Operation {
	case state.Probe:
		return ObjectName("probe", t.Request.Driver.Name, strconv.Itoa(int(t.Request.Attempt)))
	case state.Scan:
		return ObjectName(t.Base, "scan", strconv.Itoa(int(t.Request.Attempt)))
	case state.Create, state.Remove:
	}
	return JobName(t.base(), t.Request.Operation, t.Request.Attempt)
}

func (t Task) base() string { return cmp.Or(t.Base, t.Request.Machine.Name) }

// accessName is the name of the task's service account, Role and RoleBinding.
func (t Task) accessName() string {
	switch t.Request.Operation {
	case state.Probe:
		return t.Name()
	case state.Scan:
		return ObjectName(t.Base, "scan")
	case state.Create, state.Remove:
	}
	return AccessName(t.base())
}

// ownLabels select everything that belongs to the machine or probe.
func (t Task) ownLabels() map[string]string {
	labels := map[string]string{rkev1.NodeDriverLabel: labelValue(t.Request.Driver.Name)}
	if t.Request.Operation != state.Probe && t.Request.Operation != state.Scan { // those are done for no single machine
		labels[rkev1.MachineUIDLabel] = t.Request.Machine.UID
	}
	return labels
}

// jobLabels returns the labels of the Job and its pod: Rancher's and ours.
func (t Task) jobLabels() map[string]string {
	labels := t.ownLabels()
	labels[rkev1.OperationLabel] = string(t.Request.Operation)
	labels[rkev1.AttemptLabel] = strconv.Itoa(int(t.Request.Attempt))
	if _, ofMachine := labels[rkev1.MachineUIDLabel]; !ofMachine {
		return labels
	}
	labels[rkev1.InfraMachineGroupLabel] = rkev1.MachineGroupVersion.Group
	labels[rkev1.InfraMachineVersionLabel] = rkev1.MachineGroupVersion.Version
	labels[rkev1.InfraMachineKindLabel] = t.Request.Machine.Kind
	labels[rkev1.InfraMachineNameLabel] = labelValue(t.Request.Machine.Name)
	labels[rkev1.InfraRemoveLabel] = strconv.FormatBool(t.Request.Operation == state.Remove)
	if t.CAPIMachine != "" {
		labels[rkev1.CAPIMachineLabel] = labelValue(t.CAPIMachine)
	}
	return labels
}

func (t Task) meta(name string, labels map[string]string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{Name: name, Namespace: t.Request.Namespace, Labels: labels}
	if t.Owner != nil {
		meta.OwnerReferences = []metav1.OwnerReference{*t.Owner}
	}
	return meta
}

// RequestSecret holds the data that only the pod may read. It is immutable, because the manager
// deletes it while the pod still runs: the kubelet mounts a mutable Secret again every minute or so
// and reports FailedMount if it is gone. The kubelet keeps an immutable Secret from the first read
// until the pod ends (Kubernetes, pkg/kubelet/util/manager/watch_based_manager.go, objectCache.Get,
// with the default configMapAndSecretChangeDetectionStrategy, Watch).
func RequestSecret(t Task) (*corev1.Secret, error) {
	document, err := json.Marshal(t.Request)
	if err != nil {
		return nil, fmt.Errorf("encoding the request: %w", err)
	}
	data := map[string][]byte{RequestKey: document}
	if t.Request.HasBootstrap {
		data[BootstrapKey] = t.Bootstrap
	}
	if len(t.Settings.CABundle) > 0 {
		data[CABundleKey] = t.Settings.CABundle
	}
	size := 0
	for _, value := range data {
		size += len(value)
	}
	if size > maxSecret {
		return nil, fmt.Errorf("the request is %d bytes with its files and bootstrap data, more than the %d that fit into a Secret", size, maxSecret)
	}
	request := secret(t.meta(t.Name(), t.jobLabels()), rkev1.MachineRequestSecretType, data)
	request.Immutable = new(true)
	return request, nil
}

func secret(meta metav1.ObjectMeta, kind corev1.SecretType, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: meta, Type: kind, Data: data}
}
