// Package server is one localkube server from start to stop: it takes the data
// directory's lock, settles names and ports, issues identities, starts the
// control plane and, when asked, the node, says when all is ready, and takes
// everything down in the reverse order.
//
// The order of these steps is in Run; what each component needs is known by
// packages controlplane and node.
package server
