// Package agentlog writes down what the agent on a server reports of its plan: how far it is, why its last attempt failed, what its instructions said,
// and which probes are not healthy. It reads the data of a plan Secret and is pure. Package command prints it; package api/plan says what the keys mean.
package agentlog
