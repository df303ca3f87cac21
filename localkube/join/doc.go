// Package join lets agents join a server of localkube in the packaging of k3s. What they say to each other is localkube's own: an agent proves by
// a password that it may join, and gets the certificates and keys of its components, and with them the cluster's ranges. It trusts the server by the
// checksum of the authority in its token, which has the form of k3s' (K10<sha256>::<user>:<password>).
//
// The server listens on a port of its own, of the host that agents are told; the port they are told is the API server's.
package join
