package sshkeys

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/crypto/ssh"
)

// Errors that callers tell apart.
var (
	// ErrNoKey means that the state holds no SSH private key.
	ErrNoKey = errors.New("the state holds no SSH private key")
	// ErrNoAddress means that the state names no address of the server.
	ErrNoAddress = errors.New("the state names no address of the server")
	// ErrHostKeyUnknown means that no host key was recorded and none may be learned.
	ErrHostKeyUnknown = errors.New("no host key of the server is recorded")
	// ErrHostKeyChanged means that the server showed another host key than the recorded one.
	ErrHostKeyChanged = errors.New("the server's host key is not the recorded one")
	// ErrSilent means that the connection was closed because the server did not answer any more.
	ErrSilent = errors.New("the server does not answer any more")
	// ErrNotServing means that nothing served SSH at the address: the connection was refused, or ended before the server had
	// shown its host key, and so before anything of the login was told to it. Trying again does no harm.
	ErrNotServing = errors.New("nothing serves SSH there")
	// ErrJumpHost means that the host over which the server is reached could not be connected or logged in to, or does not go further.
	ErrJumpHost = errors.New("the jump host")
	// ErrNotAccepted means that the server showed its recorded host key and then did not let the user in.
	ErrNotAccepted = errors.New("the server does not let the user in")
)

// marked is an error that says of itself what it is, without a change of its text.
type marked struct {
	error

	mark error
}

// Unwrap gives the error itself, and its mark for errors.Is.
func (m marked) Unwrap() []error { return []error{m.error, m.mark} }

// contact is how far a server came with its host key, after which the login begins.
type contact struct{ shown, trusted atomic.Bool }

// mark marks an error of connecting or of the handshake.
func (c *contact) mark(err error) error {
	switch broken := isBroken(err); {
	case broken && !c.shown.Load():
		return marked{err, ErrNotServing}
	case !broken && c.trusted.Load():
		return marked{err, ErrNotAccepted}
	}
	return err
}

// isBroken reports that the other side refused or ended a connection.
func isBroken(err error) bool {
	for _, broken := range []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE,
		// The same as Windows numbers them: WSAECONNABORTED, WSAECONNRESET, WSAECONNREFUSED.
		syscall.Errno(10053), syscall.Errno(10054), syscall.Errno(10061),
	} {
		if errors.Is(err, broken) {
			return true
		}
	}
	return false
}

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
