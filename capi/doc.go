// Package capi is the only package that imports Cluster API's unstable packages. It runs Cluster
// API's core inside our manager if the cluster has none, and provides the few
// parts that other packages need.
//
// It reads the CRDs in the cluster to detect another installation of Cluster API (Resolve). It
// writes Cluster API's CRDs, without the versions that need a conversion webhook (CRDs), and all
// that Cluster API's own reconcilers write. Our manager serves its webhooks; Webhooks is their
// configuration.
package capi
