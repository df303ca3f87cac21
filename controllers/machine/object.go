package machine

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
)

// object is an <X>Machine. Its kind is not known at build time; what all of them have in common is read and written here
// and nowhere else.
type object struct {
	*unstructured.Unstructured
}

// Spec is the whole spec: the driver's fields, common and providerID.
func (o object) Spec() map[string]any {
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	return spec
}

// ProviderID is spec.providerID.
func (o object) ProviderID() string {
	id, _, _ := unstructured.NestedString(o.Object, "spec", crdgen.ProviderIDField)
	return id
}

// SetProviderID sets spec.providerID.
func (o object) SetProviderID(id string) error {
	return unstructured.SetNestedField(o.Object, id, "spec", crdgen.ProviderIDField)
}

// CredentialName is spec.common.cloudCredentialSecretName.
func (o object) CredentialName() string {
	name, _, _ := unstructured.NestedString(o.Object, "spec", crdgen.CommonField, "cloudCredentialSecretName")
	return name
}

// SSHContact is spec.common.sshContact.
func (o object) SSHContact() rkev1.SSHContact {
	var contact rkev1.SSHContact
	given, _, _ := unstructured.NestedMap(o.Object, "spec", crdgen.CommonField, "sshContact")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(given, &contact); err != nil {
		return rkev1.SSHContact{} // the schema lets no such pass
	}
	return contact
}

// Status is the status, typed.
func (o object) Status() (rkev1.RKEMachineStatus, error) {
	var status rkev1.RKEMachineStatus
	raw, err := json.Marshal(o.Object["status"])
	if err != nil {
		return status, fmt.Errorf("encoding the status: %w", err)
	}
	if err := json.Unmarshal(raw, &status); err != nil {
		return status, fmt.Errorf("reading the status: %w", err)
	}
	return status, nil
}

// SetStatus replaces the status.
func (o object) SetStatus(status rkev1.RKEMachineStatus) error {
	raw, err := json.Marshal(status)
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	content := map[string]any{}
	// Not encoding/json: numbers must become int64, which is what deep copies of unstructured objects take.
	if err := utiljson.Unmarshal(raw, &content); err != nil {
		return fmt.Errorf("decoding the status: %w", err)
	}
	o.Object["status"] = content
	return nil
}

// Owner is the CAPI Machine that owns this machine; ok is false until Cluster API has set it.
func (o object) Owner() (name string, uid types.UID, ok bool) {
	for _, ref := range o.GetOwnerReferences() {
		group, err := schema.ParseGroupVersion(ref.APIVersion)
		if err == nil && group.Group == clusterv1.GroupVersion.Group && ref.Kind == "Machine" {
			return ref.Name, ref.UID, true
		}
	}
	return "", "", false
}

// Reference makes this machine the controller of what it makes.
func (o object) Reference() *metav1.OwnerReference {
	return metav1.NewControllerRef(o, o.GroupVersionKind())
}

// Abandoned reports whether the user gave the server up. Either annotation must repeat the machine's name, so that it cannot
// come from a template, which would turn every failed removal into a server that nobody knows.
func (o object) Abandoned() bool {
	annotations := o.GetAnnotations()
	return annotations[rkev1.AbandonAnnotation] == o.GetName() || annotations[rkev1.ForceRemoveAnnotation] == o.GetName()
}
