package capi

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/core/setup"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// NewCache makes the manager's cache. Of Secrets it holds the metadata of all, and the content of none; of CRDs
// the metadata of all, and of drivers' CRDs all but the schema. The rest is read live.
func NewCache(config *rest.Config, opts cache.Options) (cache.Cache, error) {
	ofDriver, err := labels.NewRequirement(rkev1.NodeDriverLabel, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("building the selector of drivers' CRDs: %w", err)
	}
	opts.NewInformer = newRewatch().newInformer
	contents := opts
	contents.ByObject = maps.Clone(opts.ByObject)
	if contents.ByObject == nil {
		contents.ByObject = map[client.Object]cache.ByObject{}
	}
	contents.ByObject[&corev1.Secret{}] = cache.ByObject{Transform: refuseSecret}
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

// refuseSecret keeps no Secret whose content somebody wants from memory: a user may make as many of a megabyte as he likes. Content is read
// when it is needed.
func refuseSecret(in any) (any, error) {
	return nil, fmt.Errorf("the content of Secrets is read live, not from the cache: %T", in)
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
	if obj.Kind == "Secret" {
		boundMetadata(&obj.ObjectMeta)
	}
	return obj, nil
}

// maxMetadata is how many bytes the metadata of one Secret may have in memory.
const maxMetadata = 8 << 10

// boundMetadata drops labels, annotations and all owners but the first of a Secret that has a lot of them: a user may write a megabyte there. Whoever
// needs them of such a Secret has to read it.
func boundMetadata(obj *metav1.ObjectMeta) {
	if obj.Size() <= maxMetadata {
		return
	}
	owners := obj.OwnerReferences[:min(len(obj.OwnerReferences), 1)]
	*obj = metav1.ObjectMeta{Name: obj.Name, Namespace: obj.Namespace, UID: obj.UID, ResourceVersion: obj.ResourceVersion,
		CreationTimestamp: obj.CreationTimestamp, DeletionTimestamp: obj.DeletionTimestamp, OwnerReferences: slices.Clone(owners)}
}
