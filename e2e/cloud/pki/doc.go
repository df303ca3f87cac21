// Package pki makes the certificate authority that the local cloud signs its
// endpoints with, and writes its certificate to the state directory. Package
// cloud asks it for one serving certificate that names every host the cloud
// answers for.
package pki
