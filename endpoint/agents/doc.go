// Package agents serves the agents on servers, which reach the manager at one HTTPS address only.
// It registers them, passes each through to its own plan Secret, and serves the files that a new
// server downloads before it has an agent.
//
//	GET  /cacerts, /system-agent-install.sh, /assets/<file>, /healthz    any client
//	POST /v3/connect/agent                                               a holder of a bootstrap token, or of the key that used it
//	GET, PUT /api/v1/namespaces/<ns>/secrets...-machine-plan             with the agent's own token; the API server decides
//
// It reads plan Secrets and writes one key of them, the agent's public key. It requests the agent's
// short-lived tokens from the API server and adds no rights to them. Any replica can serve any
// agent. Package endpoint serves its handler; controllers/rkebootstrap makes bootstrap tokens and
// plan Secrets.
package agents
