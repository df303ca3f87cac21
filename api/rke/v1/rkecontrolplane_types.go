package v1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// RKEControlPlane is the desired state of a cluster of k3s or RKE2: version, configuration, and
// operations on it. It owns no machines, so it has neither spec.version nor
// spec.replicas: machines come from MachineDeployments, and their labels say which of them are
// control planes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=rcp,categories={cluster-api,drover}
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels={"cluster.x-k8s.io/v1beta1=v1","cluster.x-k8s.io/v1beta2=v1","cluster.x-k8s.io/provider=infrastructure-drover","clusterctl.cluster.x-k8s.io="}
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`
// +kubebuilder:printcolumn:name="Initialized",type=boolean,JSONPath=`.status.initialization.controlPlaneInitialized`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Up-to-date",type=integer,JSONPath=`.status.upToDateReplicas`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.kubernetesVersion`
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RKEControlPlane struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec RKEControlPlaneSpec `json:"spec,omitempty"`
	// +optional
	Status RKEControlPlaneStatus `json:"status,omitempty"`
}

// IsOf reports whether a Cluster names the control plane, which more than one may.
func (c *RKEControlPlane) IsOf(cluster *clusterv1.Cluster) bool {
	ref := cluster.Spec.ControlPlaneRef
	return ref.APIGroup == GroupVersion.Group && ref.Kind == "RKEControlPlane" && ref.Name == c.Name && cluster.Namespace == c.Namespace
}

// IsEstablished reports whether the cluster's API has answered once.
func (c *RKEControlPlane) IsEstablished() bool {
	return c.Status.Initialized || c.Annotations[BootstrappedAnnotation] == c.Name && c.Name != ""
}

// IsRendered reports whether a provisioning Cluster of the same name writes the control plane.
func (c *RKEControlPlane) IsRendered() bool {
	return c.Labels[ClusterNameLabel] == c.Name && c.Name != ""
}

// BelongsTo reports whether a Cluster refers to the control plane, or has created its servers with
// it, even if it refers to another one now. Such a Cluster is the owner or, if the owner reference
// was removed, the Cluster whose API has answered.
func (c *RKEControlPlane) BelongsTo(cluster *clusterv1.Cluster) bool {
	if owner := c.ownerCluster(); owner != "" {
		return c.IsOf(cluster) || owner == cluster.UID
	}
	return c.IsOf(cluster) || c.Status.Initialized && c.Labels[clusterv1.ClusterNameLabel] == cluster.Name && c.Namespace == cluster.Namespace
}

// IsNeededBy reports whether a Machine of a Cluster that it belongs to has, or will get, a server
// that would be lost without the control plane. This holds for each Machine of the owner Cluster. A
// Machine of another Cluster needs it only if it has bootstrap data, which it cannot get while that
// Cluster is not the owner: a restore may change the order of owners.
func (c *RKEControlPlane) IsNeededBy(cluster *clusterv1.Cluster, machine *clusterv1.Machine) bool {
	owner := c.ownerCluster()
	return machine.Spec.Bootstrap.DataSecretName != nil || owner == "" || owner == cluster.UID
}

// ownerCluster is the UID of the first Cluster among the owners; empty without one.
func (c *RKEControlPlane) ownerCluster() types.UID {
	for _, ref := range c.OwnerReferences {
		if ref.Kind == "Cluster" && strings.HasPrefix(ref.APIVersion, clusterv1.GroupVersion.Group+"/") {
			return ref.UID
		}
	}
	return ""
}

