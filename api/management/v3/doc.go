// Package v3 holds the types of the API group management.cattle.io/v3: what a platform team writes to make a
// docker-machine driver known. Names and JSON fields are those of Rancher (design decision D1); additions are marked so.
//
// +kubebuilder:object:generate=true
// +groupName=management.cattle.io
package v3
