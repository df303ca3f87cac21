package v3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BuiltinURLPrefix opens the URL of a driver that is linked into Drover's own machine binary.
const BuiltinURLPrefix = "local://"

// Annotations of a NodeDriver. All but UIFieldHintsAnnotation are comma-separated lists.
// Source: Rancher Provisioning V2, pkg/controllers/management/drivers/nodedriver/machine_driver.go.
const (
	// PublicCredentialFieldsAnnotation lists credential fields that may be shown.
	PublicCredentialFieldsAnnotation = "publicCredentialFields"
	// PrivateCredentialFieldsAnnotation lists credential fields that are secret.
	PrivateCredentialFieldsAnnotation = "privateCredentialFields"
	// OptionalCredentialFieldsAnnotation lists credential fields that may be left out of the
	// credential.
	OptionalCredentialFieldsAnnotation = "optionalCredentialFields"
	// PasswordFieldsAnnotation lists further fields that are secret.
	PasswordFieldsAnnotation = "passwordFields"
	// DefaultsAnnotation lists field:value pairs.
	DefaultsAnnotation = "defaults"
	// FileAliasesAnnotation lists schemaField:driverField pairs: the user gives content, the driver
	// gets a path.
	FileAliasesAnnotation = "nodedriver.cattle.io/file-to-field-aliases"
	// UserDataAnnotation declares how the driver takes user data, for drivers that Drover does not
	// know; see docs/kinds/nodedriver.md.
	UserDataAnnotation = "drover.cattle.io/user-data"
	// UIFieldHintsAnnotation is JSON for a user interface; Drover keeps it and does not read it.
	UIFieldHintsAnnotation = "io.cattle.nodedriver/ui-field-hints"
)

// NodeDriver makes a docker-machine driver known: its flags become the kinds <X>Config,
// <X>MachineTemplate and <X>Machine.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=nd,categories=drover
// +kubebuilder:metadata:labels={"clusterctl.cluster.x-k8s.io=","clusterctl.cluster.x-k8s.io/move="}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Active",type=boolean,JSONPath=`.spec.active`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Fields",type=integer,JSONPath=`.status.fields`
// +kubebuilder:printcolumn:name="Machine Kind",type=string,JSONPath=`.status.machineKind`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.spec.url`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeDriver struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NodeDriverSpec `json:"spec"`
	// +optional
	Status NodeDriverStatus `json:"status,omitempty"`
}

// NodeDriverSpec is the desired state of a NodeDriver.
//
// +kubebuilder:validation:XValidation:rule="self.url.startsWith('local://') || self.url.startsWith('https://') || self.url.startsWith('http://')",message="url must be local:// for a built-in driver, or the https:// or http:// address of the driver's binary, tar.gz or zip"
// +kubebuilder:validation:XValidation:rule="self.url.startsWith('local://') || !self.active || size(self.checksum) > 0 || self.insecureSkipChecksum",message="an active external driver needs spec.checksum (sha256 or sha512 of what url serves), or spec.insecureSkipChecksum: true to accept any content"
type NodeDriverSpec struct {
	// DisplayName is the driver's own name, as in docker-machine-driver-<name>. Defaults to the
	// object's name.
	// +optional
	// +kubebuilder:validation:MaxLength=57
	DisplayName string `json:"displayName,omitempty"`
	// Description is free text.
	// +optional
	Description string `json:"description,omitempty"`
	// ExternalID is a catalogue's id; kept, not read.
	// +optional
	ExternalID string `json:"externalId,omitempty"`
	// UIURL is the address of a user interface plugin; kept, not read.
	// +optional
	UIURL string `json:"uiUrl,omitempty"`
	// URL is local:// for a built-in driver, else where its binary, tar.gz or zip is downloaded from.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url"`
	// Checksum of the file at URL, in hex; its length selects the algorithm: 32 md5, 40 sha1 (both
	// cause a warning), 64 sha256, 128 sha512.
	// +optional
	// +kubebuilder:default=""
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{32}|[0-9a-fA-F]{40}|[0-9a-fA-F]{64}|[0-9a-fA-F]{128})?$`
	Checksum string `json:"checksum"`
	// Builtin marks a driver that Drover brings along; it cannot be removed, only made inactive.
	// +optional
	Builtin bool `json:"builtin,omitempty"`
	// Active makes the driver's kinds appear. Making it inactive again keeps the kinds while
	// machines exist.
	// +kubebuilder:default=false
	Active bool `json:"active"`
	// AddCloudCredential asks for the credential's schema even while inactive; kept for
	// compatibility.
	// +optional
	AddCloudCredential bool `json:"addCloudCredential,omitempty"`
	// WhitelistDomains lists hosts a user interface may reach; kept, not read.
	// +optional
	WhitelistDomains []string `json:"whitelistDomains,omitempty"`

	// InsecureSkipChecksum accepts an external driver without a checksum. An addition to Rancher's
	// fields.
	// +optional
	// +kubebuilder:default=false
	InsecureSkipChecksum bool `json:"insecureSkipChecksum"`
	// Version is free text; changing it reads the driver again. An addition to Rancher's fields.
	// +optional
	Version string `json:"version,omitempty"`
	// ProviderIDTemplate says how an external driver's record becomes a providerID, such as
	// mycloud://{Region}/{InstanceID}: names in braces are fields of the driver's own record.
	// Built-in drivers need none. An addition to Rancher's fields.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^([a-z][a-z0-9-]*://.*)?$`
	ProviderIDTemplate string `json:"providerIDTemplate,omitempty"`
}

