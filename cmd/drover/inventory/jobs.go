package inventory

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/cmd/drover/facts"
)

// jobs lists Jobs with labels, newest first.
func (a *API) jobs(ctx context.Context, namespace, selector string) ([]batchv1.Job, error) {
	list, err := a.Kube.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing Jobs in %s: %w", namespace, err)
	}
	slices.SortStableFunc(list.Items, func(a, b batchv1.Job) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
	})
	return list.Items, nil
}

// PodsOf lists the pods of a Job, newest first.
func (a *API) PodsOf(ctx context.Context, job *batchv1.Job) ([]corev1.Pod, error) {
	selector := labels.Set{batchv1.JobNameLabel: job.Name}.String()
	list, err := a.Kube.CoreV1().Pods(job.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of Job %s/%s: %w", job.Namespace, job.Name, err)
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
	})
	return list.Items, nil
}

// eventsOf lists the events of objects, oldest first.
func (a *API) eventsOf(ctx context.Context, namespace string, uids []types.UID) ([]corev1.Event, error) {
	var events []corev1.Event
	for _, uid := range uids {
		found, err := a.events(ctx, namespace, "involvedObject.uid", string(uid))
		if err != nil {
			return nil, err
		}
		events = append(events, found...)
	}
	sortEvents(events)
	return events, nil
}

func (a *API) events(ctx context.Context, namespace, field, value string) ([]corev1.Event, error) {
	list, err := a.Kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(field, value).String()})
	if err != nil {
		return nil, fmt.Errorf("listing events in %s: %w", namespace, err)
	}
	return list.Items, nil
}

func sortEvents(events []corev1.Event) {
	slices.SortStableFunc(events, func(a, b corev1.Event) int {
		return facts.EventTime(a).Compare(facts.EventTime(b))
	})
}
