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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/e2e/simulated"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
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

func (p *pods) play(ctx context.Context, config *rest.Config) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	defer running.Wait()
	err := simulated.Follow(ctx, config, p.namespace, batchv1.SchemeGroupVersion.WithResource("jobs"), func(event watch.EventType, obj *unstructured.Unstructured) {
		running.Go(func() {
			p.workers <- struct{}{}
			defer func() { <-p.workers }()
			if err := p.see(ctx, event, obj); err != nil {
				cancel(err)
			}
		})
	})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func (p *pods) see(ctx context.Context, event watch.EventType, obj *unstructured.Unstructured) error {
	job := &batchv1.Job{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, job); err != nil {
		return fmt.Errorf("reading a Job: %w", err)
	}
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
	name, operation := job.Labels[rkev1.InfraMachineNameLabel], state.Operation(job.Labels[rkev1.OperationLabel])
	p.watch.note(name, string(operation)+" Job")
	data, err := documentsOf(operation, name)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return fmt.Errorf("encoding the state: %w", err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: jobrunner.StateSecretName(name)}}
	if err := client.IgnoreNotFound(p.client.Patch(ctx, secret, client.RawPatch(types.MergePatchType, patch))); err != nil {
		return fmt.Errorf("playing the pod of %s: %w", job.Name, err)
	}
	p.watch.note(name, string(operation)+" done")
	return nil
}

// documentsOf is what a pod leaves in the state Secret when all went well.
func documentsOf(operation state.Operation, name string) (map[string][]byte, error) {
	now := time.Now()
	documents := map[string]any{
		state.JournalKey: state.Journal{Operation: operation, Attempt: 1, Phase: state.PhaseGone},
		state.ResultKey:  state.Result{Operation: operation, Attempt: 1, Outcome: state.Succeeded, StartTime: now, EndTime: now},
	}
	if operation == state.Create {
		documents[state.JournalKey] = state.Journal{Operation: operation, Attempt: 1, Phase: state.PhaseRecorded, InstanceName: name}
		documents[state.ServerKey] = state.Server{InstanceID: name, ProviderID: "digitalocean://" + name, Addresses: []state.Address{{Type: "ExternalIP", Address: "198.18.0.9"}}}
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
