// Package kubeconfig reads kubeconfigs that somebody else wrote: bounded, and of what they say only what is inline (kubeconfig.go). Package workload
// connects with the result, package guard bounds keys and certificates with the same checks, and the CLI writes it to the user's own file, where
// a command in a kubeconfig would be run.
package kubeconfig
