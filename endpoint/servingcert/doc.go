// Package servingcert makes the certificate that our webhook server shows to the API server, so that no cert-manager is
// needed. Certificate, key and the authority that signs them are one Secret in the manager's namespace, shared by the
// replicas: whoever finds it missing or about to expire renews it, the others see it by watch.
//
// It reads and writes: that Secret. CABundle goes into the webhook configurations (package admission).
package servingcert
