package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// MachinePool is a number of equal machines.
// +kubebuilder:validation:XValidation:rule="(has(self.etcdRole) && self.etcdRole) || (has(self.controlPlaneRole) && self.controlPlaneRole) || (has(self.workerRole) && self.workerRole)",message="a pool has a role: set etcdRole, controlPlaneRole or workerRole to true"
// +kubebuilder:validation:XValidation:rule="(has(self.etcdRole) && self.etcdRole) == (has(oldSelf.etcdRole) && oldSelf.etcdRole) && (has(self.controlPlaneRole) && self.controlPlaneRole) == (has(oldSelf.controlPlaneRole) && oldSelf.controlPlaneRole) && (has(self.workerRole) && self.workerRole) == (has(oldSelf.workerRole) && oldSelf.workerRole)",message="the roles of a pool cannot be changed: its servers keep theirs. Add a pool with the other roles, then remove this one"
// +kubebuilder:validation:XValidation:rule="has(self.autoscalingMinSize) == has(self.autoscalingMaxSize)",message="autoscalingMinSize and autoscalingMaxSize are set together"
// +kubebuilder:validation:XValidation:rule="!has(self.autoscalingMinSize) || !has(self.autoscalingMaxSize) || self.autoscalingMinSize <= self.autoscalingMaxSize",message="autoscalingMinSize is not larger than autoscalingMaxSize"
// +kubebuilder:validation:XValidation:rule="!has(self.autoscalingMinSize) || self.autoscalingMinSize > 0 || !((has(self.etcdRole) && self.etcdRole) || (has(self.controlPlaneRole) && self.controlPlaneRole))",message="autoscalingMinSize is larger than 0 in a pool with the role etcd or control plane"
type MachinePool struct {
	// Name of the pool, a DNS label.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// DisplayName is deprecated in Rancher. It is kept and has no effect.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	DisplayName string `json:"displayName,omitempty"`
	// Labels are put on the Nodes and Machines of the pool. A change reaches existing machines.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	Labels map[string]string `json:"labels,omitempty"`
	// Taints are put on the Nodes of the pool. A change reaches existing machines.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	Taints []corev1.Taint `json:"taints,omitempty"`
	// CloudCredentialSecretName names the Secret with the cloud's credential: name, or
	// namespace:name; the Cluster's when empty. A change reaches existing machines.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^(([a-z0-9]([-a-z0-9]*[a-z0-9])?:)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$`
	CloudCredentialSecretName string `json:"cloudCredentialSecretName,omitempty"`
	// Quantity is the number of machines. With autoscaling sizes it is only the first number.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=1
	Quantity *int32 `json:"quantity,omitempty"`
	// EtcdRole: the machines hold the cluster's data.
	// +optional
	EtcdRole bool `json:"etcdRole,omitempty"`
	// ControlPlaneRole: the machines run the cluster's API.
	// +optional
	ControlPlaneRole bool `json:"controlPlaneRole,omitempty"`
	// WorkerRole: the machines run workloads.
	// +optional
	WorkerRole bool `json:"workerRole,omitempty"`
	// MachineConfigRef names the <X>Config with the driver's options. Its kind and name are read.
	// The Config is in the Cluster's namespace and belongs to one Cluster.
	MachineConfigRef ConfigReference `json:"machineConfigRef"`
	// Paused stops the replacement of the pool's machines. Their number still follows quantity.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// DrainBeforeDelete drains a Node before its machine is deleted.
	// +optional
	DrainBeforeDelete bool `json:"drainBeforeDelete,omitempty"`
	// DrainBeforeDeleteTimeout bounds the drain; without it, Cluster API waits without a limit.
	// +optional
	// +nullable
	DrainBeforeDeleteTimeout *metav1.Duration `json:"drainBeforeDeleteTimeout,omitempty"`
	// RollingUpdate bounds how many machines are replaced at a time.
	// +optional
	// +nullable
	RollingUpdate *RollingUpdate `json:"rollingUpdate,omitempty"`
	// MachineDeploymentLabels are labels of the MachineDeployment.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	MachineDeploymentLabels map[string]string `json:"machineDeploymentLabels,omitempty"`
	// MachineDeploymentAnnotations are annotations of the MachineDeployment.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	MachineDeploymentAnnotations map[string]string `json:"machineDeploymentAnnotations,omitempty"`
	// AutoscalingMinSize is the smallest number of machines that the cluster autoscaler may choose.
	// +optional
	// +nullable
	// +kubebuilder:validation:Minimum=0
	AutoscalingMinSize *int32 `json:"autoscalingMinSize,omitempty"`
	// AutoscalingMaxSize is the largest number of machines that the cluster autoscaler may choose.
	// +optional
	// +nullable
	// +kubebuilder:validation:Minimum=1
	AutoscalingMaxSize *int32 `json:"autoscalingMaxSize,omitempty"`
	// NodeStartupTimeout: a machine without a Node after this time is replaced, if
	// unhealthyNodeTimeout is set. 0 disables this check.
	// +optional
	// +nullable
	NodeStartupTimeout *metav1.Duration `json:"nodeStartupTimeout,omitempty"`
	// UnhealthyNodeTimeout: a machine whose Node is not ready for this time is replaced. 0 disables
	// the health check.
	// +optional
	// +nullable
	UnhealthyNodeTimeout *metav1.Duration `json:"unhealthyNodeTimeout,omitempty"`
	// MaxUnhealthy: no machine is replaced while more are unhealthy; a number or a percentage.
	// +optional
	// +nullable
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^([0-9]{1,9}%?)?$`
	MaxUnhealthy *string `json:"maxUnhealthy,omitempty"`
	// UnhealthyRange: a machine is replaced only while the number of unhealthy ones is within it,
	// such as [1-3].
	// +optional
	// +nullable
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(\[[0-9]{1,9}-[0-9]{1,9}\])?$`
	UnhealthyRange *string `json:"unhealthyRange,omitempty"`
	// MachineOS is linux. Pools of windows are kept and not yet created.
	// +optional
	// +kubebuilder:validation:Enum="";linux;windows
	MachineOS string `json:"machineOS,omitempty"`
	// DynamicSchemaSpec is a copy of the driver's schema that Rancher makes. It has no effect.
	// +optional
	DynamicSchemaSpec string `json:"dynamicSchemaSpec,omitempty"`
	// HostnameLengthLimit limits the length of the servers' names; machinePoolDefaults' when 0.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == 0 || self >= 10 && self <= 63",message="hostnameLengthLimit is between 10 and 63"
	HostnameLengthLimit int32 `json:"hostnameLengthLimit,omitempty"`
	// Userdata is for the infrastructure of other providers. It is kept and has no effect.
	// +optional
	// +nullable
	Userdata *MachinePoolUserdata `json:"userdata,omitempty"`
}

