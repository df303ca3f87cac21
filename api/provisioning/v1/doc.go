// Package v1 holds the kind Cluster of the API group provisioning.cattle.io/v1: one object from
// which Drover makes all objects of a cluster. Names and JSON fields are Rancher's; additions are
// marked so.
// +kubebuilder:object:generate=true
// +groupName=provisioning.cattle.io
package v1
