// Package v3 holds the types of the API group management.cattle.io/v3, with which a platform team
// registers a docker-machine driver. Names and JSON fields are Rancher's;
// additions are marked so.
//
// +kubebuilder:object:generate=true
// +groupName=management.cattle.io
package v3
