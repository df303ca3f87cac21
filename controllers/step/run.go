package step

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrorReason is the reason of a condition whose step ended with an error that is tried again.
const ErrorReason = "Error"

// Scope is what steps read and write; it lives for one reconcile.
type Scope interface {
	// Conditions of the object; never nil.
	Conditions() *Conditions
}

// Step is one step of a reconcile.
type Step[S Scope] struct {
	// Condition is the type it owns; empty when it owns none.
	Condition string
	// Reason of the condition when the step returned nil and did not set the condition itself.
	Reason string
	// Do acts at most once on the outside world. See the package comment for what it may return.
	Do func(ctx context.Context, scope S) error
}

// Of makes a step.
func Of[S Scope](condition, reason string, do func(context.Context, S) error) Step[S] {
	return Step[S]{Condition: condition, Reason: reason, Do: do}
}

// Run runs the steps in order until one does not return nil, sets the condition of each that ran, and returns that last
// outcome.
func Run[S Scope](ctx context.Context, scope S, steps ...Step[S]) error {
	for _, s := range steps {
		err := s.Do(ctx, scope)
		if s.Condition != "" {
			record(scope.Conditions(), s.Condition, s.Reason, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func record(conditions *Conditions, condition, reason string, err error) {
	if err == nil {
		if !conditions.touched[condition] {
			conditions.True(condition, reason, "")
		}
		return
	}
	if waiting, ok := errors.AsType[*Waiting](err); ok {
		status := metav1.ConditionFalse
		if waiting.InProgress {
			status = metav1.ConditionUnknown
		}
		conditions.Set(condition, status, waiting.Reason, waiting.Message)
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
