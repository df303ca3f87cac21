// Package node makes this machine a Kubernetes node: containerd, pod network,
// kubelet and kube-proxy, and takes every trace of them away again.
package node
