// Package pki makes localkube's identities: three certificate authorities
// (cluster, etcd, front proxy), the service-account key, the certificates and
// kubeconfigs issued from them, and the join tokens.
//
// Authorities, keys and tokens are made once and kept under DATA/pki; leaf
// certificates are issued afresh at every start, so addresses may change and
// nothing expires on a server that is restarted once a year.
package pki
