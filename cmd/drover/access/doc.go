// Package access is logging in to servers for the CLI: from a machine's state Secret to a shell in the user's terminal, a
// copied file, or key files for the user's own ssh. The SSH itself is package sshkeys'.
package access
