// Package sshtest is an SSH server for tests: it runs real shell commands and serves real SFTP on this machine, on loopback,
// for one authorized key. It stands in for a server's sshd where a test needs no whole server.
package sshtest
