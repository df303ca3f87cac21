package rkecluster

// Cluster API's core, when it is embedded, makes RKEClusters from templates, owns them and deletes them.
//
// +kubebuilder:rbac:groups=rke.cattle.io,resources=rkeclusters;rkeclustertemplates,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=rke.cattle.io,resources=rkeclusters/status;rkeclusters/finalizers;rkeclustertemplates/finalizers,verbs=get;update;patch
