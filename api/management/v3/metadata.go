package v3

const (
	// ClusterFinalizer keeps a management Cluster that is being deleted until its provisioning
	// Cluster is gone.
	ClusterFinalizer = "drover.cattle.io/management-cluster"
	// ImportedDriver is the driver of each management Cluster. Rancher's web page takes a cluster
	// whose driver equals its provider for one that was not provisioned.
	ImportedDriver = "imported"
)
