package serverscan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

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

// sighting holds the facts about a machine's server after a scan. A server that was never listed
// may not carry our tag, and a list without any of several machines' servers may come from another
// account. Neither is a reason to replace servers.
type sighting struct {
	// was is the previous status of the condition.
	was    metav1.ConditionStatus
	listed bool
	// account is true if the list certainly comes from the server's account.
	account bool
	// missed is true if an earlier scan did not list the server either, and both scans certainly
	// should have.
	missed bool
	// at is the time of the scan.
	at time.Time
	// namespace of the machine.
	namespace string
}

// existence returns the content of the condition ServerExists.
func (s sighting) existence() (status metav1.ConditionStatus, reason, message string) {
	switch {
	case s.listed:
		return metav1.ConditionTrue, rkev1.ServerListedReason, ""
	case s.was == metav1.ConditionFalse || s.missed || s.was == metav1.ConditionTrue && s.account:
		return metav1.ConditionFalse, rkev1.ServerNotListedReason, "the cloud no longer lists the server. If the server is gone, delete the Machine to replace it"
	case s.was == metav1.ConditionTrue:
		return s.was, rkev1.ServerListedReason, "the cloud lists none of the servers of machines that use this credential: check whether the credential belongs to another account now"
	}
	return metav1.ConditionUnknown, rkev1.ServerNotSeenReason, fmt.Sprintf("asked at %s; the cloud did not list the server: it may be gone, or it may have no tag of Drover. Check the cloud, or ask again: drover gc -n %s",
		s.at.UTC().Format(time.RFC3339), s.namespace)
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
	missed, err := r.missedTwice(ctx, scan, k, report)
	if err != nil {
		return err
	}
	var errs []error
	for name, providerID := range asked {
		is := sighting{was: k.conditions[name].Status, listed: listed[providerID], account: seen || len(asked) == 1, at: r.Clock.Now(), namespace: scan.Namespace}
		errs = append(errs, r.reportMachine(ctx, scan, name, k.conditions[name], is, missed[name]))
	}
	return errors.Join(errs...)
}

// reportMachine writes into one machine whether the scan has listed its server. missed is true if an
// earlier scan has not listed it either.
func (r *Reconciler) reportMachine(ctx context.Context, scan *rkev1.ServerScan, name string, was metav1.Condition, is sighting, missed bool) error {
	if !is.listed && (missed || !is.account && was.Status == metav1.ConditionTrue) {
		same, err := r.askedWithItsCredential(ctx, scan, name)
		if err != nil {
			return err
		}
		is.account, is.missed = is.account || same, missed && same
	}
	found := metav1.Condition{Type: rkev1.ServerExistsCondition}
	found.Status, found.Reason, found.Message = is.existence()
	if text, _ := advice.Split(was.Message); was.Status == found.Status && was.Reason == found.Reason && text == found.Message {
		return nil
	}
	err := r.writeCondition(ctx, client.ObjectKey{Namespace: scan.Namespace, Name: name}, scan.Spec.Driver, found)
	// The next scan reports on a machine that was changed or deleted in between.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("writing into machine %s whether its server exists: %w", name, err)
	}
	return nil
}

// missedFor is the minimum time between two scans that did not list a server, and the minimum time
// for which its machine has been Ready.
const missedFor = 10 * time.Minute

// missedTwice returns the machines whose server neither this scan nor an earlier one has listed,
// and no scan before. The machine was Ready at both. A server with the tag of the machine's UID
// exists, whatever the machine's provider ID is.
func (r *Reconciler) missedTwice(ctx context.Context, scan *rkev1.ServerScan, k knowledge, report state.ScanReport) (map[string]bool, error) {
	now, missed := r.Clock.Now(), map[string]bool{}
	tagged := map[string]bool{}
	for _, server := range report.Servers {
		tagged[server.MachineUID], tagged[server.ProviderID] = true, true
	}
	candidates := k.asked(report)
	maps.DeleteFunc(candidates, func(name, providerID string) bool {
		seen, since := k.conditions[name].Status, k.readySince[name]
		known := seen == metav1.ConditionTrue || seen == metav1.ConditionFalse
		return known || tagged[providerID] || tagged[k.uidOf[name]] || since.IsZero() || now.Sub(since) < missedFor
	})
	if len(candidates) == 0 {
		return missed, nil
	}
	list := &rkev1.ServerScanList{}
	if err := r.Reader.List(ctx, list, client.InNamespace(scan.Namespace)); err != nil {
		return nil, fmt.Errorf("listing earlier ServerScans: %w", err)
	}
	for i := range list.Items {
		earlier := &list.Items[i]
		if accountOf(earlier) != accountOf(scan) || !succeeded(earlier) || now.Sub(endOf(earlier)) < missedFor {
			continue
		}
		for _, name := range earlier.Status.MachinesNotListed {
			if _, candidate := candidates[name]; candidate && !endOf(earlier).Before(k.readySince[name]) {
				missed[name] = true
			}
		}
	}
	return missed, nil
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
