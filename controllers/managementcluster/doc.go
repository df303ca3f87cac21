// Package managementcluster gives each provisioning Cluster with rkeConfig a management Cluster,
// which shows it under a name that is unique in the whole management cluster (D33).
//
//	find ─▶ claim the name ─▶ copy the specification ─▶ report, at most once in ten seconds
//
// It reads: provisioning Clusters, management Clusters, RKEControlPlanes, CAPI Clusters (whether they
// are paused), and the Nodes of workload clusters. It writes: management Clusters, except their
// description; of a provisioning Cluster the annotation
// provisioning.cattle.io/management-cluster-name, status.clusterName and the condition
// ManagementCluster. It deletes the provisioning Cluster of a management Cluster that is being
// deleted.
package managementcluster
