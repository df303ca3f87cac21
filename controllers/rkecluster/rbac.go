package rkecluster

// Cluster API's core makes RKEClusters from templates, owns them and deletes them: the aggregated role that gives it these
// rights can only be made by one who has them.
//
// +kubebuilder:rbac:groups=rke.cattle.io,resources=rkeclusters;rkeclustertemplates,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=rke.cattle.io,resources=rkeclusters/status;rkeclusters/finalizers;rkeclustertemplates/finalizers,verbs=get;update;patch
