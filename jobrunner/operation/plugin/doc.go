// Package plugin runs one docker-machine driver as a process and speaks libmachine's plugin
// protocol with it: net/rpc over loopback, with the address on the process's first line of output.
//
// It replaces libmachine's own client, because a Job must be able to stop a driver that hangs, to
// pass credentials only in the driver's environment, and to bound each call by a context.
package plugin