// NodeDriverStatus is the observed state of a driver.
type NodeDriverStatus struct {
	// Conditions of the driver. In objects exported from Rancher they have a lastUpdateTime too,
	// which is accepted.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:items:XPreserveUnknownFields
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation of the spec that this status is of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// AppliedURL is the spec's url that the kinds were made from.
	// +optional
	AppliedURL string `json:"appliedURL,omitempty"`
	// AppliedChecksum is the spec's checksum that the kinds were made from.
	// +optional
	AppliedChecksum string `json:"appliedChecksum,omitempty"`
	// AppliedVersion is the spec's version that the kinds were made from.
	// +optional
	AppliedVersion string `json:"appliedVersion,omitempty"`
	// AppliedDockerMachineVersion is the version of rancher/machine whose flags the kinds of a
	// built-in driver were made from.
	// +optional
	AppliedDockerMachineVersion string `json:"appliedDockerMachineVersion,omitempty"`
	// DriverName is the name the driver answers to.
	// +optional
	DriverName string `json:"driverName,omitempty"`
	// Digest is the sha256 of the verified binary, under which it is cached; empty for built-in
	// drivers.
	// +optional
	Digest string `json:"digest,omitempty"`
	// Fields is the number of fields the driver's flags became.
	// +optional
	Fields int32 `json:"fields,omitempty"`
	// ConfigKind is the kind of Rancher's own machine configurations made for this driver.
	// +optional
	ConfigKind string `json:"configKind,omitempty"`
	// MachineKind is the kind made for this driver's machines.
	// +optional
	MachineKind string `json:"machineKind,omitempty"`
	// MachineTemplateKind is the kind made for templates of this driver's machines.
	// +optional
	MachineTemplateKind string `json:"machineTemplateKind,omitempty"`
	// ProbeAttempts counts probe Jobs since the last success or change of the spec.
	// +optional
	ProbeAttempts int32 `json:"probeAttempts,omitempty"`
	// LastProbeTime is when the last probe Job ended.
	// +optional
	LastProbeTime *metav1.Time `json:"lastProbeTime,omitempty"`
}

// NodeDriverList is a list of NodeDrivers.
//
// +kubebuilder:object:root=true
type NodeDriverList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeDriver `json:"items"`
}

// DriverName returns the driver's own name: spec.displayName, or the object's name.
func (d *NodeDriver) DriverName() string {
	if d.Spec.DisplayName != "" {
		return d.Spec.DisplayName
	}
	return d.Name
}
