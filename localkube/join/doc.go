// Package join lets agents join a server of localkube in the packaging of k3s. The protocol is
// localkube's own: an agent proves by a password that it may join, and gets the certificates and
// keys of its components, and with them the cluster's ranges. It trusts the server by the checksum
// of the authority in its token, which has the form of k3s' (K10<sha256>::<user>:<password>).
//
// The server listens on its own port of the host in the agents' configuration; the port in that
// configuration is the API server's.
package join
