package capi

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// dropManagedFields drops the list of field owners from machines: the list takes more than half of
// a machine's memory and is copied with each read. Cluster API's MachineSet controller reads two
// facts in it on the Machines and infra machines in its cache (internal/util/ssa, managedfields.go
// and managedfieldsmitigation.go of v1.14). It checks that an owner exists, so one stays, without
// its fields. And it checks whether fields must move from one manager to another, so such an object
// keeps the whole list. No controller reads the owners of objects that are watched as metadata.
func dropManagedFields(in any) {
	switch obj := in.(type) {
	case *metav1.PartialObjectMetadata:
		obj.SetManagedFields(nil)
	case *clusterv1.Machine:
		toMigrate := func(owner metav1.ManagedFieldsEntry) bool { return owner.Manager == beforeFirstApply }
		if len(obj.ManagedFields) > 0 && !slices.ContainsFunc(obj.ManagedFields, toMigrate) {
			obj.ManagedFields = slices.Clone(obj.ManagedFields[:1])
			obj.ManagedFields[0].FieldsV1 = nil
		}
	case *unstructured.Unstructured:
		if obj.GroupVersionKind().Group == rkev1.MachineGroupVersion.Group {
			dropFieldsOfOwners(obj)
		}
	}
}

const (
	// beforeFirstApply is the API server's name for the owner of fields that were written before a
	// first server-side apply.
	beforeFirstApply = "before-first-apply"
	// machineSet owned a machine's labels until Cluster API v1.11, and gives them away.
	machineSet       = "capi-machineset"
	clusterNameField = "f:" + clusterv1.ClusterNameLabel
)

// dropFieldsOfOwners does the same for an unstructured object, without converting it.
func dropFieldsOfOwners(obj *unstructured.Unstructured) {
	owners, _, err := unstructured.NestedFieldNoCopy(obj.Object, "metadata", "managedFields")
	list, ok := owners.([]any)
	if err != nil || !ok || len(list) == 0 {
		return
	}
	toMigrate := func(one any) bool {
		owner, ok := one.(map[string]any)
		if !ok || owner["manager"] == beforeFirstApply {
			return true
		}
		_, labelled, err := unstructured.NestedFieldNoCopy(owner, "fieldsV1", "f:metadata", "f:labels", clusterNameField)
		return err != nil || labelled && owner["manager"] == machineSet
	}
	if slices.ContainsFunc(list, toMigrate) {
		return
	}
	owner, _ := list[0].(map[string]any) // all are, or one were to be migrated
	delete(owner, "fieldsV1")
	obj.Object["metadata"].(map[string]any)["managedFields"] = []any{owner} // a part of the list would hold it all
}
