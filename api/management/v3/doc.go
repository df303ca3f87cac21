// Package v3 holds the types of the API group management.cattle.io/v3: NodeDriver, with which a
// platform team registers a docker-machine driver, and Cluster, which shows a provisioning Cluster
// under a name of its own. Names and JSON fields are Rancher's; additions are marked so.
//
// +kubebuilder:object:generate=true
// +groupName=management.cattle.io
package v3
