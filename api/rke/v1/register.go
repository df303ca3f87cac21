package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of the static kinds in this package.
	GroupVersion = schema.GroupVersion{Group: "rke.cattle.io", Version: "v1"}
	// MachineGroupVersion is the group and version of the <Driver>Machine and
	// <Driver>MachineTemplate kinds.
	MachineGroupVersion = schema.GroupVersion{Group: "rke-machine.cattle.io", Version: "v1"}
	// MachineConfigGroupVersion is the group and version of the <Driver>Config kinds.
	MachineConfigGroupVersion = schema.GroupVersion{Group: "rke-machine-config.cattle.io", Version: "v1"}
)

// AddToScheme registers the static kinds of this package; it never fails.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &RKECluster{}, &RKEClusterList{}, &RKEClusterTemplate{}, &RKEClusterTemplateList{},
		&RKEControlPlane{}, &RKEControlPlaneList{}, &RKEBootstrap{}, &RKEBootstrapList{}, &RKEBootstrapTemplate{}, &RKEBootstrapTemplateList{},
		&ServerScan{}, &ServerScanList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
