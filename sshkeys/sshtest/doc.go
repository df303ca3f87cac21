// Package sshtest is an SSH server for tests: it runs real shell commands and serves real SFTP on
// this machine, on loopback for one authorized key. It replaces a server's sshd in tests that do
// not need a whole server.
package sshtest
