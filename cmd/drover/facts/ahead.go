package facts

import (
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
)

// IsHeld reports whether a machine waits until another one, that asks for the same, has got its server.
func (m *Machine) IsHeld() bool {
	c := m.Condition(rkev1.CreateJobCondition)
	if c == nil || m.Status.NextAttemptTime != nil {
		return false
	}
	switch c.Reason {
	case rkev1.WaitingForQuotaReason, rkev1.WaitingForCapacityReason, rkev1.WaitingForRateLimitReason:
		return true
	}
	return c.Reason == rkev1.WaitingForRetryReason && m.Status.LastAttempt != nil && jobrunner.IsShared(m.Status.LastAttempt.Class)
}

// Ahead is the one of the others that asks the cloud before a machine that is held: the refused one that has a time for its
// next attempt, or whose attempt is under way; nil if none can be told.
func (m *Machine) Ahead(others []*Machine) *Machine {
	for _, other := range others {
		last := other.Status.LastAttempt
		if other.UID == m.UID || last == nil || !jobrunner.IsShared(last.Class) || m.Credential().NamespacedName != other.Credential().NamespacedName {
			continue
		}
		if other.Status.NextAttemptTime != nil || other.Status.Phase == rkev1.PhaseCreating {
			return other
		}
	}
	return nil
}
