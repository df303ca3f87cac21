package driver

import (
	"errors"
	"fmt"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// Reasons of an Error; they are reasons of a NodeDriver's conditions too.
const (
	// DownloadFailedReason: the URL could not be read to its end.
	DownloadFailedReason = v3.DownloadFailedReason
	// ChecksumMismatchReason: the URL serves something else than the checksum promises.
	ChecksumMismatchReason = v3.ChecksumMismatchReason
	// NotADriverReason: what was downloaded is no driver binary and no archive with one.
	NotADriverReason = v3.NotADriverReason
	// TooLargeReason: a download, an archive or a binary exceeds its bound.
	TooLargeReason = v3.TooLargeReason
	// WrongArchitectureReason: the binary is for another kind of computer.
	WrongArchitectureReason = v3.WrongArchitectureReason
	// DynamicallyLinkedReason: the binary needs a libc, and there is none where it has to run.
	DynamicallyLinkedReason = v3.DynamicallyLinkedReason
	// CacheIncompleteReason: the cache has no such binary, lacks a part of it, or holds a damaged one.
	CacheIncompleteReason = rkev1.CacheIncompleteReason
)

// Error is why a driver's binary could not be had.
type Error struct {
	// Reason is one of the constants above.
	Reason string
	// Temporary failures may go away by trying again.
	Temporary bool
	// Err tells people what is wrong and what to do.
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

// IsTemporary tells whether err is an *Error that may go away by trying again.
func IsTemporary(err error) bool {
	found, ok := errors.AsType[*Error](err)
	return ok && found.Temporary
}

func fail(reason, format string, args ...any) error {
	return &Error{Reason: reason, Err: fmt.Errorf(format, args...)}
}

func failTemporarily(reason, format string, args ...any) error {
	return &Error{Reason: reason, Temporary: true, Err: fmt.Errorf(format, args...)}
}
