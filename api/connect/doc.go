// Package connect is how an agent registers at the manager's endpoint and renews its access: one request and one answer, and the signature by
// which the endpoint knows the agent.
//
// The agent makes an ed25519 key and keeps it. It sends a Request, signed by that key, to Path; the first time with its bootstrap token as
// bearer token, which the endpoint binds to the key, later without. Whoever lost an answer asks again with the same key. Answer is a superset
// of what Rancher's /v3/connect/agent answers (§5.5 of our notes), so that its fields name the same things.
//
// It is pure. agent/ sends, endpoint/ answers.
package connect
