// Package endpoint serves what others call at the manager: the webhooks, the port of agents, and those of metrics, health and profiles. Any pod
// can reach these ports, so each of them is bounded: connections in all and of one address, and where agents call how fast they come,
// time for every step, bytes of headers and bodies, and bytes of bodies in memory at once. What one address holds is never taken from another that holds less.
//
// It reads: connections. It writes: metrics of what it refused. Who asks: cmd/manager. Certificates are in servingcert and authority,
// what agents are answered in agents.
package endpoint
