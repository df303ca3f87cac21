// Package provisioning renders a provisioning Cluster: from the Cluster, its Configs and the
// objects that exist, it computes the objects of Cluster API, and findings about the parts that
// cannot be rendered. It reads and writes nothing. controllers/provisioningcluster applies the
// objects. Names, labels and annotations are the ones of Rancher (pkg/provisioningv2 and
// pkg/controllers/provisioningv2 in github.com/rancher/rancher), so that its tools find the objects.
package provisioning
