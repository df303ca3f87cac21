package v1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Config is free-form configuration by key, such as the arguments of k3s or RKE2. Values are kept
// as they were written, so that no number loses a digit. Its schema is an object without
// properties: with any, the API server would drop keys whose value is null.
type Config map[string]apiextensionsv1.JSON

// ClusterConfiguration is the configuration of a cluster, with the field names of Rancher's
// rkeConfig.
type ClusterConfiguration struct {
	// +optional
	UpgradeStrategy ClusterUpgradeStrategy `json:"upgradeStrategy,omitempty,omitzero"`
	// ChartValues are Helm values for the distribution's own charts, by chart. Each becomes a
	// HelmChartConfig in the cluster. Values for a chart that the distribution lacks have no effect.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +nullable
	ChartValues Config `json:"chartValues,omitempty"`
	// MachineGlobalConfig are arguments of k3s or RKE2 for all machines.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +nullable
	MachineGlobalConfig Config `json:"machineGlobalConfig,omitempty"`
	// MachineSelectorConfig are arguments for the machines that a selector matches; a later entry
	// wins.
	// +optional
	// +kubebuilder:validation:MaxItems=500
	MachineSelectorConfig []RKESystemConfig `json:"machineSelectorConfig,omitempty"`
	// MachineSelectorFiles are files for the machines that a selector matches. At most 100 Secrets
	// and ConfigMaps are read for a cluster, and of them 4 MiB.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	MachineSelectorFiles []RKEProvisioningFiles `json:"machineSelectorFiles,omitempty"`
	// AdditionalManifest is YAML that the distribution applies to its cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	AdditionalManifest string `json:"additionalManifest,omitempty"`
	// Registries are mirrors and credentials of container registries.
	// +optional
	Registries *Registry `json:"registries,omitempty"`
	// ETCD is how the distribution takes snapshots.
	// +optional
	ETCD *ETCD `json:"etcd,omitempty"`
	// +optional
	Networking *Networking `json:"networking,omitempty"`
	// DataDirectories cannot be changed later.
	// +optional
	DataDirectories DataDirectories `json:"dataDirectories,omitempty,omitzero"`
	// ProvisionGeneration: another number has every machine install and restart the distribution
	// again.
	// +optional
	ProvisionGeneration int64 `json:"provisionGeneration,omitempty"`
}

// ClusterUpgradeStrategy is how many machines change at a time, and how they are drained before.
// Concurrency is a number or a percentage, 1 when empty, without limit when 0.
type ClusterUpgradeStrategy struct {
	// ControlPlaneConcurrency is how many control planes change at a time.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+%?)?$')",message="a concurrency is a number such as 2, or a percentage such as 10%"
	ControlPlaneConcurrency string `json:"controlPlaneConcurrency,omitempty"`
	// ControlPlaneDrainOptions is how control planes are drained. It is kept, and nothing is
	// drained before a change yet.
	// +optional
	ControlPlaneDrainOptions DrainOptions `json:"controlPlaneDrainOptions,omitempty,omitzero"`
	// WorkerConcurrency is how many workers change at a time.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+%?)?$')",message="a concurrency is a number such as 2, or a percentage such as 10%"
	WorkerConcurrency string `json:"workerConcurrency,omitempty"`
	// WorkerDrainOptions is how workers are drained. It is kept, and nothing is drained before a
	// change yet.
	// +optional
	WorkerDrainOptions DrainOptions `json:"workerDrainOptions,omitempty,omitzero"`
}

// DrainOptions configures the drain of a node before it changes. The fields are the options of
// kubectl drain.
type DrainOptions struct {
	// Enabled: nodes are drained.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// Force deletes pods that no controller would make again.
	// +optional
	Force bool `json:"force,omitempty"`
	// IgnoreDaemonSets is true when it is not given.
	// +optional
	IgnoreDaemonSets *bool `json:"ignoreDaemonSets,omitempty"`
	// IgnoreErrors: the change goes on where the drain failed.
	// +optional
	IgnoreErrors bool `json:"ignoreErrors,omitempty"`
	// DeleteEmptyDirData deletes pods that keep data in an emptyDir.
	// +optional
	DeleteEmptyDirData bool `json:"deleteEmptyDirData,omitempty"`
	// DisableEviction deletes pods where their budget forbids to evict them.
	// +optional
	DisableEviction bool `json:"disableEviction,omitempty"`
	// GracePeriod in seconds for each pod; the pod's own when negative.
	// +optional
	GracePeriod int64 `json:"gracePeriod,omitempty"`
	// Timeout in seconds of one attempt.
	// +optional
	Timeout int64 `json:"timeout,omitempty"`
	// SkipWaitForDeleteTimeoutSeconds: a pod whose deletion is older is not waited for.
	// +optional
	SkipWaitForDeleteTimeoutSeconds int64 `json:"skipWaitForDeleteTimeoutSeconds,omitempty"`
	// PreDrainHooks are waited for before the drain.
	// +optional
	PreDrainHooks []DrainHook `json:"preDrainHooks,omitempty"`
	// PostDrainHooks are waited for after the change.
	// +optional
	PostDrainHooks []DrainHook `json:"postDrainHooks,omitempty"`
}

