// Package identity makes the certificates and kubeconfigs of a cluster in the places where k3s has
// them: below server/tls, server/cred and agent of a data directory. Existing authorities are
// reused, missing ones are made; all other files are made again at each start.
package identity
