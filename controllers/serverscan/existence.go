package serverscan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/advice"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// existence derives the condition of a machine's server from a list and the previous status. A
// server that was never listed may not carry our tag, and a list without any of several machines'
// servers may come from another account. Neither is a reason to replace servers. account is true if
// the list certainly comes from the server's account.
func existence(was metav1.ConditionStatus, listed, account bool) (status metav1.ConditionStatus, reason, message string) {
	switch {
	case listed:
		return metav1.ConditionTrue, rkev1.ServerListedReason, ""
	case was == metav1.ConditionFalse || was == metav1.ConditionTrue && account:
		return metav1.ConditionFalse, rkev1.ServerNotListedReason, "the cloud no longer lists the server. If the server is gone, delete the Machine to replace it"
	case was == metav1.ConditionTrue:
		return was, rkev1.ServerListedReason, "the cloud lists none of the servers of machines that use this credential: check whether the credential belongs to another account now"
	}
	return metav1.ConditionUnknown, rkev1.ServerNotSeenReason, "the cloud has never listed the server: it may be gone, or it may have no tag of Drover. Check the cloud"
}

// reportMachines writes into the scanned machines whether the scan has listed their server. It
// skips unchanged conditions.
func (r *Reconciler) reportMachines(ctx context.Context, scan *rkev1.ServerScan, k knowledge, report state.ScanReport) error {
	listed := map[string]bool{}
	for _, server := range report.Servers {
		listed[server.ProviderID] = true
	}
	seen := false // that a machine's server is listed
	for _, providerID := range k.here {
		seen = seen || listed[providerID]
	}
	asked := k.asked(report)
	var errs []error
	for name, providerID := range asked {
		was := k.conditions[name]
		found := metav1.Condition{Type: rkev1.ServerExistsCondition}
		account := seen || len(asked) == 1
		if !account && was.Status == metav1.ConditionTrue {
			var err error
			if account, err = r.askedWithItsCredential(ctx, scan, name); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		found.Status, found.Reason, found.Message = existence(was.Status, listed[providerID], account)
		if text, _ := advice.Split(was.Message); was.Status == found.Status && was.Reason == found.Reason && text == found.Message {
			continue
		}
		err := r.writeCondition(ctx, client.ObjectKey{Namespace: scan.Namespace, Name: name}, scan.Spec.Driver, found)
		// The next scan reports on a machine that was changed or deleted in between.
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("writing into machine %s whether its server exists: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// askedWithItsCredential reports whether the scan's Job had the same credential as the machine's
// last Job. A token belongs to one account, so the cloud has then answered for the server's
// account.
func (r *Reconciler) askedWithItsCredential(ctx context.Context, scan *rkev1.ServerScan, machine string) (bool, error) {
	given, kept := &corev1.Secret{}, &corev1.Secret{}
	for name, into := range map[string]*corev1.Secret{r.task(scan).Name(): given, jobrunner.CredentialSecretName(machine): kept} {
		err := r.Reader.Get(ctx, client.ObjectKey{Namespace: scan.Namespace, Name: name}, into)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("reading the Secret %s: %w", name, err)
		}
	}
	owner := metav1.GetControllerOf(kept)
	if !metav1.IsControlledBy(given, scan) || kept.Type != rkev1.MachineCredentialSecretType || owner == nil || owner.Name != machine ||
		owner.Kind != crdgen.KindsOf(scan.Spec.Driver).Machine {
		return false, nil
	}
	var request jobrunner.Request
	last, err := state.ReadCredential(kept.Data)
	if err != nil || json.Unmarshal(given.Data[jobrunner.RequestKey], &request) != nil {
		return false, nil //nolint:nilerr // what cannot be read proves nothing
	}
	return len(last.Env)+len(last.Files) > 0 && maps.Equal(last.Env, request.CredentialEnv) && maps.EqualFunc(last.Files, request.Files, bytes.Equal), nil
}

// writeCondition writes the condition and, derived from it, Ready.
func (r *Reconciler) writeCondition(ctx context.Context, key client.ObjectKey, driver string, found metav1.Condition) error {
	machine := rkev1.DriverMachine{Unstructured: &unstructured.Unstructured{}}
	machine.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind(crdgen.KindsOf(driver).Machine))
	if err := r.Reader.Get(ctx, key, machine.Unstructured); err != nil {
		return err
	}
	before := machine.DeepCopy()
	status, err := machine.Status()
	if err != nil {
		return err
	}
	conditions := step.NewConditions(&status.Conditions, machine.GetGeneration(), r.Clock.Now())
	owner, _, _ := machine.Owner()
	conditions.Advise = func(c metav1.Condition) []string {
		return advice.Machine{Namespace: key.Namespace, Name: key.Name, CAPIMachine: owner}.On(c, nil)
	}
	conditions.Set(found.Type, found.Status, found.Reason, found.Message)
	conditions.CountServer()
	if err := machine.SetStatus(status); err != nil {
		return err
	}
	_, err = step.PatchStatus(ctx, r.Client, before, machine.Unstructured)
	return err
}