// DrainHook is an annotation of the plan Secret that its owner sets when the drain may continue.
//
// +kubebuilder:object:generate=false
type DrainHook struct {
	// Annotation is its name.
	// +optional
	Annotation string `json:"annotation,omitempty"`
}

// RKESystemConfig is configuration for the machines whose labels match; for all without a selector.
type RKESystemConfig struct {
	// MachineLabelSelector picks the machines.
	// +optional
	MachineLabelSelector *metav1.LabelSelector `json:"machineLabelSelector,omitempty"`
	// Config are arguments of the distribution.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +nullable
	Config Config `json:"config,omitempty"`
}

// RKEProvisioningFiles are files for the machines whose labels match; for all without a selector.
type RKEProvisioningFiles struct {
	// MachineLabelSelector picks the machines.
	// +optional
	MachineLabelSelector *metav1.LabelSelector `json:"machineLabelSelector,omitempty"`
	// FileSources are where the files come from.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	FileSources []ProvisioningFileSource `json:"fileSources,omitempty"`
}

// ProvisioningFileSource is a Secret or a ConfigMap of the control plane's namespace. Its annotation
// rke.cattle.io/object-authorized-for-clusters must list the cluster.
type ProvisioningFileSource struct {
	// Secret that the files come from.
	// +optional
	Secret K8sObjectFileSource `json:"secret,omitempty,omitzero"`
	// ConfigMap that the files come from.
	// +optional
	ConfigMap K8sObjectFileSource `json:"configMap,omitempty,omitzero"`
}

// K8sObjectFileSource says which keys of an object become which files.
type K8sObjectFileSource struct {
	// Name of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// Items are its keys; one that is not listed becomes no file.
	// +optional
	// +kubebuilder:validation:MaxItems=500
	Items []KeyToPath `json:"items,omitempty"`
	// DefaultPermissions of the files, in octal; 0600 when empty.
	// +optional
	// +kubebuilder:validation:Pattern=`^([0-7]{3,4})?$`
	DefaultPermissions string `json:"defaultPermissions,omitempty"`
}

// KeyToPath makes a file of a key.
//
// +kubebuilder:object:generate=false
type KeyToPath struct {
	// Key of the object.
	Key string `json:"key"`
	// Path is absolute.
	Path string `json:"path"`
	// Dynamic: a change of the file restarts nothing.
	// +optional
	Dynamic bool `json:"dynamic,omitempty"`
	// Permissions in octal; the source's default when empty.
	// +optional
	// +kubebuilder:validation:Pattern=`^([0-7]{3,4})?$`
	Permissions string `json:"permissions,omitempty"`
	// Hash, if set, is the expected sha256 of the content, in base64.
	// +optional
	Hash string `json:"hash,omitempty"`
}

// Networking stack preferences.
const (
	PreferIPv4 = "ipv4"
	PreferIPv6 = "ipv6"
	PreferDual = "dual"
)

// Networking of the cluster.
//
// +kubebuilder:object:generate=false
type Networking struct {
	// StackPreference is the loopback address that probes ask: ipv4 (the default), ipv6 or dual.
	// +optional
	// +kubebuilder:validation:Enum="";ipv4;ipv6;dual
	StackPreference string `json:"stackPreference,omitempty"`
}

// DataDirectories are directories on the servers; absolute paths.
//
// +kubebuilder:object:generate=false
type DataDirectories struct {
	// SystemAgent is the agent's; /var/lib/rancher/agent when empty.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:XValidation:rule="self == '' || (self.matches('^/[A-Za-z0-9/_.-]+$') && !self.matches('(^|/)[.][.](/|$)'))",message="a data directory is an absolute path of letters, digits and /_.-"
	SystemAgent string `json:"systemAgent,omitempty"`
	// Provisioning holds helper files of plans; /var/lib/rancher/capr when empty.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:XValidation:rule="self == '' || (self.matches('^/[A-Za-z0-9/_.-]+$') && !self.matches('(^|/)[.][.](/|$)'))",message="a data directory is an absolute path of letters, digits and /_.-"
	Provisioning string `json:"provisioning,omitempty"`
	// K8sDistro is the distribution's; /var/lib/rancher/k3s or /var/lib/rancher/rke2 when empty.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:XValidation:rule="self == '' || (self.matches('^/[A-Za-z0-9/_.-]+$') && !self.matches('(^|/)[.][.](/|$)'))",message="a data directory is an absolute path of letters, digits and /_.-"
	K8sDistro string `json:"k8sDistro,omitempty"`
}

