// Package command is localkube's command line: it parses the arguments into the options of package
// server. The components' own verbs are in the main package, which links Kubernetes.
package command
