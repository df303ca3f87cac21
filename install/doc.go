// Package install puts into the cluster what Drover needs there beside its manager: CRDs, the namespace of driver binaries
// and who may read them, the role for Cluster API's manager, policies, webhook configurations, the predefined NodeDrivers.
// Everything goes by server-side apply of what differs, so that replicas may do it at the same time and a restart writes
// nothing.
//
// It reads: what is there of all that, and whether Rancher runs here. It writes: all that. Who asks: cmd/manager.
package install