// EnvVar is an environment variable.
//
// +kubebuilder:object:generate=false
type EnvVar struct {
	// Name of the variable.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_]*$')",message="the name of an environment variable has letters, digits and _ only"
	Name string `json:"name,omitempty"`
	// Value of the variable.
	// +optional
	Value string `json:"value,omitempty"`
}

// LocalClusterAuthEndpoint lets users reach the cluster's API without the manager.
//
// +kubebuilder:object:generate=false
type LocalClusterAuthEndpoint struct {
	// Enabled turns it on.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// FQDN is the name users reach it by.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	FQDN string `json:"fqdn,omitempty"`
	// CACerts are the authorities, PEM, that signed the certificate of the FQDN.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	CACerts string `json:"caCerts,omitempty"`
}

// ETCD is how the distribution takes snapshots of etcd.
type ETCD struct {
	// DisableSnapshots: none are taken.
	// +optional
	DisableSnapshots bool `json:"disableSnapshots,omitempty"`
	// SnapshotScheduleCron is when they are taken; every twelve hours when empty.
	// +optional
	SnapshotScheduleCron string `json:"snapshotScheduleCron,omitempty"`
	// SnapshotRetention is how many snapshots are kept.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SnapshotRetention int64 `json:"snapshotRetention,omitempty"`
	// +optional
	S3 *ETCDSnapshotS3 `json:"s3,omitempty"`
}

// ETCDSnapshotS3 is where snapshots are uploaded.
//
// +kubebuilder:object:generate=false
type ETCDSnapshotS3 struct {
	// Endpoint is host and port of the storage.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
	// EndpointCA is PEM.
	// +optional
	EndpointCA string `json:"endpointCA,omitempty"`
	// SkipSSLVerify: the certificate of the endpoint is not checked.
	// +optional
	SkipSSLVerify bool `json:"skipSSLVerify,omitempty"`
	// Bucket that the snapshots go to.
	// +optional
	Bucket string `json:"bucket,omitempty"`
	// Region of the bucket.
	// +optional
	Region string `json:"region,omitempty"`
	// CloudCredentialName is a Secret with accessKey and secretKey, and with defaults for fields
	// that are unset here: defaultRegion, defaultEndpoint, defaultEndpointCA, defaultSkipSSLVerify,
	// defaultBucket, defaultFolder. It may be <namespace>:<name>, and its keys may have Rancher's
	// form s3credentialConfig-<key>.
	// +optional
	CloudCredentialName string `json:"cloudCredentialName,omitempty"`
	// Folder in the bucket.
	// +optional
	Folder string `json:"folder,omitempty"`
	// Retention is how many snapshots are kept in the bucket.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Retention int64 `json:"retention,omitempty"`
}

// ETCDSnapshotCreate asks for a snapshot.
//
// +kubebuilder:object:generate=false
type ETCDSnapshotCreate struct {
	// Generation: another number asks again.
	// +optional
	Generation int64 `json:"generation,omitempty"`
}

// ETCDSnapshotRestore asks for a snapshot to be restored.
//
// +kubebuilder:object:generate=false
type ETCDSnapshotRestore struct {
	// Name is the ETCDSnapshot.
	// +optional
	Name string `json:"name,omitempty"`
	// Generation: another number asks again.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// RestoreRKEConfig is the part of the configuration that is restored with it: none,
	// kubernetesVersion or all.
	// +optional
	// +kubebuilder:validation:Enum="";none;kubernetesVersion;all
	RestoreRKEConfig string `json:"restoreRKEConfig,omitempty"`
}

// RotateCertificates asks for new certificates.
type RotateCertificates struct {
	// Generation: another number asks again.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// Services whose certificates are rotated; all if empty.
	// +optional
	Services []string `json:"services,omitempty"`
}

// RotateEncryptionKeys asks for a new key of the cluster's Secrets.
//
// +kubebuilder:object:generate=false
type RotateEncryptionKeys struct {
	// Generation: another number asks again.
	// +optional
	Generation int64 `json:"generation,omitempty"`
}
