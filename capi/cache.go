package capi

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/setup"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// SecretCache says which Secrets the manager's cache holds: those of Cluster API's clusters, and of these the data of
// kubeconfigs only. Everything else is read live, or as metadata through NewSecretMetadata.
func SecretCache() (cache.ByObject, error) {
	ofCluster, err := labels.NewRequirement(clusterv1.ClusterNameLabel, selection.Exists, nil)
	if err != nil {
		return cache.ByObject{}, fmt.Errorf("building the selector of cluster Secrets: %w", err)
	}
	return cache.ByObject{Label: labels.NewSelector().Add(*ofCluster), Transform: dropSecretData}, nil
}

func dropSecretData(in any) (any, error) {
	switch obj := in.(type) {
	case *corev1.Secret:
		obj.SetManagedFields(nil)
		if !strings.HasSuffix(obj.Name, "-"+string(secret.Kubeconfig)) {
			obj.Data = nil
		}
	case *metav1.PartialObjectMetadata:
		obj.SetManagedFields(nil)
	}
	return in, nil
}

// ClientOptions are those of the manager's client: Secrets and ConfigMaps are read live, unstructured objects are cached.
func ClientOptions() client.Options { return setup.ManagerClientOptions() }

// NewSecretMetadata makes a cache that holds the metadata of every Secret, for watching, and adds it to the manager. The
// manager's own cache cannot do it, for it knows the Secrets of clusters only.
func NewSecretMetadata(mgr manager.Manager, namespaces map[string]cache.Config) (cache.Cache, error) {
	metadata, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		DefaultNamespaces: namespaces,
		DefaultTransform:  onlySecretMetadata,
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of Secret metadata: %w", err)
	}
	if err := mgr.Add(metadata); err != nil {
		return nil, fmt.Errorf("adding the cache of Secret metadata: %w", err)
	}
	return metadata, nil
}

// onlySecretMetadata guards the memory: a Secret asked for in full would be held in full.
func onlySecretMetadata(in any) (any, error) {
	obj, ok := in.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil, fmt.Errorf("the cache of Secret metadata was asked for a %T", in)
	}
	obj.SetManagedFields(nil)
	delete(obj.Annotations, corev1.LastAppliedConfigAnnotation)
	return obj, nil
}
