// Package controlplane says how etcd, kube-apiserver, kube-controller-manager
// and kube-scheduler are run: it turns Options into certificates, kubeconfigs
// and one process.Spec per component, and knows when each is ready.
//
// It reads the identities of package pki and writes below DATA/etcd,
// DATA/pki and DATA/kubeconfigs. Package node is next: it runs pods.
package controlplane
