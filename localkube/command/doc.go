// Package command is localkube's command line: what the user types, read into
// the options of package server. The components' own verbs are not here but in
// the main package, which links Kubernetes.
package command
