// Package join lets further machines into a cluster: agents (nodes) and
// servers (members of etcd with a control plane of their own).
//
// A machine that joins holds a token, which pins the cluster's certificate
// authority and carries a secret. It fetches the authority, compares it with
// the token, and only then sends the secret, over TLS that trusts nothing
// else. Private keys never travel, but for the authorities' own to a server.
//
//	GET  /v1/ca              the authority's certificate
//	POST /v1/agent           public keys in, certificates and cluster facts out
//	POST /v1/server          peer URL in, authorities and etcd membership out
//	POST /v1/server/promote  the new etcd member has caught up: let it vote
package join
