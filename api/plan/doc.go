// Package plan is the protocol between a planner and a node's agent: the plan in JSON, the keys of
// the plan Secret, the writers of each key, and the agent's reports. Names and formats are
// Rancher's, of its system-agent and its planner (rancher/system-agent, rancher/rancher pkg/plan;
// §6.6 and §6.7 of our notes on them), so that either side may be replaced by Rancher's.
//
// It is pure and has no side effects. Input from the other side is read through Decode,
// DecodeOutput, DecodeProbeStatuses and DecodeAgentStatus, which limit its size. Next: planner/
// writes plans, agent/ applies them, endpoint/ and the admission policies hold agents to MayWrite.
package plan
