package jobrunner

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"time"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/state"
)

// MadeBudget is how many attempts may make a server and then fail, since something was changed:
// each of them costs money.
const MadeBudget = 5

// Failure holds the facts of a failed attempt that decide when the next one may start.
type Failure struct {
	// Operation that failed.
	Operation state.Operation
	// Class of the failure, one of api/rke/v1.
	Class string
	// Try counts the attempts since the user last changed something, this one included, and Made
	// those that made a server.
	Try, Made int32
	// End of the attempt.
	End time.Time
	// UID of the machine spreads the attempts of many machines that failed together.
	UID string
}

// backOff is how the attempts of one class follow each other.
type backOff struct {
	// first is the wait after the first failure; it doubles up to most.
	first, most time.Duration
	// stops is true if only a user can fix the failure: a create is not retried before something
	// changes.
	stops bool
	// shared is true if other requests with the same credential would fail in the same way.
	shared bool
}

// backOffs by class. A failure that can end without a user is retried for ever, at most with the
// longest wait. So is every remove, because a server that is left costs money.
var backOffs = map[string]backOff{
	// Waiting does not help: the request or the credential must change.
	rkev1.ClassInvalid:      {first: time.Hour, most: 6 * time.Hour, stops: true},
	rkev1.ClassUnauthorized: {first: time.Hour, most: 6 * time.Hour, stops: true},
	// A quota is raised or freed by people, in hours.
	rkev1.ClassQuota: {first: 10 * time.Minute, most: 6 * time.Hour, shared: true},
	// A cloud gets room within minutes to hours.
	rkev1.ClassCapacity:  {first: 2 * time.Minute, most: time.Hour, shared: true},
	rkev1.ClassThrottled: {first: time.Minute, most: 30 * time.Minute, shared: true},
	rkev1.ClassTransient: {first: 15 * time.Second, most: 15 * time.Minute},
	// Clouds often do not report an outage as one.
	rkev1.ClassUnknown: {first: 30 * time.Second, most: 30 * time.Minute},
}

// NextAttempt returns when the next attempt may start. stopped means that none starts
// automatically: the user must change something or request it. A remove never stops.
func NextAttempt(f Failure) (at time.Time, stopped bool) {
	if f.Operation != state.Remove && (backOffs[f.Class].stops || f.Made >= MadeBudget) {
		return time.Time{}, true
	}
	wait := Wait(f.Class, f.Try)
	// Up to a fifth of the wait more, always the same for one machine, so that it is tested and
	// seen the same everywhere.
	sum := sha256.Sum256([]byte(f.UID))
	jitter := time.Duration(float64(wait) / 5 * float64(binary.BigEndian.Uint32(sum[:])) / (1 << 32))
	return f.End.Add(wait + jitter), false
}

// Wait returns the pause after the nth failure of a class in a row, without jitter.
func Wait(class string, n int32) time.Duration {
	b := cmp.Or(backOffs[class], backOffs[rkev1.ClassUnknown]) // a class that is not in the table counts as unknown
	wait := b.first
	for i := int32(1); i < n && wait < b.most; i++ {
		wait *= 2
	}
	return min(wait, b.most)
}

// IsShared reports whether a failure of this class applies to all machines with the same request
// and credential: one of them must retry, and the others need not.
func IsShared(class string) bool { return backOffs[class].shared }
