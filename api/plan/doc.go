// Package plan is what a planner and a node's agent say to each other: the plan in JSON, the keys of the plan Secret it lies in,
// who may write which of them, and what the agent answers. Names and formats are those of Rancher's system-agent and its planner
// (rancher/system-agent, rancher/rancher pkg/plan; §6.6 and §6.7 of our notes on them), so that either side may be theirs.
//
// It is pure, and nothing of it does anything. What comes from the other side is read through Decode, DecodeOutput,
// DecodeProbeStatuses and DecodeAgentStatus, which bound it. Next: planner/ writes plans, agent/ obeys them, endpoint/
// and the admission policies hold agents to MayWrite.
package plan
