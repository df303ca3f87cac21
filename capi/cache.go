package capi

import (
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/setup"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// NewCache makes the manager's cache. Of Secrets it holds the metadata of all, and the content of nothing but the
// kubeconfigs of Cluster API's clusters; of CRDs the metadata of all, and of drivers' CRDs all but the schema. The rest is
// read live.
func NewCache(config *rest.Config, opts cache.Options) (cache.Cache, error) {
	ofCluster, err := labels.NewRequirement(clusterv1.ClusterNameLabel, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("building the selector of cluster Secrets: %w", err)
	}
	ofDriver, err := labels.NewRequirement(rkev1.NodeDriverLabel, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("building the selector of drivers' CRDs: %w", err)
	}
	contents := opts
	contents.ByObject = maps.Clone(opts.ByObject)
	if contents.ByObject == nil {
		contents.ByObject = map[client.Object]cache.ByObject{}
	}
	contents.ByObject[&corev1.Secret{}] = cache.ByObject{Label: labels.NewSelector().Add(*ofCluster), Transform: dropSecretData}
	contents.ByObject[&apiextensionsv1.CustomResourceDefinition{}] = cache.ByObject{Label: labels.NewSelector().Add(*ofDriver), Transform: dropSchema}
	main, err := cache.New(config, contents)
	if err != nil {
		return nil, fmt.Errorf("making the cache: %w", err)
	}
	opts.ByObject = nil
	opts.DefaultTransform = onlyMetadata
	metadata, err := cache.New(config, opts)
	if err != nil {
		return nil, fmt.Errorf("making the cache of metadata: %w", err)
	}
	return &splitCache{Cache: main, metadata: metadata}, nil
}

// ClientOptions are those of the manager's client: Secrets and ConfigMaps are read live, unstructured objects are cached.
func ClientOptions() client.Options { return setup.ManagerClientOptions() }

// ControllerOptions are those of every controller of the manager: no priority queue, for the reason given at the feature
// gates.
func ControllerOptions() config.Controller { return config.Controller{UsePriorityQueue: new(false)} }

func dropSecretData(in any) (any, error) {
	if obj, ok := in.(*corev1.Secret); ok {
		obj.SetManagedFields(nil)
		if !strings.HasSuffix(obj.Name, "-"+string(secret.Kubeconfig)) {
			obj.Data = nil
		}
	}
	return in, nil
}

func dropSchema(in any) (any, error) {
	if crd, ok := in.(*apiextensionsv1.CustomResourceDefinition); ok {
		crd.SetManagedFields(nil)
		for i := range crd.Spec.Versions {
			crd.Spec.Versions[i].Schema = nil
		}
	}
	return in, nil
}

// onlyMetadata guards the memory: a Secret asked for in full would be held in full.
func onlyMetadata(in any) (any, error) {
	obj, ok := in.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil, fmt.Errorf("the cache of metadata was asked for a %T", in)
	}
	obj.SetManagedFields(nil)
	delete(obj.Annotations, corev1.LastAppliedConfigAnnotation)
	return obj, nil
}
