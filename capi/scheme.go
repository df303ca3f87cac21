package capi

import (
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	addonsv1beta1 "sigs.k8s.io/cluster-api/api/addons/v1beta1" //nolint:staticcheck // Cluster API's own webhooks ask the scheme for it
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1" //nolint:staticcheck // Cluster API's own webhooks ask the scheme for it
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1alpha1 "sigs.k8s.io/cluster-api/api/runtime/v1alpha1" //nolint:staticcheck // Cluster API's own webhooks ask the scheme for it
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// AddToScheme registers Cluster API's kinds. The older versions are there because Cluster API's webhooks, when they are set
// up, want to know them; we do not install them.
func AddToScheme(scheme *runtime.Scheme) error {
	return errors.Join(clusterv1.AddToScheme(scheme), addonsv1.AddToScheme(scheme), runtimev1.AddToScheme(scheme),
		clusterv1beta1.AddToScheme(scheme), addonsv1beta1.AddToScheme(scheme), runtimev1alpha1.AddToScheme(scheme))
}
