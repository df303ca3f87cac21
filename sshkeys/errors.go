package sshkeys

import "errors"

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
)
