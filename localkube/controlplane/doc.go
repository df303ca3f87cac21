// Package controlplane says how etcd, kube-apiserver, kube-controller-manager
// and kube-scheduler are run: it makes one process.Spec per component and
// knows when the API server is ready.
//
// It reads the files of package identity and writes below DATA/etcd. Package
// node is next: it runs pods.
package controlplane
