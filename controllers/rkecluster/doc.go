// Package rkecluster is the loop of RKECluster, the infrastructure cluster of every driver: Drover makes nothing for a whole
// cluster, so that it is provisioned as soon as a Cluster owns it. The control plane endpoint is what the user gives;
// under an RKEControlPlane one that he does not give is localhost:6443.
//
// It reads: RKEClusters and their CAPI Clusters. It writes: RKECluster status, and that endpoint. There is nothing to clean up, hence no
// finalizer. Cluster API comes next: it lets the machines of the cluster begin.
package rkecluster
