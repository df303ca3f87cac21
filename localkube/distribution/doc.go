// Package distribution is localkube in the packaging of k3s: it reads the configuration of k3s,
// uses the ports and folders of k3s, and its nodes' pods outlive its restarts. It starts Kubernetes
// with the packages controlplane and node, like `localkube server`.
//
// There is one server, which is also a node, and any number of agents. README.md lists the missing
// features of k3s.
package distribution
