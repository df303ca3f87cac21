package serverscan

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

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
