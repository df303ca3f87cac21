package v1

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// RKECommonNodeConfig is spec.common of every <Driver>Machine and <Driver>MachineTemplate.
type RKECommonNodeConfig struct {
	// Labels are put on the Node.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Taints are put on the Node.
	// +optional
	Taints []corev1.Taint `json:"taints,omitempty"`
	// CloudCredentialSecretName names the Secret with the cloud's credential: name, or
	// namespace:name. A Secret in another namespace must name this namespace in its annotation
	// drover.cattle.io/allowed-namespaces.
	// +optional
	CloudCredentialSecretName string `json:"cloudCredentialSecretName,omitempty"`
	// SSHContact is how the Job logs in to the server; an addition to Rancher's fields.
	// +optional
	SSHContact SSHContact `json:"sshContact,omitempty,omitzero"`
}

// RKEMachineStatus is the status of every <Driver>Machine.
type RKEMachineStatus struct {
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// JobName is the Job that runs, or ran last.
	// +optional
	JobName string `json:"jobName,omitempty"`
	// Ready is the field that Cluster API read before its v1beta2 contract.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// DriverHash and DriverURL identify the driver that made the machine, the URL without user,
	// password and query. The state Secret has the whole URL, so that the machine can be removed
	// without its NodeDriver.
	// +optional
	DriverHash string `json:"driverHash,omitempty"`
	// +optional
	DriverURL string `json:"driverUrl,omitempty"`
	// CloudCredentialSecretName is the credential that made the server; used when spec.common names
	// none.
	// +optional
	CloudCredentialSecretName string `json:"cloudCredentialSecretName,omitempty"`
	// FailureReason and FailureMessage say why creating or deleting failed last.
	// +optional
	FailureReason string `json:"failureReason,omitempty"`
	// +optional
	FailureMessage string `json:"failureMessage,omitempty"`
	// Addresses of the server.
	// +optional
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`
	// FailureDomain is the zone or region where the server is; Cluster API takes it over.
	// +optional
	FailureDomain string `json:"failureDomain,omitempty"`
	// +optional
	Initialization InfrastructureInitialization `json:"initialization,omitempty,omitzero"`

	// The fields below are additions to Rancher's.

	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is a one-word summary for people: Pending, Creating, Running, Failed, Deleting. The
	// conditions have the details.
	// +optional
	Phase string `json:"phase,omitempty"`
	// InstanceName is the server's name at the cloud.
	// +optional
	InstanceName string `json:"instanceName,omitempty"`
	// Attempts counts the Jobs run for the present operation.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// LastAttempt is how the last Job ended.
	// +optional
	LastAttempt *AttemptStatus `json:"lastAttempt,omitempty"`
	// NextAttemptTime is when the next Job may start after a failure.
	// +optional
	NextAttemptTime *metav1.Time `json:"nextAttemptTime,omitempty"`
	// HeldBy is the machine of this namespace that the cloud refused, while this one waits for its
	// turn to ask for the same.
	// +optional
	HeldBy string `json:"heldBy,omitempty"`
}

// AttemptStatus is how one Job ended.
type AttemptStatus struct {
	// Operation is create or remove.
	Operation string `json:"operation"`
	// Number counts from 1.
	Number int32 `json:"number"`
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// Outcome is Succeeded, Failed or Cancelled.
	Outcome string `json:"outcome"`
	// Class of the failure: Invalid, Unauthorized, Quota, Capacity, Throttled, Transient, Unknown.
	// +optional
	Class string `json:"class,omitempty"`
	// Message is the driver's own error, redacted.
	// +optional
	Message string `json:"message,omitempty"`
	// LogTail is the end of the driver's log, redacted, at most 4 KiB; the state Secret keeps more.
	// +optional
	LogTail string `json:"logTail,omitempty"`
}

// MachineAddresses returns the addresses of a CAPI Machine's server outside and inside of the
// servers' own network. They come from the Machine's status, which Cluster API copies from any
// provider's infra machine. An annotation replaces the addresses of its kind.
func MachineAddresses(machine *clusterv1.Machine) (external, internal []string) {
	for _, address := range machine.Status.Addresses {
		switch address.Type {
		case clusterv1.MachineExternalIP:
			external = append(external, address.Address)
		case clusterv1.MachineInternalIP:
			internal = append(internal, address.Address)
		default: // host names are not resolved here
		}
	}
	for annotation, addresses := range map[string]*[]string{AddressAnnotation: &external, InternalAddressAnnotation: &internal} {
		if given := strings.FieldsFunc(machine.Annotations[annotation], func(r rune) bool { return r == ',' || r == ' ' }); len(given) > 0 {
			*addresses = given
		}
	}
	return external, internal
}
