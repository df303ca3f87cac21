package capi

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Referenced gets the object that a contract reference names, in the version its CRD serves for the contract.
func Referenced(ctx context.Context, reader client.Reader, ref clusterv1.ContractVersionedObjectReference, namespace string) (*unstructured.Unstructured, error) {
	return external.GetObjectFromContractVersionedRef(ctx, reader, ref, namespace)
}

// IsPaused tells whether obj, or the cluster it belongs to, is paused; the cluster may be nil.
func IsPaused(cluster *clusterv1.Cluster, obj client.Object) bool {
	if cluster == nil {
		return annotations.HasPaused(obj)
	}
	return annotations.IsPaused(cluster, obj)
}
