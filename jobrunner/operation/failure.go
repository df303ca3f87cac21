package operation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner/operation/plugin"
)

// Reasons of a failed operation, beside those of package driver.
const (
	reasonCancelled         = rkev1.CancelledReason
	reasonRequestInvalid    = rkev1.RequestInvalidReason
	reasonJobFailed         = rkev1.JobFailedReason
	reasonDiskFull          = rkev1.DiskFullReason
	reasonOptionsInvalid    = rkev1.OptionsInvalidReason
	reasonStateUnreadable   = rkev1.StateUnreadableReason
	reasonStateTooLarge     = rkev1.StateTooLargeReason
	reasonStateUnwritable   = rkev1.StateUnwritableReason
	reasonDriverUnavailable = rkev1.DriverUnavailableReason
	reasonUnresponsive      = rkev1.DriverUnresponsiveReason
	reasonFlagsInvalid      = rkev1.FlagsInvalidReason
	reasonPreCreateCheck    = rkev1.PreCreateCheckFailedReason
	reasonCreateFailed      = rkev1.CreateFailedReason
	reasonRemoveFailed      = rkev1.RemoveFailedReason
	reasonLookupFailed      = rkev1.LookupFailedReason
	reasonServerGone        = rkev1.ServerGoneReason
	reasonServerNotRunning  = rkev1.ServerNotRunningReason
	reasonServerIncomplete  = rkev1.ServerIncompleteReason
	reasonUserDataInvalid   = rkev1.UserDataInvalidReason
	reasonBootstrapFormat   = rkev1.BootstrapFormatUnsupportedReason
	reasonBootstrapFailed   = rkev1.BootstrapFailedReason
	reasonInterrupted       = rkev1.BootstrapInterruptedReason
	reasonUnreachable       = rkev1.SSHUnreachableReason
	reasonUnauthorized      = rkev1.SSHUnauthorizedReason
	reasonKeyMissing        = rkev1.SSHKeyMissingReason
	reasonHostTaken         = rkev1.HostTakenReason
)

// failure is an error with what the result says of it.
type failure struct {
	reason string
	class  string
	err    error
}

// Error implements error.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap gives the cause.
func (f *failure) Unwrap() error { return f.err }

func fail(reason, class string, err error) error {
	return &failure{reason: reason, class: class, err: err}
}

func failf(reason, class, format string, args ...any) error {
	return fail(reason, class, fmt.Errorf(format, args...))
}

// driverFailure gives an error of a driver its class.
func (s *session) driverFailure(reason string, err error) error {
	if cancelled(err) {
		return err
	}
	if errors.Is(err, plugin.ErrUnresponsive) {
		return fail(reasonUnresponsive, rkev1.ClassUnknown, err)
	}
	// The machine's own names may spell the words that tell classes apart; shorter names are parts of other words.
	const minName = 8
	text := err.Error()
	for _, name := range []string{s.request.InstanceName, s.request.Machine.Name} {
		if len(name) >= minName {
			text = strings.ReplaceAll(text, name, "it")
		}
	}
	return fail(reason, s.profile.Classify(text), err)
}

// errCancelled is the cause of an operation's context when its pod is told to end.
var errCancelled = errors.New("the pod was told to end before it was done (deleted, drained or preempted), and saved what it knew")

func cancelled(err error) bool {
	return errors.Is(err, errCancelled) || errors.Is(err, context.Canceled)
}
