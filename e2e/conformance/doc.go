// Package conformance checks from outside that our kinds are good citizens of Cluster API: Cluster API's own validators of
// ownerReferences, finalizers and resourceVersions, clusterctl's view of a cluster, and kubectl. It imports nothing of ours and
// is a module of its own, for Cluster API's test framework brings modules that the product must not have.
// clusterctl and Cluster API's managers for the tests are built from its go.mod too.
//
// It reads a testbed that is up (DROVER_E2E_KUBECONFIG) and makes a namespace with one cluster in it; hack/test.sh calls it.
package conformance
