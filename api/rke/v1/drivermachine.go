package v1

import (
	"cmp"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Names of the fields that the spec of every <X>Machine has beside its driver's own.
const (
	// CommonField holds labels, taints and the name of the credential.
	CommonField = "common"
	// ProviderIDField holds the server's id as the cloud's controller manager writes it.
	ProviderIDField = "providerID"
)

// DriverMachine is an <X>Machine. Its kind is not known at build time; this type reads and writes
// the fields that all of them have in common.
//
// +kubebuilder:object:generate=false
type DriverMachine struct {
	*unstructured.Unstructured
}

// Spec is the whole spec: the driver's fields, common and providerID.
func (m DriverMachine) Spec() map[string]any {
	spec, _, _ := unstructured.NestedMap(m.Object, "spec")
	return spec
}

// ProviderID is spec.providerID.
func (m DriverMachine) ProviderID() string {
	id, _, _ := unstructured.NestedString(m.Object, "spec", ProviderIDField)
	return id
}

// SetProviderID sets spec.providerID.
func (m DriverMachine) SetProviderID(id string) error {
	return unstructured.SetNestedField(m.Object, id, "spec", ProviderIDField)
}

// CredentialName is the credential that CredentialAnnotation or else the spec names or, when both
// name none, the one that made the server.
func (m DriverMachine) CredentialName() string {
	named, _, _ := unstructured.NestedString(m.Object, "spec", CommonField, "cloudCredentialSecretName")
	used, _, _ := unstructured.NestedString(m.Object, "status", "cloudCredentialSecretName")
	return cmp.Or(m.GetAnnotations()[CredentialAnnotation], named, used)
}

// SSHContact is spec.common.sshContact.
func (m DriverMachine) SSHContact() SSHContact {
	var contact SSHContact
	given, _, _ := unstructured.NestedMap(m.Object, "spec", CommonField, "sshContact")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(given, &contact); err != nil {
		return SSHContact{} // the schema lets no such pass
	}
	return contact
}

// Status is the status, typed.
func (m DriverMachine) Status() (RKEMachineStatus, error) {
	var status RKEMachineStatus
	// Not by the unstructured converter, which lets a number that is too large for its field wrap
	// around.
	raw, err := json.Marshal(m.Object["status"])
	if err != nil {
		return status, fmt.Errorf("encoding the status: %w", err)
	}
	if err := json.Unmarshal(raw, &status); err != nil {
		return status, fmt.Errorf("reading the status: %w", err)
	}
	return status, nil
}

// SetStatus replaces the status.
func (m DriverMachine) SetStatus(status RKEMachineStatus) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	m.Object["status"] = content
	return nil
}

// Owner is the CAPI Machine that owns this machine; ok is false until Cluster API has set it.
func (m DriverMachine) Owner() (name string, uid types.UID, ok bool) {
	for _, ref := range m.GetOwnerReferences() {
		group, err := schema.ParseGroupVersion(ref.APIVersion)
		if err == nil && group.Group == clusterv1.GroupVersion.Group && ref.Kind == "Machine" {
			return ref.Name, ref.UID, true
		}
	}
	return "", "", false
}

// Reference is an owner reference that makes this machine the controller of an object.
func (m DriverMachine) Reference() *metav1.OwnerReference {
	return metav1.NewControllerRef(m, m.GroupVersionKind())
}

// Abandoned reports whether the user gave the server up. The value of either annotation must be the
// machine's name, so that it cannot come from a template, which would turn every failed removal
// into a server without a machine.
func (m DriverMachine) Abandoned() bool {
	annotations := m.GetAnnotations()
	return annotations[AbandonAnnotation] == m.GetName() || annotations[ForceRemoveAnnotation] == m.GetName()
}
