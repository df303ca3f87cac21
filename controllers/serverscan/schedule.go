package serverscan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/crdgen"
)

const (
	// atOnce bounds the ServerScans of one round; the others follow after spread.
	atOnce = 10
	spread = time.Minute
)

// Schedule creates periodic ServerScans: one in each interval for every credential that machines
// use with a driver whose servers can be listed. They change nothing. The first is created one
// interval after the first machine. Each stays one hour longer than the interval.
type Schedule struct {
	// Client makes ServerScans, Reader reads live.
	Client client.Client
	Reader client.Reader
	// Namespace to look at; empty for all.
	Namespace string
	// Interval from one ServerScan to the next, at most a year.
	Interval time.Duration
	// Clock is the real one by default.
	Clock clock.PassiveClock
}

// usage is the state of an account before the next scan.
type usage struct {
	// unused is true if no machine names the account any more.
	unused bool
	// since is the end of its newest ServerScan or, without one, the creation of its oldest
	// machine.
	since time.Time
	// scanning is true if its newest ServerScan is not done.
	scanning bool
}

// NeedLeaderElection returns true: one replica is enough.
func (s *Schedule) NeedLeaderElection() bool { return true }

// Start makes ServerScans until the context ends. It lets the manager come up first.
func (s *Schedule) Start(ctx context.Context) error {
	timer := time.NewTimer(min(s.Interval, spread))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		wait, err := s.Round(ctx)
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Looking for orphaned servers", "again", spread.String())
			wait = spread
		}
		timer.Reset(wait)
	}
}

// Round creates the ServerScans that are due and returns the time until the next could be due. The
// error contains the ones that could not be created; they do not stop the others.
func (s *Schedule) Round(ctx context.Context) (time.Duration, error) {
	accounts, err := s.accounts(ctx)
	if err != nil {
		return 0, err
	}
	// The existing ServerScans. If one of ours has left an account unsettled, the account is
	// scanned again until one has not, even if no machine uses it.
	list := &rkev1.ServerScanList{}
	if err := s.Reader.List(ctx, list, client.InNamespace(s.Namespace)); err != nil {
		return 0, fmt.Errorf("listing ServerScans: %w", err)
	}
	answered := newest(list.Items, periodic, usual, succeeded)
	for at, scan := range newest(list.Items, usual) {
		last := answered[at]
		if _, used := accounts[at]; used || last != nil && unsettled(last) {
			accounts[at] = usage{unused: !used, since: lookedAt(scan), scanning: endOf(scan).IsZero()}
		}
	}
	now := cmp.Or[clock.PassiveClock](s.Clock, clock.RealClock{}).Now()
	next, made := s.Interval, 0
	var errs []error
	for at, use := range accounts {
		left := use.since.Add(s.Interval).Sub(now)
		switch {
		case left > 0:
			next = min(next, left)
		case use.scanning || made == atOnce:
			next = min(next, spread)
		default:
			made++
			errs = append(errs, s.scan(ctx, at, use))
		}
	}
	return next, errors.Join(errs...)
}

// accounts returns the accounts that machines use.
func (s *Schedule) accounts(ctx context.Context) (map[account]usage, error) {
	crds := &metav1.PartialObjectMetadataList{}
	crds.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinitionList"))
	if err := s.Reader.List(ctx, crds, client.HasLabels{rkev1.NodeDriverLabel}); err != nil {
		return nil, fmt.Errorf("listing the kinds of machines: %w", err)
	}
	accounts := map[account]usage{}
	for _, cloud := range clouds.All() {
		kind := crdgen.KindsOf(cloud.Driver).Machine
		name := crdgen.CRDName(crdgen.MachineGroup, kind)
		if !cloud.Lists || !slices.ContainsFunc(crds.Items, func(crd metav1.PartialObjectMetadata) bool { return crd.Name == name }) {
			continue
		}
		err := eachMachine(ctx, s.Reader, rkev1.MachineGroupVersion.WithKind(kind), func(machine *unstructured.Unstructured) {
			at := account{machine.GetNamespace(), cloud.Driver, rkev1.DriverMachine{Unstructured: machine}.CredentialName()}
			made := machine.GetCreationTimestamp().Time
			if use, known := accounts[at]; !known || made.Before(use.since) {
				accounts[at] = usage{since: made}
			}
		}, client.InNamespace(s.Namespace))
		if err != nil {
			return nil, err
		}
	}
	// A machine that names no Secret has its credential elsewhere, where a ServerScan does not find
	// it.
	maps.DeleteFunc(accounts, func(at account, _ usage) bool { return at.credential == "" })
	return accounts, nil
}