// RKEControlPlaneSpec is the desired state of an RKEControlPlane. Data directories are where
// servers keep their cluster: another one later would be an empty cluster.
// +kubebuilder:validation:XValidation:rule=`(has(self.dataDirectories) && has(self.dataDirectories.k8sDistro) ? self.dataDirectories.k8sDistro : "") == (has(oldSelf.dataDirectories) && has(oldSelf.dataDirectories.k8sDistro) ? oldSelf.dataDirectories.k8sDistro : "")`,message="dataDirectories cannot be changed: servers keep their cluster there; make another cluster to use another directory"
// +kubebuilder:validation:XValidation:rule=`(has(self.dataDirectories) && has(self.dataDirectories.systemAgent) ? self.dataDirectories.systemAgent : "") == (has(oldSelf.dataDirectories) && has(oldSelf.dataDirectories.systemAgent) ? oldSelf.dataDirectories.systemAgent : "")`,message="dataDirectories cannot be changed: servers keep their cluster there; make another cluster to use another directory"
// +kubebuilder:validation:XValidation:rule=`(has(self.dataDirectories) && has(self.dataDirectories.provisioning) ? self.dataDirectories.provisioning : "") == (has(oldSelf.dataDirectories) && has(oldSelf.dataDirectories.provisioning) ? oldSelf.dataDirectories.provisioning : "")`,message="dataDirectories cannot be changed: servers keep their cluster there; make another cluster to use another directory"
// +kubebuilder:validation:XValidation:rule=`!has(oldSelf.clusterName) || oldSelf.clusterName == "" || has(self.clusterName) && self.clusterName == oldSelf.clusterName`,message="clusterName cannot be changed: the machines belong to the cluster that it names"
// +kubebuilder:validation:XValidation:rule=`!has(oldSelf.kubernetesVersion) || oldSelf.kubernetesVersion == "" || has(self.kubernetesVersion) && self.kubernetesVersion != "" && self.kubernetesVersion.contains("+rke2") == oldSelf.kubernetesVersion.contains("+rke2")`,message="a cluster stays with its distribution: its servers cannot change from k3s to RKE2 or back, and kubernetesVersion cannot be taken out; make another cluster"
type RKEControlPlaneSpec struct {
	ClusterConfiguration `json:",inline"`

	// AgentEnvVars are environment variables of the agent and of the commands that it runs, such
	// as HTTPS_PROXY. Changes and removals reach existing servers with their next plan. Their
	// installers pass proxies and variables with the prefix K3S_, CONTAINERD_ or RKE2_ on to the
	// distribution, and restart it if one of them changed. If a proxy does not answer, the agent
	// calls the manager without it.
	// +optional
	// +kubebuilder:validation:MaxItems=500
	AgentEnvVars []EnvVar `json:"agentEnvVars,omitempty"`
	// LocalClusterAuthEndpoint is kept and not yet acted on.
	// +optional
	// +nullable
	LocalClusterAuthEndpoint LocalClusterAuthEndpoint `json:"localClusterAuthEndpoint,omitempty,omitzero"`
	// ETCDSnapshotCreate asks for a snapshot; another generation asks again. It is kept and not yet
	// carried out.
	// +optional
	ETCDSnapshotCreate *ETCDSnapshotCreate `json:"etcdSnapshotCreate,omitempty"`
	// ETCDSnapshotRestore asks for a snapshot to be restored; another generation asks again. It is
	// kept and not yet carried out.
	// +optional
	ETCDSnapshotRestore *ETCDSnapshotRestore `json:"etcdSnapshotRestore,omitempty"`
	// RotateCertificates asks for new certificates; another generation asks again. It is kept and
	// not yet carried out.
	// +optional
	RotateCertificates *RotateCertificates `json:"rotateCertificates,omitempty"`
	// RotateEncryptionKeys asks for other keys of Secrets in etcd; another generation asks again.
	// It is kept and not yet carried out.
	// +optional
	RotateEncryptionKeys *RotateEncryptionKeys `json:"rotateEncryptionKeys,omitempty"`
	// KubernetesVersion is a release of k3s or RKE2, such as v1.36.3+k3s1.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^v[0-9]+[.][0-9]+[.][0-9]+(-[0-9A-Za-z.-]+)?[+](k3s|rke2)[0-9A-Za-z.-]*$')",message="kubernetesVersion is a release of k3s or RKE2, such as v1.36.3+k3s1 or v1.36.3+rke2r1"
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// ClusterName is the provisioning Cluster, or else the CAPI Cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName,omitempty"`
	// ManagementClusterName is the management Cluster, if there is one.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ManagementClusterName string `json:"managementClusterName,omitempty"`
	// UnmanagedConfig: another tool manages the files of the distribution's configuration, and no
	// plan includes them.
	// +optional
	UnmanagedConfig bool `json:"unmanagedConfig,omitempty"`
}

// RKEControlPlaneStatus is the observed state of an RKEControlPlane.
type RKEControlPlaneStatus struct {
	// Conditions report the progress and the reason of any wait; Ready sums them up.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:items:XPreserveUnknownFields
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// +optional
	Initialization ControlPlaneInitialization `json:"initialization,omitempty,omitzero"`
	// Ready is the field that Cluster API read before its v1beta2 contract.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// Initialized is the field that Cluster API read before its v1beta2 contract.
	// +optional
	Initialized bool `json:"initialized,omitempty"`
	// ObservedGeneration is the generation of the spec that this status is of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// AgentConnected is true while the cluster's agent is connected to the manager.
	// +optional
	AgentConnected bool `json:"agentConnected,omitempty"`

	// The fields below are additions to Rancher's, which Cluster API reads.

	// Replicas counts the control plane's Machines.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// ReadyReplicas counts the ready ones.
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`
	// AvailableReplicas counts the available ones.
	// +optional
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`
	// UpToDateReplicas counts the ones that match the current spec.
	// +optional
	UpToDateReplicas *int32 `json:"upToDateReplicas,omitempty"`
	// Versions are the Kubernetes versions that control planes run, oldest first.
	// +optional
	// +listType=map
	// +listMapKey=version
	// +kubebuilder:validation:MaxItems=100
	Versions []clusterv1.StatusVersion `json:"versions,omitempty"`
}

// ControlPlaneInitialization is the part of a status that Cluster API waits for (contract v1beta2).
//
// +kubebuilder:validation:MinProperties=1
type ControlPlaneInitialization struct {
	// ControlPlaneInitialized is true once the cluster's API has answered; it never goes back.
	// +optional
	ControlPlaneInitialized *bool `json:"controlPlaneInitialized,omitempty"`
}

// RKEControlPlaneList is a list of RKEControlPlanes.
//
// +kubebuilder:object:root=true
type RKEControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RKEControlPlane `json:"items"`
}
