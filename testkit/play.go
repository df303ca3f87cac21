package testkit

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Writes returns a client each of whose writes goes through a function, which may count it, fail,
// or let it run. The function gets the verb and the object's Go type.
func Writes(c client.WithWatch, through func(write string, do func() error) error) client.WithWatch {
	wrap := func(verb string, obj any, do func() error) error { return through(fmt.Sprintf("%s %T", verb, obj), do) }
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return wrap("create", obj, func() error { return c.Create(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return wrap("update", obj, func() error { return c.Update(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return wrap("patch", obj, func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return wrap("apply", obj, func() error { return c.Apply(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return wrap("delete", obj, func() error { return c.Delete(ctx, obj, opts...) })
		},
		DeleteAllOf: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteAllOfOption) error {
			return wrap("delete all", obj, func() error { return c.DeleteAllOf(ctx, obj, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return wrap("patch "+sub, obj, func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			return wrap("apply "+sub, obj, func() error { return c.SubResource(sub).Apply(ctx, obj, opts...) })
		},
	})
}

// EndJob plays the Job controller: a Job has ended, for a reason, which may be empty.
func EndJob(tb testing.TB, c client.Client, job *batchv1.Job, well bool, reason string, end time.Time) {
	tb.Helper()
	ExpectExists(tb, c, job)
	at := metav1.NewTime(end)
	job.Status.StartTime, job.Status.Active, job.Status.Ready = &at, 0, nil
	kinds := []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed}
	if well {
		kinds = []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}
		job.Status.CompletionTime, job.Status.Succeeded = &at, 1
	}
	for _, kind := range kinds {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: at})
	}
	require.NoError(tb, c.Status().Update(tb.Context(), job))
}
