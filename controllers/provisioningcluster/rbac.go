package provisioningcluster

// +kubebuilder:rbac:groups=provisioning.cattle.io,resources=clusters,verbs=list;watch;patch
// +kubebuilder:rbac:groups=provisioning.cattle.io,resources=clusters/status,verbs=patch
// Permission for owner references that block deletion; an API server with the plugin
// OwnerReferencesPermissionEnforcement requires it.
// +kubebuilder:rbac:groups=provisioning.cattle.io,resources=clusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinedeployments;machinehealthchecks,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinesets;machines,verbs=list;watch
// +kubebuilder:rbac:groups=rke.cattle.io,resources=rkeclusters;rkecontrolplanes;rkebootstraptemplates,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rke-machine.cattle.io;rke-machine-config.cattle.io,resources=*,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=management.cattle.io,resources=nodedrivers,verbs=list;watch
