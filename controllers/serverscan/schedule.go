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
	// atOnce bounds the ServerScans of one round; what is left follows after spread.
	atOnce = 10
	spread = time.Minute
)

// Schedule makes ServerScans by itself: one in each interval for every credential that machines use with a driver whose servers
// can be listed. They change nothing. The first is made an interval after the first machine; each stays an hour longer than it takes to the next.
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

// usage is what is known of an account before it is looked at.
type usage struct {
	// unused tells that no machine names it any more.
	unused bool
	// since is when its newest ServerScan was done, or its oldest machine made.
	since time.Time
	// scanning tells that its newest ServerScan is not done.
	scanning bool
}

// NeedLeaderElection says that one replica is enough.
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

// Round makes the ServerScans that are due and tells when the next could be. Those that cannot be made are in the error and do
// not keep the others.
func (s *Schedule) Round(ctx context.Context) (time.Duration, error) {
	accounts, err := s.accounts(ctx)
	if err != nil {
		return 0, err
	}
	// What the ServerScans tell that are there. An account that one of ours has left unsettled is looked at again until one has not, whether
	// machines use it or not.
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

// accounts are those that machines use.
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
	// Machines that name no Secret have their credential elsewhere, where no ServerScan finds it.
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

// Values of the label of periodic ServerScans: whether machines named the credential when it was made.
const inUse, unused = "true", "unused"

// account is what a ServerScan looks at.
type account struct{ namespace, driver, credential string }

func accountOf(scan *rkev1.ServerScan) account {
	return account{scan.Namespace, scan.Spec.Driver, scan.Spec.CloudCredentialSecretName}
}

// newest are the ServerScans that have looked last, or are about to, by account; of those only for which all of that is so.
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

// usual reports whether it judges by the grace period that the Schedule's do: by another one, other servers are orphans.
func usual(scan *rkev1.ServerScan) bool { return graceOf(scan) == DefaultGrace }

// unsettled reports whether its account must be looked at once more, though no machine may use it any more: there were servers without a
// machine, or servers with one, of which the next one reports whether they went with it.
func unsettled(scan *rkev1.ServerScan) bool {
	left := func(s rkev1.ScannedServerStatus) bool { return s.Verdict != rkev1.VerdictRemoved }
	return scan.Status.Orphans > 0 || slices.ContainsFunc(scan.Status.Servers, left) ||
		scan.Status.Known > 0 && scan.Labels[rkev1.PeriodicLabel] != unused
}

// endOf is when a ServerScan was done, for better or worse.
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

// lookedAt is when a ServerScan was done or, if it is not, made.
func lookedAt(scan *rkev1.ServerScan) time.Time {
	if ended := endOf(scan); !ended.IsZero() {
		return ended
	}
	return scan.CreationTimestamp.Time
}
