package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// RKEBootstrap is one machine's bootstrap: a script that installs the agent. The machine's plan
// then configures the machine.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories={cluster-api,drover}
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels={"cluster.x-k8s.io/v1beta1=v1","cluster.x-k8s.io/v1beta2=v1","cluster.x-k8s.io/provider=infrastructure-drover","clusterctl.cluster.x-k8s.io="}
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Secret",type=string,JSONPath=`.status.dataSecretName`,priority=1
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RKEBootstrap struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the spec of an RKEBootstrap cannot be changed, because its server may already use it: delete its Machine to create another one"
	Spec RKEBootstrapSpec `json:"spec,omitempty"`
	// +optional
	Status RKEBootstrapStatus `json:"status,omitempty"`
}

// RKEBootstrapSpec is the desired state of an RKEBootstrap.
//
// +kubebuilder:object:generate=false
type RKEBootstrapSpec struct {
	// ClusterName is the CAPI Cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName,omitempty"`
}

// RKEBootstrapStatus is the observed state of an RKEBootstrap.
type RKEBootstrapStatus struct {
	// Conditions report the progress and the reason of any wait; Ready sums them up.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:items:XPreserveUnknownFields
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Ready is the field that Cluster API read before its v1beta2 contract.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// +optional
	Initialization BootstrapInitialization `json:"initialization,omitempty,omitzero"`
	// DataSecretName is the Secret with the script, in its key value.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DataSecretName *string `json:"dataSecretName,omitempty"`
	// ObservedGeneration is the generation of the spec that this status is of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// BootstrapInitialization is the part of a status that Cluster API waits for (contract v1beta2).
//
// +kubebuilder:validation:MinProperties=1
type BootstrapInitialization struct {
	// DataSecretCreated is true once the script is there; it never goes back.
	// +optional
	DataSecretCreated *bool `json:"dataSecretCreated,omitempty"`
}

// RKEBootstrapList is a list of RKEBootstraps.
//
// +kubebuilder:object:root=true
type RKEBootstrapList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RKEBootstrap `json:"items"`
}

// RKEBootstrapTemplate is the template of the RKEBootstraps of MachineDeployments.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories={cluster-api,drover}
// +kubebuilder:metadata:labels={"cluster.x-k8s.io/v1beta1=v1","cluster.x-k8s.io/v1beta2=v1","cluster.x-k8s.io/provider=infrastructure-drover","clusterctl.cluster.x-k8s.io="}
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RKEBootstrapTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RKEBootstrapTemplateSpec `json:"spec"`
}

// RKEBootstrapTemplateSpec holds the template.
type RKEBootstrapTemplateSpec struct {
	// ClusterName is the CAPI Cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName,omitempty"`

	Template RKEBootstrapTemplateResource `json:"template"`
}

// RKEBootstrapTemplateResource is the template of an RKEBootstrap.
type RKEBootstrapTemplateResource struct {
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// +optional
	Spec RKEBootstrapSpec `json:"spec,omitempty"`
}

// RKEBootstrapTemplateList is a list of RKEBootstrapTemplates.
//
// +kubebuilder:object:root=true
type RKEBootstrapTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RKEBootstrapTemplate `json:"items"`
}
