// Package host prepares this machine's network for the servers of local
// clouds: one bridge, shared by all of them, and a slot for each cloud.
//
// A slot is a range of addresses and ids, so that clouds can run beside each
// other. It reads and writes lock files under /run/drover, and leaves nothing
// behind once the last cloud has gone. Package cloud uses it.
package host
