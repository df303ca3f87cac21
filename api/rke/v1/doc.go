// Package v1 holds the static kinds of the API group rke.cattle.io/v1, and the parts that every <Driver>Machine has in
// common: spec.common and status. Names and JSON fields are those of Rancher (design decision D1); additions are marked so.
//
// +kubebuilder:object:generate=true
// +groupName=rke.cattle.io
package v1
