package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// RKECluster is the infrastructure cluster of Cluster API for every driver: Drover makes no network
// or load balancer, so it is provisioned at once, with the control plane endpoint the user gives,
// if any.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=rkc,categories={cluster-api,drover}
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels={"cluster.x-k8s.io/v1beta1=v1","cluster.x-k8s.io/v1beta2=v1","cluster.x-k8s.io/provider=infrastructure-drover","clusterctl.cluster.x-k8s.io="}
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.controlPlaneEndpoint.host`
// +kubebuilder:printcolumn:name="Port",type=integer,JSONPath=`.spec.controlPlaneEndpoint.port`,priority=1
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RKECluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec RKEClusterSpec `json:"spec,omitempty"`
	// +optional
	Status RKEClusterStatus `json:"status,omitempty"`
}

// RKEClusterSpec is the desired state of an RKECluster.
type RKEClusterSpec struct {
	// ControlPlaneEndpoint is where the cluster's API answers, when the user knows it beforehand.
	// +optional
	// +kubebuilder:validation:XValidation:rule="(has(self.host) && self.host != '') == (has(self.port) && self.port != 0)",message="controlPlaneEndpoint needs host and port, or neither: give the port of the cluster's API too, mostly 6443"
	// +kubebuilder:validation:XValidation:rule="!has(self.host) || self.host == '' || self.host.matches('^([A-Za-z0-9_][A-Za-z0-9_.-]*|[0-9a-fA-F]*:[0-9a-fA-F]*:[0-9a-fA-F:.]*)$')",message="controlPlaneEndpoint.host is a DNS name or an IP address alone, such as api.example.com or fd00::1: no scheme, no brackets, and the port in port"
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`
	// FailureDomains are the zones or regions that Cluster API spreads the control plane over, as
	// the driver's option for them names them: us-east-2a of Amazon EC2, us-central1-a of Google, 1
	// of Azure.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`
}

// RKEClusterStatus is the observed state of an RKECluster.
type RKEClusterStatus struct {
	// Conditions report the progress and the reason of any wait; Ready sums them up.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:items:XPreserveUnknownFields
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Ready is the field that Cluster API read before its v1beta2 contract.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// FailureDomains repeats the failure domains of the spec; Cluster API reads them here.
	// +optional
	// +listType=map
	// +listMapKey=name
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`
	// +optional
	Initialization InfrastructureInitialization `json:"initialization,omitempty,omitzero"`
	// ObservedGeneration is the generation of the spec that this status is of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// InfrastructureInitialization is the part of a status that Cluster API waits for (contract v1beta2).
//
// +kubebuilder:validation:MinProperties=1
type InfrastructureInitialization struct {
	// Provisioned is true once the infrastructure is there; it never goes back.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// RKEClusterList is a list of RKEClusters.
//
// +kubebuilder:object:root=true
type RKEClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RKECluster `json:"items"`
}

// RKEClusterTemplate lets a ClusterClass make RKEClusters.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories={cluster-api,drover}
// +kubebuilder:metadata:labels={"cluster.x-k8s.io/v1beta1=v1","cluster.x-k8s.io/v1beta2=v1","cluster.x-k8s.io/provider=infrastructure-drover","clusterctl.cluster.x-k8s.io="}
type RKEClusterTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RKEClusterTemplateSpec `json:"spec"`
}

// RKEClusterTemplateSpec holds the template.
type RKEClusterTemplateSpec struct {
	Template RKEClusterTemplateResource `json:"template"`
}

// RKEClusterTemplateResource is the template of an RKECluster.
type RKEClusterTemplateResource struct {
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// +optional
	Spec RKEClusterSpec `json:"spec,omitempty"`
}

// RKEClusterTemplateList is a list of RKEClusterTemplates.
//
// +kubebuilder:object:root=true
type RKEClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RKEClusterTemplate `json:"items"`
}
