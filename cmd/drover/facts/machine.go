package facts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/credential"
)

// machineSuffix ends the name of every machine kind, such as DigitaloceanMachine.
const machineSuffix = "Machine"

// Kind is one kind of machine as the API serves it.
type Kind struct {
	// Name is the kind, such as DigitaloceanMachine.
	Name string
	// Resource is its plural, Singular its singular, in the API's paths.
	Resource, Singular string
	// ShortNames are kubectl's other names of the kind.
	ShortNames []string
}

// KindOf reads a discovered resource of group rke-machine.cattle.io; it returns false for resources
// that hold no machines: templates, subresources.
func KindOf(r metav1.APIResource) (Kind, bool) {
	holds := !strings.Contains(r.Name, "/") && strings.HasSuffix(r.Kind, machineSuffix)
	return Kind{Name: r.Kind, Resource: r.Name, Singular: r.SingularName, ShortNames: r.ShortNames}, holds
}

// Matches reports whether a user's word names the kind: kind, plural, singular or short name, with
// or without group.
func (k Kind) Matches(word string) bool {
	word, group, found := strings.Cut(strings.ToLower(word), ".")
	if found && !isGroup(group, rkev1.MachineGroupVersion.Group, rkev1.MachineGroupVersion.Version) {
		return false
	}
	names := append([]string{strings.ToLower(k.Name), k.Resource, k.Singular}, k.ShortNames...)
	return word != "" && slices.Contains(names, word)
}

// isGroup reports whether a user wrote a group, with or without the version before it, as kubectl
// allows.
func isGroup(written, group, version string) bool {
	return written == group || written == version+"."+group
}

// Machine is an infrastructure machine of any driver.
type Machine struct {
	Kind Kind `json:"-"`
	// ClusterPaused is true if the specification of the machine's Cluster pauses it; the manager
	// may not have observed it yet.
	ClusterPaused bool `json:"-"`
	// Leaving is the condition Deleting of its CAPI Machine while Cluster API has not deleted this
	// machine yet, for example because it drains the Node; nil otherwise.
	Leaving *metav1.Condition `json:"-"`

	metav1.ObjectMeta `json:"metadata"`

	Spec   MachineSpec            `json:"spec"`
	Status rkev1.RKEMachineStatus `json:"status"`
}

// MachineSpec is the part of a machine's spec that does not depend on the driver.
type MachineSpec struct {
	ProviderID string                    `json:"providerID,omitempty"`
	Common     rkev1.RKECommonNodeConfig `json:"common,omitzero"`
}

// DecodeMachine reads a machine as the API returned it. Incomplete conditions are accepted: a
// machine taken over from Rancher may have conditions without Kubernetes' required fields, such as
// the time of the last transition.
func DecodeMachine(kind Kind, object map[string]any) (*Machine, error) {
	status, _ := object["status"].(map[string]any)
	if status != nil {
		object, status = maps.Clone(object), maps.Clone(status)
		object["status"] = status
	}
	conditions, _ := status["conditions"].([]any)
	delete(status, "conditions")
	m := &Machine{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, m); err != nil {
		return nil, fmt.Errorf("decoding a %s: %w", kind.Name, err)
	}
	m.Kind, m.Status.Conditions = kind, decodeConditions(conditions)
	return m, nil
}

// Ref is how a user names the machine without ambiguity, and how kubectl takes it:
// <singular>.<group>/<name>.
func (m *Machine) Ref() string {
	resource := m.Kind.Singular
	if resource == "" {
		resource = strings.ToLower(m.Kind.Name)
	}
	return resource + "." + rkev1.MachineGroupVersion.Group + "/" + m.Name
}

// ClusterName is the CAPI Cluster the machine belongs to; it may be empty.
func (m *Machine) ClusterName() string {
	return m.Labels[clusterv1.ClusterNameLabel]
}

