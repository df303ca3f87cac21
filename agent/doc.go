// Package agent is the daemon on a server. It watches its plan Secret, applies the plan and reports
// the result.
//
// It reads the Secret (api/plan) and the journal on its disk. It writes files, runs instructions
// and probes, and writes the agent's keys of the Secret. Its next action is a pure function of the
// Secret and the journal (decide, report). So it continues correctly after the loss of a process,
// an answer or the network. An instruction whose end is in the journal never runs again for the
// same order.
//
// agent/access registers the agent and renews its token. agent/image unpacks images. cmd/agent is
// the program.
package agent
