package v1

import "strings"

// FieldOwner is the field manager of all objects that a Cluster renders.
const FieldOwner = "drover-provisioningcluster"

// Annotations and the finalizer of a Cluster and its objects.
const (
	// RenderedAnnotation on a Cluster is the Cluster's name once its CAPI Cluster was created. If
	// the CAPI Cluster is then missing, nothing is created in its place.
	RenderedAnnotation = "drover.cattle.io/rendered"
	// PoolsAnnotation on a CAPI Cluster names the pools that have a MachineDeployment, with commas. After
	// a restore without owner references, nothing is created until all of them are restored.
	PoolsAnnotation = "drover.cattle.io/pools"
	// ConfigUIDAnnotation and ConfigGenerationAnnotation on a machine template note the Config that
	// has its options.
	ConfigUIDAnnotation        = "drover.cattle.io/config-uid"
	ConfigGenerationAnnotation = "drover.cattle.io/config-generation"
	// ApproveReplacementAnnotation on a Cluster approves the replacements with this ID, and no
	// others.
	ApproveReplacementAnnotation = "drover.cattle.io/approve-replacement"
	// AutoscalerPausedAnnotation with the value "true" on a Cluster takes the autoscaling sizes from its
	// MachineDeployments, so that the cluster autoscaler leaves their numbers of machines alone.
	AutoscalerPausedAnnotation = "provisioning.cattle.io/cluster-autoscaler-paused"
	// AutoscalerEnabledAnnotation is "true" on the CAPI Cluster while a pool has autoscaling sizes and
	// the autoscaler is not paused. Rancher's tools read both annotations there.
	AutoscalerEnabledAnnotation = "provisioning.cattle.io/cluster-autoscaler-enabled"
	// ManagementClusterNameAnnotation on a Cluster is the name of its management Cluster. A user may
	// choose a free name before Drover creates the management Cluster; later it does not change.
	ManagementClusterNameAnnotation = "provisioning.cattle.io/management-cluster-name"
	// ClusterFinalizer keeps a Cluster until its CAPI Cluster is gone.
	ClusterFinalizer = "drover.cattle.io/provisioning-cluster"
)

// IsReserved reports whether only Drover and Cluster API set the label. Labels with the prefix
// node.cluster.x-k8s.io are for users: Cluster API copies them to Nodes.
func IsReserved(label string) bool {
	prefix, _, found := strings.Cut(label, "/")
	if !found || prefix == "node.cluster.x-k8s.io" {
		return false
	}
	for _, domain := range []string{"cattle.io", "cluster.x-k8s.io"} {
		if prefix == domain || strings.HasSuffix(prefix, "."+domain) {
			return true
		}
	}
	return false
}