// CAPIMachineName is the CAPI Machine that owns the machine; it may be empty.
func (m *Machine) CAPIMachineName() string {
	for _, owner := range m.OwnerReferences {
		if owner.Kind == "Machine" && strings.HasPrefix(owner.APIVersion, clusterv1.GroupVersion.Group+"/") {
			return owner.Name
		}
	}
	return m.Labels[rkev1.CAPIMachineLabel]
}

// IsNamedBy reports whether a CAPI Machine names the machine, and so becomes its owner.
func (m *Machine) IsNamedBy(capi *clusterv1.Machine) bool {
	ref := capi.Spec.InfrastructureRef
	return ref.APIGroup == rkev1.MachineGroupVersion.Group && ref.Kind == m.Kind.Name && ref.Name == m.Name
}

// Phase is the machine's phase, also before the manager wrote one.
func (m *Machine) Phase() string {
	if m.DeletionTimestamp != nil {
		return rkev1.PhaseDeleting
	}
	if m.Status.Phase == "" {
		return rkev1.PhasePending
	}
	return m.Status.Phase
}

// Condition returns a condition of the machine, or nil.
func (m *Machine) Condition(name string) *metav1.Condition {
	return meta.FindStatusCondition(m.Status.Conditions, name)
}

// PausedBy names the source of the machine's pause, even before the manager has observed it; empty
// without a pause.
func (m *Machine) PausedBy() string {
	_, annotated := m.Annotations[clusterv1.PausedAnnotation]
	switch {
	case meta.IsStatusConditionTrue(m.Status.Conditions, rkev1.PausedCondition):
		return cmp.Or(m.Condition(rkev1.PausedCondition).Message, "reconciling is paused")
	case annotated:
		return "it has the annotation " + clusterv1.PausedAnnotation
	case m.ClusterPaused:
		return "the Cluster is paused: spec.paused is true"
	}
	return ""
}

// CredentialName is the credential that the annotation or else the spec names or, when both name
// none, the one that made the server.
func (m *Machine) CredentialName() string {
	return cmp.Or(m.Annotations[rkev1.CredentialAnnotation], m.Spec.Common.CloudCredentialSecretName, m.Status.CloudCredentialSecretName)
}

// Credential is the Secret that the machine uses; its zero value when it uses none.
func (m *Machine) Credential() credential.Ref {
	if m.CredentialName() == "" {
		return credential.Ref{}
	}
	return credential.Parse(m.Namespace, m.CredentialName())
}

// addressOrder is which address a user most likely reaches, best first.
var addressOrder = []clusterv1.MachineAddressType{
	clusterv1.MachineExternalIP, clusterv1.MachineExternalDNS, clusterv1.MachineInternalIP, clusterv1.MachineInternalDNS, clusterv1.MachineHostName,
}

// Address is the address a user most likely reaches; it may be empty.
func (m *Machine) Address() string {
	for _, kind := range addressOrder {
		for _, address := range m.Status.Addresses {
			if address.Type == kind && address.Address != "" {
				return address.Address
			}
		}
	}
	return ""
}

// IsCalled reports whether a user's NAME means the machine: its own name or its CAPI Machine's,
// with or without a kind.
func (m *Machine) IsCalled(name string) bool {
	word, rest, qualified := strings.Cut(name, "/")
	switch {
	case name == "", qualified && rest == "":
		// A machine without a CAPI Machine has no second name that this could be.
		return false
	case !qualified:
		return m.Name == name || m.CAPIMachineName() == name
	case IsCAPIMachineWord(word):
		return m.CAPIMachineName() == rest
	default:
		return m.Name == rest && m.Kind.Matches(word)
	}
}

// IsCAPIMachineWord reports whether a user's word means the kind Machine of Cluster API.
func IsCAPIMachineWord(word string) bool {
	word, group, found := strings.Cut(strings.ToLower(word), ".")
	if found && !isGroup(group, clusterv1.GroupVersion.Group, clusterv1.GroupVersion.Version) {
		return false
	}
	return word == "ma" || word == "machine" || word == "machines"
}
