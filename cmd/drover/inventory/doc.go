// Package inventory reads a management cluster through a kubeconfig's rights and fills the types of package facts.
// It writes nothing but annotations and learned host keys, on request. What a user may not read becomes a line in Problems,
// not an error, wherever the rest is still worth showing.
package inventory
