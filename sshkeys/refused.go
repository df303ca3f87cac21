package sshkeys

import (
	"strings"

	"golang.org/x/crypto/ssh"
)

// IsRefused reports whether a server answered and takes none of the login's keys. The client of golang.org/x/crypto/ssh has no
// type for it (client_auth.go, clientAuthenticate).
func IsRefused(err error) bool {
	return err != nil && strings.Contains(err.Error(), "ssh: unable to authenticate")
}

// Fingerprint is that of an authorized_keys line, as ssh-keygen -l prints it; empty when it is none.
func Fingerprint(line []byte) string {
	key, _, _, _, err := ssh.ParseAuthorizedKey(line)
	if err != nil {
		return ""
	}
	return ssh.FingerprintSHA256(key)
}
