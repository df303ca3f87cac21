// Package provisioningcluster reconciles provisioning Clusters: it renders the objects of Cluster
// API from a Cluster and its Configs, and deletes them with the Cluster.
//
//	claim Configs ─▶ render ─▶ apply ─▶ delete what is no longer rendered ─▶ report
//
// It reads: Clusters, <X>Configs, and the objects that it renders. It writes: the Cluster's status,
// finalizer and annotation drover.cattle.io/rendered; the owner reference of a Config; the CAPI
// Cluster, RKECluster, RKEControlPlane, RKEBootstrapTemplate, <X>MachineTemplates,
// MachineDeployments and MachineHealthChecks, as field owner drover-provisioningcluster. It never
// writes a Cluster's spec.
package provisioningcluster
