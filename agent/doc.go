// Package agent is the daemon on a server: it watches its plan Secret, makes the plan true and says what became of it.
//
// It reads the Secret (api/plan) and the journal on its disk, and writes files, runs instructions and probes, and the keys of the Secret that are an
// agent's. What it does next is a pure function of the Secret and the journal (decide, report), so that whatever is lost, a process, an answer or
// the network, it looks again and goes on where it was. An instruction whose end is in the journal never runs again for the same order.
//
// agent/access registers it and keeps its token fresh, agent/image unpacks images. cmd/agent is the program.
package agent
