package v3

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// Cluster shows a provisioning Cluster to administrators and tools, under a name that is unique in
// the whole management cluster. Drover creates one for each provisioning Cluster with rkeConfig, and
// deletes it with the provisioning Cluster.
//
// The CRD has no label for clusterctl: an object without a namespace does not move with one. The
// target creates another management Cluster under the same name.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=drover
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Display Name",type=string,JSONPath=`.spec.displayName`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.provisioningCluster.namespace`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version.gitVersion`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodeCount`
// +kubebuilder:printcolumn:name="Connected",type=string,JSONPath=`.status.conditions[?(@.type=="Connected")].status`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('.') && size(self.metadata.name) <= 63",message="the name of a management Cluster has at most 63 characters and no dot"
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterSpec `json:"spec"`
	// +optional
	Status ClusterStatus `json:"status,omitempty"`
}

// ClusterSpec is the desired state of a management Cluster. Drover copies every field but
// description from the provisioning Cluster, and reverts other changes.
type ClusterSpec struct {
	// DisplayName is the name of the provisioning Cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	DisplayName string `json:"displayName,omitempty"`
	// Description is free text. Drover does not change it.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Description string `json:"description,omitempty"`
	// AgentEnvVars are the environment variables of the provisioning Cluster's agents.
	// +optional
	// +kubebuilder:validation:MaxItems=500
	AgentEnvVars []rkev1.EnvVar `json:"agentEnvVars,omitempty"`
	// LocalClusterAuthEndpoint is the one of the provisioning Cluster. It is not yet acted on.
	// +optional
	// +nullable
	LocalClusterAuthEndpoint rkev1.LocalClusterAuthEndpoint `json:"localClusterAuthEndpoint,omitempty,omitzero"`

	// ProvisioningCluster is the owner. An addition to Rancher's fields.
	ProvisioningCluster ProvisioningClusterReference `json:"provisioningCluster"`
}

// ProvisioningClusterReference names the owner of a management Cluster.
// +kubebuilder:validation:XValidation:rule="self.__namespace__ == oldSelf.__namespace__ && self.name == oldSelf.name",message="a management Cluster keeps its provisioning Cluster"
type ProvisioningClusterReference struct {
	// Namespace of the provisioning Cluster.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Name of the provisioning Cluster.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// UID of the provisioning Cluster. After a restore, Drover replaces the UID of a provisioning
	// Cluster that no longer exists.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	UID string `json:"uid"`
}

// ClusterStatus is the observed state of a management Cluster. Drover writes it at most once in ten
// seconds.
type ClusterStatus struct {
	// Conditions are copies: Ready and Provisioned of the provisioning Cluster's, Connected and
	// AgentDeployed of the RKEControlPlane's condition Available.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:items:XPreserveUnknownFields
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation of the spec that this status is of. An addition to
	// Rancher's fields.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Driver is imported, as in Rancher for a cluster that a provisioning Cluster makes.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Driver string `json:"driver,omitempty"`
	// Provider is the distribution: k3s or rke2.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Provider string `json:"provider,omitempty"`
	// Version is the Kubernetes version of the oldest control plane.
	// +optional
	Version *VersionInfo `json:"version,omitempty"`
	// NodeCount is the number of Nodes.
	// +optional
	NodeCount int32 `json:"nodeCount,omitempty"`
	// LinuxWorkerCount is the number of Linux Nodes that run workloads.
	// +optional
	LinuxWorkerCount int32 `json:"linuxWorkerCount,omitempty"`
	// Capacity is the sum of the Nodes' cpu, memory and pods.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// Allocatable is the sum of the Nodes' cpu, memory and pods that workloads can use.
	// +optional
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	// Info is a summary for user interfaces.
	// +optional
	Info ClusterInfo `json:"info,omitempty,omitzero"`
}

// VersionInfo is a version in the form of the API server's path /version. Drover sets major, minor
// and gitVersion.
type VersionInfo struct {
	// Major is the major version.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Major string `json:"major,omitempty"`
	// Minor is the minor version.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Minor string `json:"minor,omitempty"`
	// GitVersion is the complete version, such as v1.36.3+k3s1.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	GitVersion string `json:"gitVersion,omitempty"`
	// GitCommit is the commit. Drover does not set it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	GitCommit string `json:"gitCommit,omitempty"`
	// GitTreeState is the state of the source tree. Drover does not set it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	GitTreeState string `json:"gitTreeState,omitempty"`
	// BuildDate is the build date. Drover does not set it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BuildDate string `json:"buildDate,omitempty"`
	// GoVersion is the version of Go. Drover does not set it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	GoVersion string `json:"goVersion,omitempty"`
	// Compiler is the compiler. Drover does not set it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Compiler string `json:"compiler,omitempty"`
	// Platform is the platform. Drover does not set it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Platform string `json:"platform,omitempty"`
}

// ClusterInfo is a summary of a cluster.
type ClusterInfo struct {
	// KubernetesVersion is the version of the oldest control plane.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// MachineProvider is the driver of the first pool.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	MachineProvider string `json:"machineProvider,omitempty"`
	// Arch is the architecture of the Nodes: amd64, arm64, or mixed.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Arch string `json:"arch,omitempty"`
}

// ClusterList is a list of management Clusters.
//
// +kubebuilder:object:root=true
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cluster `json:"items"`
}