// ConfigReference names a Config. It has the fields of a reference in Kubernetes; kind and name are
// read.
// +kubebuilder:validation:XValidation:rule=`self.kind.endsWith("Config") || has(self.apiVersion) && self.apiVersion != "" && !self.apiVersion.startsWith("rke-machine-config.cattle.io/")`,fieldPath=".kind",message="the kind is the Config of a driver, such as DigitaloceanConfig"
type ConfigReference struct {
	// APIVersion is rke-machine-config.cattle.io/v1. A Cluster with infrastructureRef may name a
	// machine template of another provider with its apiVersion.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind is the Config of a driver, such as DigitaloceanConfig.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9-]*$`
	Kind string `json:"kind"`
	// Name of the Config.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace is the Cluster's; it is not read.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// UID is not read.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`
	// ResourceVersion is not read.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// FieldPath is not read.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	FieldPath string `json:"fieldPath,omitempty"`
}

// RollingUpdate bounds a replacement of machines.
// +kubebuilder:validation:XValidation:rule="!(has(self.maxSurge) && has(self.maxUnavailable) && (self.maxSurge == 0 || self.maxSurge == '0' || self.maxSurge == '0%') && (self.maxUnavailable == 0 || self.maxUnavailable == '0' || self.maxUnavailable == '0%'))",message="maxSurge and maxUnavailable are not both 0: no machine could be replaced"
type RollingUpdate struct {
	// MaxUnavailable is how many machines may be missing, a number or a percentage; 0 when empty.
	// +optional
	// +nullable
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MaxSurge is how many machines there may be in addition, a number or a percentage; 1 when
	// empty.
	// +optional
	// +nullable
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
}

// MachinePoolUserdata is for the infrastructure of other providers.
type MachinePoolUserdata struct {
	// InlineUserdata has no effect.
	// +optional
	InlineUserdata string `json:"inlineUserdata,omitempty"`
}
