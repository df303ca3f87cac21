// Package conformance checks from outside that our kinds follow Cluster API's conventions: Cluster
// API's own validators of ownerReferences, finalizers and resourceVersions, clusterctl's view of a
// cluster, and kubectl. It imports none of our packages and is a module of its own, because Cluster
// API's test framework depends on modules that the product must not have. clusterctl and Cluster
// API's managers for the tests are built from its go.mod too.
//
// It reads a running testbed (DROVER_E2E_KUBECONFIG) and makes a namespace with one cluster in it;
// hack/test.sh calls it.
package conformance
