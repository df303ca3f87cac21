// Package install installs Drover's objects in the cluster beside its manager: CRDs, the namespace
// of driver binaries and the right to read them, the role for Cluster API's manager, policies,
// webhook configurations, the predefined NodeDrivers. It writes only differences, by server-side
// apply, so that replicas may run it concurrently and a restart writes nothing.
//
// It reads and writes these objects, and checks whether Rancher runs in the cluster. cmd/manager
// uses it.
package install
