// Package agents answers the agents on servers, which reach the manager at one HTTPS address and nothing else: it registers them, passes
// each through to its own plan Secret, and serves what a new server fetches before it has an agent.
//
//	GET  /cacerts, /system-agent-install.sh, /assets/<file>, /healthz    anybody
//	POST /v3/connect/agent                                               who has a bootstrap token, or the key that used it
//	GET, PUT /api/v1/namespaces/<ns>/secrets...-machine-plan             with the agent's own token; the API server decides
//
// It reads plan Secrets and writes one key of them, the agent's public key; it asks the API server for the agent's short-lived tokens and adds
// no right to any. Any replica answers any agent. Who asks: package endpoint serves it; controllers/rkebootstrap makes tokens and plan Secrets.
package agents
