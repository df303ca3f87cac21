package capi

import (
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// AddToScheme registers Cluster API's kinds in the one version that we install.
func AddToScheme(scheme *runtime.Scheme) error {
	return errors.Join(clusterv1.AddToScheme(scheme), addonsv1.AddToScheme(scheme), runtimev1.AddToScheme(scheme))
}
