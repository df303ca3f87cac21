package sshkeys

import (
	"errors"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Errors that callers distinguish.
var (
	// ErrNoKey means that the state holds no SSH private key.
	ErrNoKey = errors.New("the state holds no SSH private key")
	// ErrNoAddress means that the state names no address of the server.
	ErrNoAddress = errors.New("the state names no address of the server")
	// ErrHostKeyUnknown means that no host key is recorded and the caller does not accept new ones.
	ErrHostKeyUnknown = errors.New("no host key of the server is recorded")
	// ErrHostKeyChanged means that the server showed another host key than the recorded one.
	ErrHostKeyChanged = errors.New("the server's host key is not the recorded one")
	// ErrSilent means that the connection was closed because the server did not answer any more.
	ErrSilent = errors.New("the server does not answer any more")
	// ErrJumpHost means that the connection or the login to the jump host failed, or that it does
	// not forward.
	ErrJumpHost = errors.New("the jump host")
)

// IsRefused reports whether a server answered and rejected all keys of the login. The client of
// golang.org/x/crypto/ssh has no type for it (client_auth.go, clientAuthenticate).
func IsRefused(err error) bool {
	return err != nil && strings.Contains(err.Error(), "ssh: unable to authenticate")
}

// Fingerprint returns the fingerprint of an authorized_keys line, as ssh-keygen -l prints it, or an
// empty string for an invalid line.
func Fingerprint(line []byte) string {
	key, _, _, _, err := ssh.ParseAuthorizedKey(line)
	if err != nil {
		return ""
	}
	return ssh.FingerprintSHA256(key)
}
