package v1

import (
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// AgentDeploymentCustomization changes a Deployment that Rancher creates in the cluster.
type AgentDeploymentCustomization struct {
	// AppendTolerations has no effect.
	// +optional
	AppendTolerations []corev1.Toleration `json:"appendTolerations,omitempty"`
	// OverrideAffinity has no effect; kubectl explain pod.spec.affinity describes it.
	// +optional
	// +nullable
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	OverrideAffinity *apiextensionsv1.JSON `json:"overrideAffinity,omitempty"`
	// OverrideResourceRequirements has no effect.
	// +optional
	// +nullable
	OverrideResourceRequirements *corev1.ResourceRequirements `json:"overrideResourceRequirements,omitempty"`
	// SchedulingCustomization has no effect.
	// +optional
	// +nullable
	SchedulingCustomization *AgentSchedulingCustomization `json:"schedulingCustomization,omitempty"`
}

// AgentSchedulingCustomization is the priority and the disruption budget of a Deployment.
type AgentSchedulingCustomization struct {
	// PriorityClass has no effect.
	// +optional
	// +nullable
	PriorityClass *PriorityClassSpec `json:"priorityClass,omitempty"`
	// PodDisruptionBudget has no effect.
	// +optional
	// +nullable
	PodDisruptionBudget *PodDisruptionBudgetSpec `json:"podDisruptionBudget,omitempty"`
}

// PriorityClassSpec is a priority of pods.
type PriorityClassSpec struct {
	// Value has no effect.
	// +optional
	Value int32 `json:"value,omitempty"`
	// PreemptionPolicy has no effect.
	// +optional
	// +nullable
	PreemptionPolicy *corev1.PreemptionPolicy `json:"preemptionPolicy,omitempty"`
}

// PodDisruptionBudgetSpec is a budget of disruptions.
type PodDisruptionBudgetSpec struct {
	// MinAvailable has no effect.
	// +optional
	MinAvailable string `json:"minAvailable,omitempty"`
	// MaxUnavailable has no effect.
	// +optional
	MaxUnavailable string `json:"maxUnavailable,omitempty"`
}

// WebhookDeploymentCustomization changes the Deployment of Rancher's webhook in the cluster.
type WebhookDeploymentCustomization struct {
	// ReplicaCount has no effect.
	// +optional
	// +nullable
	ReplicaCount *int32 `json:"replicaCount,omitempty"`
	// AppendTolerations has no effect.
	// +optional
	AppendTolerations []corev1.Toleration `json:"appendTolerations,omitempty"`
	// OverrideAffinity has no effect; kubectl explain pod.spec.affinity describes it.
	// +optional
	// +nullable
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	OverrideAffinity *apiextensionsv1.JSON `json:"overrideAffinity,omitempty"`
	// OverrideResourceRequirements has no effect.
	// +optional
	// +nullable
	OverrideResourceRequirements *corev1.ResourceRequirements `json:"overrideResourceRequirements,omitempty"`
	// PodDisruptionBudget has no effect.
	// +optional
	// +nullable
	PodDisruptionBudget *PodDisruptionBudgetSpec `json:"podDisruptionBudget,omitempty"`
}
