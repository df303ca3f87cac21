// Package authorities makes what a cluster's certificates are signed with, checks what a user gives in its place, and writes the kubeconfig with a
// client certificate of its own (design decision D25). It is pure but for randomness: the controller reads and writes the Secrets, the planner
// puts the authorities onto the cluster's first server.
package authorities
