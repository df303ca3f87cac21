// Package simulated stands in for the servers of a cluster: their agents, which apply plans without
// effect, and the Kubernetes API that the servers run.
package simulated
