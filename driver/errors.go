package driver

import (
	"errors"
	"fmt"
)

// Error is why a driver's binary could not be had.
type Error struct {
	// Reason is one of api/management/v3 for a condition of a NodeDriver, or CacheIncompleteReason
	// of api/rke/v1.
	Reason string
	// Temporary failures may go away by trying again.
	Temporary bool
	// Err explains the problem and the remedy.
	Err error
}

// Error returns the text of Err.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf returns the reason of an *Error in err's chain, or "".
func ReasonOf(err error) string {
	if found, ok := errors.AsType[*Error](err); ok {
		return found.Reason
	}
	return ""
}

// IsTemporary reports whether err is an *Error that a retry may resolve.
func IsTemporary(err error) bool {
	found, ok := errors.AsType[*Error](err)
	return ok && found.Temporary
}

func fail(reason, format string, args ...any) error {
	return &Error{Reason: reason, Err: fmt.Errorf(format, args...)}
}
