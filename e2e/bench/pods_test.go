package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
)

// pods stand in for the Job controller, the kubelet, the pods and the garbage collector: each Job is done at once, with one
// write, and a deleted one is gone at once.
type pods struct {
	client    client.WithWatch
	namespace string
	watch     *stopwatch
	// workers bound the requests at the same time, as a scheduler and kubelets would.
	workers chan struct{}
}

func (p *pods) play(ctx context.Context) error {
	events, err := p.client.Watch(ctx, &batchv1.JobList{}, client.InNamespace(p.namespace))
	if err != nil {
		return fmt.Errorf("watching Jobs: %w", err)
	}
	defer events.Stop()
	var running sync.WaitGroup
	defer running.Wait()
	errs := make(chan error, 1)
	for {
		select {
		case err := <-errs:
			return err
		case event, open := <-events.ResultChan():
			if !open {
				return ctx.Err()
			}
			job, ok := event.Object.(*batchv1.Job)
			if !ok {
				continue
			}
			running.Go(func() {
				p.workers <- struct{}{}
				defer func() { <-p.workers }()
				if err := p.see(ctx, event.Type, job); err != nil && ctx.Err() == nil {
					select {
					case errs <- err:
					default:
					}
				}
			})
		}
	}
}

func (p *pods) see(ctx context.Context, event watch.EventType, job *batchv1.Job) error {
	switch {
	case !job.DeletionTimestamp.IsZero() && len(job.Finalizers) > 0:
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		return client.IgnoreNotFound(p.client.Patch(ctx, job, patch))
	case event == watch.Added && job.DeletionTimestamp.IsZero():
		return p.run(ctx, job)
	}
	return nil
}

func (p *pods) run(ctx context.Context, job *batchv1.Job) error {
	name, operation := job.Labels[rkev1.InfraMachineNameLabel], jobrunner.Operation(job.Labels[rkev1.OperationLabel])
	p.watch.note(name, string(operation)+" Job")
	data, err := documentsOf(operation, name)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return fmt.Errorf("encoding the state: %w", err)
	}
	state := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: jobrunner.StateSecretName(name)}}
	if err := client.IgnoreNotFound(p.client.Patch(ctx, state, client.RawPatch(types.MergePatchType, patch))); err != nil {
		return fmt.Errorf("playing the pod of %s: %w", job.Name, err)
	}
	p.watch.note(name, string(operation)+" done")
	return nil
}

// documentsOf is what a pod leaves in the state Secret when all went well.
func documentsOf(operation jobrunner.Operation, name string) (map[string][]byte, error) {
	now := time.Now()
	documents := map[string]any{
		jobrunner.JournalKey: jobrunner.Journal{Operation: operation, Attempt: 1, Phase: jobrunner.PhaseGone},
		jobrunner.ResultKey:  jobrunner.Result{Operation: operation, Attempt: 1, Outcome: jobrunner.Succeeded, StartTime: now, EndTime: now},
	}
	if operation == jobrunner.Create {
		documents[jobrunner.JournalKey] = jobrunner.Journal{Operation: operation, Attempt: 1, Phase: jobrunner.PhaseRecorded, InstanceName: name}
		documents[jobrunner.ServerKey] = jobrunner.Server{InstanceID: name, ProviderID: "digitalocean://" + name}
	}
	data := map[string][]byte{}
	for key, document := range documents {
		raw, err := json.Marshal(document)
		if err != nil {
			return nil, fmt.Errorf("encoding %s: %w", key, err)
		}
		data[key] = raw
	}
	return data, nil
}
