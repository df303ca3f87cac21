// Package endpoint serves the manager's ports: the webhooks, the agents' port, and the ports of
// metrics, health and profiles. Any pod can reach these ports, so each of them is bounded:
// connections in total and per address, time for every step, bytes of headers and bodies, and bytes
// of bodies in memory; on the agents' port also the rate of new connections. An address never loses
// its share to an address that holds more.
//
// It reads connections and writes metrics of the rejected ones. cmd/manager uses it. Certificates
// are in servingcert and authority, the responses to agents in agents.
package endpoint