// scan makes a ServerScan; a namespace that is being deleted needs none.
func (s *Schedule) scan(ctx context.Context, at account, use usage) error {
	by := inUse
	if use.unused {
		by = unused
	}
	ttl := int32((s.Interval + DefaultTTL).Seconds())
	scan := &rkev1.ServerScan{
		ObjectMeta: metav1.ObjectMeta{Namespace: at.namespace, GenerateName: "periodic-", Labels: map[string]string{rkev1.PeriodicLabel: by}},
		Spec:       rkev1.ServerScanSpec{Driver: at.driver, CloudCredentialSecretName: at.credential, TTLSecondsAfterFinished: &ttl},
	}
	err := s.Client.Create(ctx, scan, client.FieldOwner(FieldOwner))
	if err != nil && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return fmt.Errorf("creating a ServerScan in namespace %s: %w", at.namespace, err)
	}
	return nil
}

// Values of the label of periodic ServerScans: whether machines named the credential when it was
// made.
const inUse, unused = "true", "unused"

// account identifies the account of a ServerScan.
type account struct{ namespace, driver, credential string }

func accountOf(scan *rkev1.ServerScan) account {
	return account{scan.Namespace, scan.Spec.Driver, scan.Spec.CloudCredentialSecretName}
}

// newest returns by account the ServerScan that has scanned last, or is about to, of those for
// which all conditions in which are true.
func newest(scans []rkev1.ServerScan, which ...func(*rkev1.ServerScan) bool) map[account]*rkev1.ServerScan {
	out := map[account]*rkev1.ServerScan{}
	for i := range scans {
		scan := &scans[i]
		if slices.ContainsFunc(which, func(is func(*rkev1.ServerScan) bool) bool { return !is(scan) }) {
			continue
		}
		if last := out[accountOf(scan)]; last == nil || lookedAt(last).Before(lookedAt(scan)) {
			out[accountOf(scan)] = scan
		}
	}
	return out
}

// periodic reports whether the Schedule made it.
func periodic(scan *rkev1.ServerScan) bool { return scan.Labels[rkev1.PeriodicLabel] != "" }

// usual reports whether it has the grace period of periodic ServerScans: with another one, other
// servers are orphans.
func usual(scan *rkev1.ServerScan) bool { return graceOf(scan) == DefaultGrace }

// unsettled reports whether its account must be scanned again even if no machine uses it any more:
// it has listed servers without a machine, or servers with a machine, for which the next scan
// reports whether they were removed with it.
func unsettled(scan *rkev1.ServerScan) bool {
	left := func(s rkev1.ScannedServerStatus) bool { return s.Verdict != rkev1.VerdictRemoved }
	return scan.Status.Orphans > 0 || slices.ContainsFunc(scan.Status.Servers, left) ||
		scan.Status.Known > 0 && scan.Labels[rkev1.PeriodicLabel] != unused
}

// endOf returns when a ServerScan has ended, with or without success.
func endOf(scan *rkev1.ServerScan) time.Time {
	done := meta.FindStatusCondition(scan.Status.Conditions, rkev1.ScanDoneCondition)
	if done == nil || done.Status == metav1.ConditionUnknown || scan.Status.CompletionTime == nil {
		return time.Time{}
	}
	return scan.Status.CompletionTime.Time
}

// succeeded reports whether the cloud has answered.
func succeeded(scan *rkev1.ServerScan) bool {
	return !endOf(scan).IsZero() && meta.IsStatusConditionTrue(scan.Status.Conditions, rkev1.ScanDoneCondition)
}

// lookedAt returns when a ServerScan has ended or, before its end, when it was created.
func lookedAt(scan *rkev1.ServerScan) time.Time {
	if ended := endOf(scan); !ended.IsZero() {
		return ended
	}
	return scan.CreationTimestamp.Time
}
