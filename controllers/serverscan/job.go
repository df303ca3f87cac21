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
	"github.com/drover-project/drover/controllers/attempt"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/credential"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// start creates the Job of the present attempt, with the objects that it needs. It is idempotent,
// because the names are fixed.
func (r *Reconciler) start(ctx context.Context, s *scope, targets []jobrunner.ScanTarget) error {
	given, err := r.credential(ctx, s.ServerScan)
	if err != nil {
		return err
	}
	task := r.task(s.ServerScan)
	task.Request.CredentialEnv, task.Request.Files, task.Request.Scan = given.Env, given.Files, targets
	if len(targets) > 0 {
		task.Request.ScanNotAfter = s.now.Add(certainFor)
	}
	// The names of the Job's objects follow from the ServerScan's name, which its user has chosen.
	// Unwritten therefore prevents writes to objects of other owners.
	if err := r.runner.Start(ctx, subject(s.ServerScan), attempt.Plan{Task: task, Record: jobrunner.ResultSecret(task), Unwritten: true}); err != nil {
		return refused(task.Name(), err)
	}
	return nil
}

// refused maps an error of the creation of a Job to the outcome of the step.
func refused(job string, err error) error {
	if invalid, ok := errors.AsType[*attempt.InvalidError](err); ok && invalid.Pull {
		return step.Stall(rkev1.ScanJobReason, err)
	} else if ok {
		return step.Stall(rkev1.CredentialInvalidReason, err)
	}
	if taken, ok := errors.AsType[*attempt.TakenError](err); ok && taken.Predecessor {
		return step.Progress(rkev1.NameTakenReason, fmt.Sprintf("waiting until the %s %s of an earlier ServerScan of this name is deleted", taken.Kind, taken.Name), leftoverCheck)
	} else if ok {
		return step.Stall(rkev1.NameTakenReason, fmt.Errorf("the %s %s does not belong to this ServerScan: use another name for the ServerScan", taken.Kind, taken.Name))
	}
	return fmt.Errorf("making Job %s: %w", job, err)
}

// subject is a ServerScan as package attempt knows it.
func subject(scan *rkev1.ServerScan) attempt.Subject {
	return attempt.Subject{
		Owns: func(obj metav1.Object) bool { return metav1.IsControlledBy(obj, scan) },
		Succeeds: func(obj metav1.Object) bool {
			owner := metav1.GetControllerOf(obj)
			return owner != nil && owner.Kind == "ServerScan" && owner.Name == scan.Name
		},
	}
}

// asking reports that a Job is under way.
func (r *Reconciler) asking(s *scope, heldUp string) error {
	text := "Job " + r.task(s.ServerScan).Name() + " asks the cloud"
	if heldUp != "" {
		text += ". " + heldUp
	}
	reason := rkev1.ScanningReason
	if phase(s.Status.Attempt) == removing {
		reason = rkev1.RemovingReason
	}
	return step.Progress(reason, text, jobCheck)
}

func (r *Reconciler) task(scan *rkev1.ServerScan) jobrunner.Task {
	return jobrunner.Task{
		Settings: r.Jobs,
		Request: jobrunner.Request{
			Operation: state.Scan, Attempt: scan.Status.Attempt, Driver: state.DriverRef{Name: scan.Spec.Driver, Builtin: true},
			Namespace: scan.Namespace, StateSecret: jobrunner.ObjectName(scan.Name, "scan", "result"),
		},
		Owner: metav1.NewControllerRef(scan, rkev1.GroupVersion.WithKind("ServerScan")), Base: scan.Name,
	}
}

// credential reads the credential Secret in the same way as for a machine.
func (r *Reconciler) credential(ctx context.Context, scan *rkev1.ServerScan) (state.Credential, error) {
	driver := scan.Spec.Driver
	unsupported := func(err error) (state.Credential, error) {
		return state.Credential{}, step.Stall(rkev1.ScanUnsupportedReason, err)
	}
	if !clouds.Of(driver).Lists {
		return unsupported(fmt.Errorf("Drover cannot list the servers of driver %s by their tags; docs/orphans.md lists the supported drivers", driver))
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := r.Reader.Get(ctx, client.ObjectKey{Name: crdgen.CRDName(crdgen.MachineGroup, crdgen.KindsOf(driver).Machine)}, crd)
	if apierrors.IsNotFound(err) {
		return unsupported(fmt.Errorf("driver %s is not active in this cluster", driver))
	}
	if err != nil {
		return state.Credential{}, fmt.Errorf("reading the kind of driver %s: %w", driver, err)
	}
	fields, err := crdgen.FieldsFromCRD(crd)
	if err != nil {
		return unsupported(err)
	}
	source := credential.Source{Reader: r.Reader, Trusted: r.TrustedCredentialNamespaces}
	given, err := source.Resolve(ctx, scan.Namespace, scan.Spec.CloudCredentialSecretName, driver, fields, nil)
	if refused, ok := errors.AsType[*credential.Refused](err); ok {
		return state.Credential{}, step.Stall(refused.Reason, refused)
	}
	return given, err
}

// observe returns the state of the Job of the present phase.
func (r *Reconciler) observe(ctx context.Context, s *scope) (attempt.Attempt, error) {
	if phase(s.Status.Attempt) == notBegun {
		return attempt.Attempt{State: attempt.Unclaimed}, nil
	}
	task := r.task(s.ServerScan)
	result := &corev1.Secret{}
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: task.Request.StateSecret}, result)
	if client.IgnoreNotFound(err) != nil {
		return attempt.Attempt{}, fmt.Errorf("reading the result: %w", err)
	}
	return r.runner.Observe(ctx, subject(s.ServerScan), jobrunner.Evidence{Operation: state.Scan, Attempt: s.Status.Attempt, State: state.Of(result.Data), Now: s.now},
		client.ObjectKey{Namespace: s.Namespace, Name: task.Name()}, func() client.MatchingLabels { return client.MatchingLabels{batchv1.JobNameLabel: task.Name()} })
}

// cleanUp deletes the Secrets with the credential and the pod's account.
func (r *Reconciler) cleanUp(ctx context.Context, scan *rkev1.ServerScan) error {
	task := r.task(scan)
	leftovers := []client.Object{jobrunner.RoleBinding(task), jobrunner.Role(task), jobrunner.ServiceAccount(task)}
	// Also for a first Job that could not be created, because its request may exist.
	for task.Request.Attempt = max(scan.Status.Attempt, 1); task.Request.Attempt > 0; task.Request.Attempt-- {
		leftovers = append(leftovers, r.runner.SecretsOf(scan.Namespace, task.Name())...)
	}
	if err := r.runner.Clean(ctx, subject(scan), r.Reader, leftovers...); err != nil {
		return fmt.Errorf("cleaning up after ServerScan %s: %w", scan.Name, err)
	}
	return nil
}
