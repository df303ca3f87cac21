// Package authority provides the certificate of the endpoint that agents call. The endpoint's own
// authority signs it: a Secret in the manager's namespace, created once, which moves with the
// agents that trust it and is not replaced while they may trust it. Alternatively, the user
// provides the certificate in a TLS Secret.
//
// An authority's successor is created two years before the authority's end and used one year before
// it. Agents trust both from their next renewal on. The authority before it signs the successor, so
// that an agent that knows only the old one can still connect. The certificate also covers the
// hosts by which agents connected earlier.
//
// It reads and writes the Secret and the ConfigMap drover-endpoint-authority, and the Secret
// drover-endpoint-shown, which keeps the user's certificate until agents trust the next one. It
// reads the user's Secret. All replicas have the same authority, and each signs a certificate for
// itself. cmd/manager uses it for endpoint/agents and controllers/rkebootstrap.
package authority
