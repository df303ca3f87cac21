// Package proxy is the HTTPS forward proxy that brings unmodified clients of
// a public API to the local cloud.
//
// It reads CONNECT requests, tunnels those for hosts it has a route for to an
// address of ours, and refuses all others, so that no test can reach the
// internet by accident. Package cloud listens for it.
package proxy
