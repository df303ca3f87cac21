package managementcluster

// +kubebuilder:rbac:groups=management.cattle.io,resources=clusters,verbs=list;watch;create;patch;delete
// Only an identity with the right to patch the status may create a management Cluster or change its
// owner's UID, see admission/managementclusters.go.
// +kubebuilder:rbac:groups=management.cattle.io,resources=clusters/status,verbs=patch
// +kubebuilder:rbac:groups=provisioning.cattle.io,resources=clusters,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=provisioning.cattle.io,resources=clusters/status,verbs=patch
// +kubebuilder:rbac:groups=rke.cattle.io,resources=rkecontrolplanes,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=list;watch
