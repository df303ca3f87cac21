// Package connect defines how an agent registers at the manager's endpoint and renews its access:
// one request, one answer, and the signature by which the endpoint recognizes the agent.
//
// The agent generates an ed25519 key and keeps it. It sends a Request, signed by that key, to Path.
// The first request carries its bootstrap token as bearer token, which the endpoint binds to the
// key; later requests carry none. An agent that lost an answer asks again with the same key. Answer
// is a superset of the answer of Rancher's /v3/connect/agent (§5.5 of our notes), with the same
// field names.
//
// It is pure. agent/ sends, endpoint/ answers.
package connect
