// Package capi is the one place where Cluster API's unstable packages are imported. It runs Cluster API's core inside our
// manager when the cluster has none (design decision D2), and hands other packages the few things they need of it.
//
// It reads: the CRDs in the cluster, to tell whether somebody else runs Cluster API there (Resolve).
// It writes: Cluster API's CRDs, without the versions that would need a conversion webhook (CRDs); everything that Cluster
// API's own reconcilers write. Its webhooks are served by our manager; their configuration is Webhooks.
package capi
