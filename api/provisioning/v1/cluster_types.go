package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// Cluster is a Kubernetes cluster of k3s or RKE2 with its servers. Drover creates the objects of
// Cluster API from it, changes them when it changes, and deletes them with it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories={drover}
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels={"cluster.x-k8s.io/provider=infrastructure-drover","clusterctl.cluster.x-k8s.io=","clusterctl.cluster.x-k8s.io/move-hierarchy="}
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.kubernetesVersion`
// +kubebuilder:printcolumn:name="Cluster Name",type=string,JSONPath=`.status.clusterName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Kubeconfig",type=string,JSONPath=`.status.clientSecretName`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('.') && size(self.metadata.name) <= 63",message="the name of a Cluster has at most 63 characters and no dot, because labels and the names of its servers contain it"
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ClusterSpec `json:"spec,omitempty"`
	// +optional
	Status ClusterStatus `json:"status,omitempty"`
}

// ClusterSpec is the desired state of a Cluster.
// +kubebuilder:validation:XValidation:rule=`!has(self.rkeConfig) || !has(self.kubernetesVersion) || self.kubernetesVersion == "" || self.kubernetesVersion.matches("^v[0-9]+[.][0-9]+[.][0-9]+(-[0-9A-Za-z.-]+)?[+](k3s|rke2)[0-9A-Za-z.-]*$")`,message="kubernetesVersion is a release of k3s or RKE2, such as v1.36.3+k3s1 or v1.36.3+rke2r1"
// +kubebuilder:validation:XValidation:rule=`!has(self.rkeConfig) || !has(oldSelf.rkeConfig) || !has(oldSelf.kubernetesVersion) || oldSelf.kubernetesVersion == "" || has(self.kubernetesVersion) && self.kubernetesVersion != "" && self.kubernetesVersion.contains("+rke2") == oldSelf.kubernetesVersion.contains("+rke2")`,message="a cluster stays with its distribution: its servers cannot change from k3s to RKE2 or back, and kubernetesVersion cannot be taken out; make another cluster"
// +kubebuilder:validation:XValidation:rule=`has(self.rkeConfig) == has(oldSelf.rkeConfig)`,message="rkeConfig cannot be added or removed later: without it a Cluster is an imported one; make another Cluster"
type ClusterSpec struct {
	// CloudCredentialSecretName names the Secret with the cloud's credential for all pools that
	// name none: name, or namespace:name. A Secret in another namespace must name this namespace in
	// its annotation drover.cattle.io/allowed-namespaces.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?:)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of a Secret in this namespace, or namespace:name"
	CloudCredentialSecretName string `json:"cloudCredentialSecretName,omitempty"`
	// KubernetesVersion is a release of k3s or RKE2, such as v1.36.3+k3s1. The distribution cannot
	// be changed later.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// ClusterAPIConfig is deprecated in Rancher. It is kept and has no effect.
	// +optional
	ClusterAPIConfig *ClusterAPIConfig `json:"clusterAPIConfig,omitempty"`
	// RKEConfig is the configuration of the cluster and its pools of machines. A Cluster without it
	// is an imported one, for which Drover creates nothing.
	// +optional
	RKEConfig *RKEConfig `json:"rkeConfig,omitempty"`
	// LocalClusterAuthEndpoint is kept and not yet acted on.
	// +optional
	// +nullable
	LocalClusterAuthEndpoint rkev1.LocalClusterAuthEndpoint `json:"localClusterAuthEndpoint,omitempty,omitzero"`
	// AgentEnvVars are environment variables of the agent and of the commands that it runs, such
	// as HTTPS_PROXY. Changes and removals reach existing servers with their next plan.
	// +optional
	// +kubebuilder:validation:MaxItems=500
	AgentEnvVars []rkev1.EnvVar `json:"agentEnvVars,omitempty"`
	// ClusterAgentDeploymentCustomization is kept and has no effect: Drover deploys no cluster
	// agent.
	// +optional
	ClusterAgentDeploymentCustomization *AgentDeploymentCustomization `json:"clusterAgentDeploymentCustomization,omitempty"`
	// FleetAgentDeploymentCustomization is kept and has no effect: Drover does not deploy Fleet.
	// +optional
	FleetAgentDeploymentCustomization *AgentDeploymentCustomization `json:"fleetAgentDeploymentCustomization,omitempty"`
	// WebhookDeploymentCustomization is kept and has no effect: Drover deploys no webhook into the
	// cluster.
	// +optional
	WebhookDeploymentCustomization *WebhookDeploymentCustomization `json:"webhookDeploymentCustomization,omitempty"`
	// DefaultPodSecurityAdmissionConfigurationTemplateName is kept and has no effect.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	DefaultPodSecurityAdmissionConfigurationTemplateName string `json:"defaultPodSecurityAdmissionConfigurationTemplateName,omitempty"`
	// DefaultClusterRoleForProjectMembers is deprecated in Rancher. It is kept and has no effect.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	DefaultClusterRoleForProjectMembers string `json:"defaultClusterRoleForProjectMembers,omitempty"`
	// EnableNetworkPolicy is kept and has no effect: it isolates Rancher's projects.
	// +optional
	// +nullable
	EnableNetworkPolicy *bool `json:"enableNetworkPolicy,omitempty"`
	// RedeploySystemAgentGeneration is kept and has no effect.
	// +optional
	RedeploySystemAgentGeneration int64 `json:"redeploySystemAgentGeneration,omitempty"`
}

