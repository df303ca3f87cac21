// Package pki makes the certificate authority that the local cloud signs its
// endpoints with.
//
// It reads and writes ca.pem and ca-key.pem in the state directory, so that
// clients keep trusting the cloud after a restart. Package cloud asks it for
// one serving certificate that names every host the cloud answers for.
package pki
