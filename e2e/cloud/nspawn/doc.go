// Package nspawn makes the servers of the local cloud real: each is a
// systemd-nspawn container with its own systemd, sshd and cloud-init.
//
// It reads a root file system made once by BuildImage, and writes one
// directory per server with an overlay on top of that root, the server's own
// identity and its cloud-init seed. Servers outlive the process that made
// them and can be adopted by the next. It is a server.Backend.
package nspawn