// ClusterAPIConfig is deprecated in Rancher.
type ClusterAPIConfig struct {
	// ClusterName has no effect.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClusterName string `json:"clusterName,omitempty"`
}

// RKEConfig is the configuration of a cluster of k3s or RKE2, and its pools of machines.
// +kubebuilder:validation:XValidation:rule=`(has(self.dataDirectories) && has(self.dataDirectories.k8sDistro) ? self.dataDirectories.k8sDistro : "") == (has(oldSelf.dataDirectories) && has(oldSelf.dataDirectories.k8sDistro) ? oldSelf.dataDirectories.k8sDistro : "")`,message="dataDirectories cannot be changed: servers keep their cluster there; make another Cluster to use another directory"
// +kubebuilder:validation:XValidation:rule=`(has(self.dataDirectories) && has(self.dataDirectories.systemAgent) ? self.dataDirectories.systemAgent : "") == (has(oldSelf.dataDirectories) && has(oldSelf.dataDirectories.systemAgent) ? oldSelf.dataDirectories.systemAgent : "")`,message="dataDirectories cannot be changed: servers keep their cluster there; make another Cluster to use another directory"
// +kubebuilder:validation:XValidation:rule=`(has(self.dataDirectories) && has(self.dataDirectories.provisioning) ? self.dataDirectories.provisioning : "") == (has(oldSelf.dataDirectories) && has(oldSelf.dataDirectories.provisioning) ? oldSelf.dataDirectories.provisioning : "")`,message="dataDirectories cannot be changed: servers keep their cluster there; make another Cluster to use another directory"
type RKEConfig struct {
	rkev1.ClusterConfiguration `json:",inline"`

	// ETCDSnapshotCreate asks for a snapshot; another generation asks again. It is kept and not yet
	// carried out.
	// +optional
	// +nullable
	ETCDSnapshotCreate *rkev1.ETCDSnapshotCreate `json:"etcdSnapshotCreate,omitempty"`
	// ETCDSnapshotRestore asks for a snapshot to be restored; another generation asks again. It is
	// kept and not yet carried out.
	// +optional
	// +nullable
	ETCDSnapshotRestore *rkev1.ETCDSnapshotRestore `json:"etcdSnapshotRestore,omitempty"`
	// RotateCertificates asks for new certificates; another generation asks again. It is kept and
	// not yet carried out.
	// +optional
	// +nullable
	RotateCertificates *rkev1.RotateCertificates `json:"rotateCertificates,omitempty"`
	// RotateEncryptionKeys asks for other keys of Secrets in etcd; another generation asks again.
	// It is kept and not yet carried out.
	// +optional
	// +nullable
	RotateEncryptionKeys *rkev1.RotateEncryptionKeys `json:"rotateEncryptionKeys,omitempty"`
	// MachinePools are the cluster's machines, in pools of equal machines.
	// +optional
	// +nullable
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	MachinePools []MachinePool `json:"machinePools,omitempty"`
	// MachinePoolDefaults apply to each pool that has no value of its own.
	// +optional
	MachinePoolDefaults MachinePoolDefaults `json:"machinePoolDefaults,omitempty,omitzero"`
	// MachineReplacement says when Drover replaces workers after an option in their Config has
	// changed. Automatic, the default, replaces them at once, as Rancher does. OnApproval waits
	// until the annotation drover.cattle.io/approve-replacement has the id of
	// status.pendingReplacement. Never keeps the machines, and makes further ones with the same
	// options. It is an addition to Rancher's fields.
	// +optional
	// +kubebuilder:validation:Enum="";Automatic;OnApproval;Never
	MachineReplacement string `json:"machineReplacement,omitempty"`
	// InfrastructureRef names the infrastructure of another provider of Cluster API. Drover does
	// not yet create clusters on it: the Cluster is held, and its condition says so.
	// +optional
	// +nullable
	InfrastructureRef *corev1.ObjectReference `json:"infrastructureRef,omitempty"`
}

