// Package plugin runs one docker-machine driver as a process and speaks libmachine's plugin protocol with it: net/rpc over
// loopback, the address on the process's first line of output.
//
// libmachine has a client of its own; this one exists because a Job must be able to end a driver that hangs, to give it
// credentials in its own environment alone, and to have each call bounded by a context.
package plugin
