// Command localkube is a real Kubernetes in one binary: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler, and on request a node with
// containerd, kubelet and kube-proxy.
//
// Every component runs as a child process of this same executable under a verb
// of its own (localkube kube-apiserver …), because the components share global
// state that does not bear two of them in one process. See README.md.
package main