// MachinePoolDefaults are defaults of all pools.
type MachinePoolDefaults struct {
	// HostnameLengthLimit limits the length of the servers' names.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=63
	HostnameLengthLimit int32 `json:"hostnameLengthLimit,omitempty"`
}

// ClusterStatus is the observed state of a Cluster.
type ClusterStatus struct {
	// Conditions report the progress and the reason of any wait; Ready sums them up.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:items:XPreserveUnknownFields
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Ready is true from the first time that the cluster is ready.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// ClusterName is the management Cluster.
	// +optional
	ClusterName string `json:"clusterName,omitempty"`
	// ClientSecretName is the Secret with the cluster's kubeconfig, in its key value.
	// +optional
	ClientSecretName string `json:"clientSecretName,omitempty"`
	// AgentDeployed is true while the cluster's API answers the manager.
	// +optional
	AgentDeployed bool `json:"agentDeployed,omitempty"`
	// ObservedGeneration is the generation of the spec that this status is of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// The fields below are additions to Rancher's.

	// Pools are the machines of each pool, in the order of the specification.
	// +optional
	// +listType=map
	// +listMapKey=name
	Pools []PoolStatus `json:"pools,omitempty"`
	// PendingReplacement are replacements of machines that wait for an approval.
	// +optional
	PendingReplacement *PendingReplacement `json:"pendingReplacement,omitempty"`
}

// Values of machineReplacement.
const (
	ReplaceAutomatically = "Automatic"
	ReplaceOnApproval    = "OnApproval"
	ReplaceNever         = "Never"
)

// PendingReplacement is a set of replacements that wait.
type PendingReplacement struct {
	// ID identifies exactly these replacements. The annotation
	// drover.cattle.io/approve-replacement with this value approves them.
	ID string `json:"id"`
	// Pools are the pools whose machines would be replaced.
	// +optional
	// +listType=map
	// +listMapKey=name
	Pools []PendingPool `json:"pools,omitempty"`
}

// PendingPool is a pool whose machines would be replaced.
type PendingPool struct {
	// Name of the pool.
	Name string `json:"name"`
	// Machines is the number of machines that would be replaced.
	Machines int32 `json:"machines"`
	// Changes are the options of the Config that have changed, with their values if these are not
	// secrets. Only the first 50 pools have them.
	// +optional
	// +listType=atomic
	Changes []string `json:"changes,omitempty"`
}

// PoolStatus counts the machines of a pool.
type PoolStatus struct {
	// Name of the pool.
	Name string `json:"name"`
	// Wanted is the number of machines that the specification asks for.
	// +optional
	Wanted int32 `json:"wanted"`
	// Made is the number of machines that exist.
	// +optional
	Made int32 `json:"made"`
	// Ready is the number of machines that are ready.
	// +optional
	Ready int32 `json:"ready"`
	// UpToDate is the number of machines that match the specification.
	// +optional
	UpToDate int32 `json:"upToDate"`
}

// ClusterList is a list of Clusters.
//
// +kubebuilder:object:root=true
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cluster `json:"items"`
}
