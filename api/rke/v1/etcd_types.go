package v1

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
	// CloudCredentialName is a Secret with accessKey and secretKey, and with defaults for what is not given here: defaultRegion,
	// defaultEndpoint, defaultEndpointCA, defaultSkipSSLVerify, defaultBucket, defaultFolder.
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
type ETCDSnapshotCreate struct {
	// Generation: another number asks again.
	// +optional
	Generation int64 `json:"generation,omitempty"`
}

// ETCDSnapshotRestore asks for a snapshot to be restored.
type ETCDSnapshotRestore struct {
	// Name is the ETCDSnapshot.
	// +optional
	Name string `json:"name,omitempty"`
	// Generation: another number asks again.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// RestoreRKEConfig is what of the configuration comes back with it: none, kubernetesVersion or all.
	// +optional
	// +kubebuilder:validation:Enum="";none;kubernetesVersion;all
	RestoreRKEConfig string `json:"restoreRKEConfig,omitempty"`
}

// RotateCertificates asks for new certificates.
type RotateCertificates struct {
	// Generation: another number asks again.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// Services whose certificates are made anew; all when empty.
	// +optional
	Services []string `json:"services,omitempty"`
}

// RotateEncryptionKeys asks for a new key of the cluster's Secrets.
type RotateEncryptionKeys struct {
	// Generation: another number asks again.
	// +optional
	Generation int64 `json:"generation,omitempty"`
}
