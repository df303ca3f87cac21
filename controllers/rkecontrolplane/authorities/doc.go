// Package authorities creates the authorities that sign a cluster's certificates, validates those
// that a user gives instead, and writes the kubeconfig with its own client certificate. It is pure
// except for randomness: the controller reads and writes the Secrets, and the planner puts the
// authorities onto the cluster's first server.
package authorities
