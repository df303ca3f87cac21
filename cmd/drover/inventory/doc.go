// Package inventory reads a management cluster with a kubeconfig's rights and fills the types of
// package facts. It writes only annotations and learned host keys, on request. An object that the
// user is not allowed to read becomes a line in Problems, not an error, if the rest is still worth
// showing.
package inventory
