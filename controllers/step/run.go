package step

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// ErrorReason is the reason of a condition whose step ended with an error that is tried again.
const ErrorReason = "Error"

// Step is one step of a reconcile. The steps read and write the scope, which exists for one
// reconcile.
type Step[S any] struct {
	// Condition is the type it owns; empty when it owns none.
	Condition string
	// Reason of the condition if the step returned nil and did not set the condition; empty if a
	// later step decides whether it is True.
	Reason string
	// Do acts at most once on the outside world. The package comment lists its results.
	Do func(ctx context.Context, scope S) error
}

// Of makes a step.
func Of[S any](condition, reason string, do func(context.Context, S) error) Step[S] {
	return Step[S]{Condition: condition, Reason: reason, Do: do}
}

// Run runs the steps in order until one returns an error, sets the conditions of the steps that
// ran, and returns the last outcome.
func Run[S any](ctx context.Context, scope S, conditions *Conditions, steps ...Step[S]) error {
	for _, s := range steps {
		err := s.Do(ctx, scope)
		if s.Condition != "" {
			record(conditions, s.Condition, s.Reason, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func record(conditions *Conditions, condition, reason string, err error) {
	if err == nil {
		if reason != "" && !conditions.touched[condition] {
			conditions.True(condition, reason, "")
		}
		return
	}
	if waiting, ok := errors.AsType[*Waiting](err); ok {
		conditions.Set(condition, waiting.Status, waiting.Reason, waiting.Message)
		return
	}
	if stalled, ok := errors.AsType[*Stalled](err); ok {
		conditions.Set(condition, metav1.ConditionFalse, stalled.Reason, stalled.Err.Error())
		return
	}
	if apierrors.IsConflict(err) || errors.Is(err, context.Canceled) {
		return
	}
	conditions.Set(condition, metav1.ConditionUnknown, ErrorReason, err.Error())
}

// Waiting ends a step that must wait for an event. Watches bring the object back; After is the
// safety net, none if 0.
type Waiting struct {
	// Status, Reason and Message go into the step's condition.
	Status          metav1.ConditionStatus
	Reason, Message string
	// After is when to check again even without an event.
	After time.Duration
}

// Error implements error.
func (w *Waiting) Error() string { return w.Reason + ": " + w.Message }

// Wait ends a step that must wait for an event; its condition is False until then.
func Wait(reason, message string, after time.Duration) error {
	return &Waiting{Status: metav1.ConditionFalse, Reason: reason, Message: message, After: after}
}

// Progress ends a step whose work is under way: its condition is Unknown.
func Progress(reason, message string, after time.Duration) error {
	return &Waiting{Status: metav1.ConditionUnknown, Reason: reason, Message: message, After: after}
}

// Stalled ends a step that cannot succeed until the object, or something it names, is changed.
type Stalled struct {
	// Reason goes into the step's condition, with Err as its message.
	Reason string
	// Err names the problem and the remedy, without secrets.
	Err error
}

// Error implements error.
func (s *Stalled) Error() string { return s.Reason + ": " + s.Err.Error() }

// Unwrap gives the cause.
func (s *Stalled) Unwrap() error { return s.Err }

// Stall ends a step that cannot succeed until the object, or something it names, is changed.
func Stall(reason string, err error) error {
	return &Stalled{Reason: reason, Err: err}
}

// Result converts the outcome of Run for controller-runtime. Waiting and Stalled are not errors,
// because watches bring the object back; a conflict is requeued quietly.
func Result(err error) (reconcile.Result, error) {
	if waiting, ok := errors.AsType[*Waiting](err); ok {
		return reconcile.Result{RequeueAfter: waiting.After}, nil
	}
	if _, ok := errors.AsType[*Stalled](err); ok {
		return reconcile.Result{}, nil
	}
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	return reconcile.Result{}, err
}

// conflictDelay gives the cache time to receive the change that caused the conflict.
const conflictDelay = 50 * time.Millisecond
