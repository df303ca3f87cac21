package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServerScan lists, once, the servers of a cloud account that carry our tags, and reports the
// servers without a machine. It is an addition to Rancher's kinds. The manager deletes it
// spec.ttlSecondsAfterFinished after it is done, an hour by default.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=sscan,categories={drover}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Driver",type=string,JSONPath=`.spec.driver`
// +kubebuilder:printcolumn:name="Credential",type=string,JSONPath=`.spec.cloudCredentialSecretName`
// +kubebuilder:printcolumn:name="Done",type=string,JSONPath=`.status.conditions[?(@.type=="Done")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Done")].reason`
// +kubebuilder:printcolumn:name="Orphans",type=integer,JSONPath=`.status.orphans`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ServerScan struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ServerScanSpec `json:"spec"`
	// +optional
	Status ServerScanStatus `json:"status,omitempty"`
}

// ServerScanSpec says where to look.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a ServerScan is done once: make another one"
type ServerScanSpec struct {
	// Driver whose cloud is asked; one that docs/orphans.md says yes to.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Driver string `json:"driver"`
	// CloudCredentialSecretName is the credential, as machines name it.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	CloudCredentialSecretName string `json:"cloudCredentialSecretName"`
	// Remove removes the orphans that are older than the grace period; without it nothing is changed.
	// +optional
	Remove bool `json:"remove,omitempty"`

	// The pattern takes nothing that a Duration cannot hold: a single one would keep the manager
	// from reading any ServerScan.

	// GracePeriod is how old a server must be to be removed, such as 90m; an hour by default.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=48
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}([.][0-9]{1,9})?s)?([0-9]{1,9}ms)?$`
	GracePeriod *metav1.Duration `json:"gracePeriod,omitempty"`
	// DeletedClusters are UIDs of CAPI Clusters of this namespace that were deleted, and not moved
	// to another management cluster: a server that was made for one of them, and that no machine
	// knows, is an orphan too.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`
	DeletedClusters []string `json:"deletedClusters,omitempty"`
	// TTLSecondsAfterFinished is how long it stays after it is done, as a Job's; an hour by default.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// ServerScanStatus is the result of the scan.
type ServerScanStatus struct {
	// Conditions report the progress; Done is True once the list is complete, and the requested
	// removals have ended.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Attempt is the number of the Job: the first lists, the second removes.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// Known is the number of servers that have a machine.
	// +optional
	Known int32 `json:"known,omitempty"`
	// Orphans is the number of servers that have no machine.
	// +optional
	Orphans int32 `json:"orphans,omitempty"`
	// Servers have no machine, or it is uncertain whether they have one; at most 500.
	// +optional
	// +listType=atomic
	Servers []ScannedServerStatus `json:"servers,omitempty"`
	// MachinesNotListed are machines with a server that the cloud does not list with their tag; at
	// most 500.
	// +optional
	// +listType=atomic
	MachinesNotListed []string `json:"machinesNotListed,omitempty"`
	// CompletionTime is when it was done.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
}

// ScannedServerStatus is a server that carries our tags.
type ScannedServerStatus struct {
	// ID is the cloud's.
	ID string `json:"id"`
	// Name is the server's at the cloud.
	// +optional
	Name string `json:"name,omitempty"`
	// MachineUID is the UID of the machine it was made for, by its tags.
	MachineUID string `json:"machineUID"`
	// Machine is that machine's name, by its tags.
	// +optional
	Machine string `json:"machine,omitempty"`
	// Cluster is that machine's cluster, by its tags.
	// +optional
	Cluster string `json:"cluster,omitempty"`
	// Created is the creation time, if the cloud reports it.
	// +optional
	Created *metav1.Time `json:"created,omitempty"`
	// Verdict is Orphan, Young, Uncertain or Removed.
	Verdict string `json:"verdict"`
	// Message says why.
	Message string `json:"message"`
}

// Verdicts on a server.
const (
	// VerdictOrphan: it is provably ours, no machine knows it, and it may be removed.
	VerdictOrphan = "Orphan"
	// VerdictYoung: as Orphan, but younger than the grace period.
	VerdictYoung = "Young"
	// VerdictUncertain: it is not certain whose it is; it is never removed.
	VerdictUncertain = "Uncertain"
	// VerdictRemoved: it was an orphan and was removed.
	VerdictRemoved = "Removed"
)

// ScanDoneCondition is True when a ServerScan is done, and False when it has failed for good.
const ScanDoneCondition = "Done"

// Reasons of the condition Done.
const (
	ScannedReason           = "Scanned"
	ScanningReason          = "Scanning"
	RemovingReason          = "RemovingOrphans"
	ScanUnsupportedReason   = "DriverUnsupported"
	ScanJobReason           = "JobFailed"
	ScanAmbiguousReason     = "MachinesUnreadable"
	ScanResultInvalidReason = "ResultInvalid"
)

// ServerScanList is a list of ServerScans.
//
// +kubebuilder:object:root=true
type ServerScanList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ServerScan `json:"items"`
}
