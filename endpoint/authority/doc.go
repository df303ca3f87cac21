// Package authority gives the endpoint that agents call its certificate. An authority of the endpoint's own signs it: a Secret in the manager's
// namespace, made once, which moves with the agents that trust it and is never made anew while they may. Or a TLS Secret of the user's has it.
//
// An authority's successor is made two years before its end and used one year before it. Agents trust both from their next renewal on, and the
// successor is signed by the authority before it, so that who knows only that one is not stranded either. The certificate is also for the
// hosts by which agents called earlier.
//
// It reads and writes: the Secret and the ConfigMap drover-endpoint-authority, and the Secret drover-endpoint-shown, which keeps the user's certificate until
// agents trust his next one. It reads: the user's Secret. Any replica has the same authority and signs a certificate for itself. Who asks:
// cmd/manager, for endpoint/agents and controllers/rkebootstrap.
package authority
