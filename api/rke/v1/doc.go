// Package v1 holds the static kinds of the API group rke.cattle.io/v1, and the common parts of
// every <Driver>Machine: spec.common and status. Names and JSON fields are Rancher's; additions are
// marked so.
// +kubebuilder:object:generate=true
// +groupName=rke.cattle.io
package v1
