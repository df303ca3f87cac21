package serverscan

import (
	"context"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/credential"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// start makes the Job of the present attempt, with all that it needs. It is safe to call again: names are fixed.
func (r *Reconciler) start(ctx context.Context, s *scope, targets []jobrunner.ScanTarget) error {
	given, err := r.credential(ctx, s.ServerScan)
	if err != nil {
		return err
	}
	task := r.task(s.ServerScan, given, targets)
	if len(targets) > 0 {
		task.Request.ScanNotAfter = s.now.Add(certainFor)
	}
	if task.PullSecrets, err = step.PullSecrets(ctx, r.Reader, r.Jobs, s.Namespace); err != nil {
		return err
	}
	pull, err := jobrunner.PullSecret(task)
	if err != nil {
		return step.Stall(rkev1.ScanJobReason, err)
	}
	request, err := jobrunner.RequestSecret(task)
	if err != nil {
		return step.Stall(rkev1.CredentialInvalidReason, err)
	}
	job := jobrunner.Job(task)
	needed := []client.Object{jobrunner.ResultSecret(task), jobrunner.ServiceAccount(task), jobrunner.Role(task), jobrunner.RoleBinding(task), request}
	if pull != nil {
		needed = append(needed, pull)
	}
	if err := r.checkNames(ctx, s.ServerScan, append(needed, job)...); err != nil {
		return err
	}
	if _, err := r.applier.All(ctx, needed...); err != nil {
		return fmt.Errorf("preparing Job %s: %w", task.Name(), err)
	}
	// A Job that is there is never changed: its spec cannot be.
	if err := r.Client.Create(ctx, job, client.FieldOwner(FieldOwner)); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("making Job %s: %w", task.Name(), err)
	}
	return nil
}

// asking tells that a Job is under way.
func (r *Reconciler) asking(s *scope, heldUp string) error {
	text := "Job " + r.task(s.ServerScan, state.Credential{}, nil).Name() + " asks the cloud"
	if heldUp != "" {
		text += ". " + heldUp
	}
	return step.Progress(underWay(s.Status.Attempt), text, jobCheck)
}

func (r *Reconciler) task(scan *rkev1.ServerScan, given state.Credential, targets []jobrunner.ScanTarget) jobrunner.Task {
	return jobrunner.Task{
		Settings: r.Jobs,
		Request: jobrunner.Request{
			Operation: state.Scan, Attempt: scan.Status.Attempt, Driver: state.DriverRef{Name: scan.Spec.Driver, Builtin: true},
			CredentialEnv: given.Env, Files: given.Files, Scan: targets,
			Namespace: scan.Namespace, StateSecret: jobrunner.ObjectName(scan.Name, "scan", "result"),
		},
		Owner: metav1.NewControllerRef(scan, rkev1.GroupVersion.WithKind("ServerScan")), Base: scan.Name,
	}
}

// credential reads the credential Secret as a machine's would be read.
func (r *Reconciler) credential(ctx context.Context, scan *rkev1.ServerScan) (state.Credential, error) {
	fields, err := r.fields(ctx, scan.Spec.Driver)
	if err != nil {
		return state.Credential{}, err
	}
	source := credential.Source{Reader: r.Reader, Trusted: r.TrustedCredentialNamespaces}
	given, err := source.Resolve(ctx, scan.Namespace, scan.Spec.CloudCredentialSecretName, scan.Spec.Driver, fields, nil)
	if refused, ok := errors.AsType[*credential.Refused](err); ok {
		return state.Credential{}, step.Stall(refused.Reason, refused)
	}
	return given, err
}

// fields are those of the driver's machines.
func (r *Reconciler) fields(ctx context.Context, driver string) ([]crdgen.Field, error) {
	if !clouds.Of(driver).Lists {
		return nil, step.Stall(rkev1.ScanUnsupportedReason, fmt.Errorf("servers of driver %s cannot be listed by their tags; docs/orphans.md tells of which they can", driver))
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	name := crdgen.CRDName(crdgen.MachineGroup, crdgen.KindsOf(driver).Machine)
	if err := r.Reader.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, step.Stall(rkev1.ScanUnsupportedReason, fmt.Errorf("driver %s is not active in this cluster", driver))
		}
		return nil, fmt.Errorf("reading the kind of driver %s: %w", driver, err)
	}
	fields, err := crdgen.FieldsFromCRD(crd)
	if err != nil {
		return nil, step.Stall(rkev1.ScanUnsupportedReason, err)
	}
	return fields, nil
}

// gather collects all there is to judge the present attempt by.
func (r *Reconciler) gather(ctx context.Context, s *scope) (jobrunner.Evidence, error) {
	task := r.task(s.ServerScan, state.Credential{}, nil)
	evidence := jobrunner.Evidence{Operation: state.Scan, Attempt: s.Status.Attempt}
	result := &corev1.Secret{}
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: task.Request.StateSecret}, result)
	if client.IgnoreNotFound(err) != nil {
		return evidence, fmt.Errorf("reading the result: %w", err)
	}
	evidence.State = state.Of(result.Data)
	job := &batchv1.Job{}
	switch err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: task.Name()}, job); {
	case err == nil && metav1.IsControlledBy(job, s.ServerScan):
		evidence.Job = job
	case client.IgnoreNotFound(err) != nil:
		return evidence, fmt.Errorf("reading Job %s: %w", task.Name(), err)
	}
	pods := &corev1.PodList{}
	if err := r.Reader.List(ctx, pods, client.InNamespace(s.Namespace), client.MatchingLabels{batchv1.JobNameLabel: task.Name()}); err != nil {
		return evidence, fmt.Errorf("listing the pods of Job %s: %w", task.Name(), err)
	}
	evidence.Pods = pods.Items
	return evidence, nil
}

// cleanUp takes away what held the credential and what gave the pod its rights.
func (r *Reconciler) cleanUp(ctx context.Context, scan *rkev1.ServerScan) error {
	task := r.task(scan, state.Credential{}, nil)
	leftovers := []client.Object{jobrunner.RoleBinding(task), jobrunner.Role(task), jobrunner.ServiceAccount(task)}
	// A first Job that could not be made has a request all the same.
	for task.Request.Attempt = max(scan.Status.Attempt, 1); task.Request.Attempt > 0; task.Request.Attempt-- {
		leftovers = append(leftovers, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: scan.Namespace, Name: task.Name()}})
		if len(r.Jobs.ImagePullSecrets) > 0 {
			leftovers = append(leftovers, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: scan.Namespace, Name: task.PullSecretName()}})
		}
	}
	var errs []error
	for _, obj := range leftovers {
		if err := r.deleteOwn(ctx, scan, obj); err != nil {
			errs = append(errs, fmt.Errorf("cleaning up after ServerScan %s: %w", scan.Name, err))
		}
	}
	return errors.Join(errs...)
}
