// Package identity makes the certificates and kubeconfigs of a cluster in the places where k3s has them: below server/tls, server/cred and agent
// of a data directory. Authorities that are there already are taken, others made; all else is made anew at each start.
package identity
