// Package distribution is localkube in the packaging of k3s: it reads the configuration of k3s, uses the ports and folders of k3s, and its nodes'
// pods outlive its restarts. What it starts is the Kubernetes that packages controlplane and node start for `localkube server`, too.
//
// There is one server, which is a node as well, and any number of agents. See README.md for what of k3s it lacks.
package distribution
