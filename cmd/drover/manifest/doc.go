// Package manifest builds the objects of a new cluster for `drover create cluster`: a Cluster of
// provisioning.cattle.io and a Config of the driver's kind for each pool. It is pure.
package manifest
