package facts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// waits is a machine whose create waits for a reason; class is that of its last attempt, if it made one.
func waits(name, reason, class string) *facts.Machine {
	m := &facts.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}}
	m.Spec.Common.CloudCredentialSecretName = "token"
	m.Status.Conditions = []metav1.Condition{{Type: rkev1.CreateJobCondition, Status: metav1.ConditionFalse, Reason: reason}}
	if class != "" {
		m.Status.LastAttempt = &rkev1.AttemptStatus{Operation: "create", Outcome: "Failed", Class: class}
	}
	return m
}

func next(m *facts.Machine) *facts.Machine {
	m.Status.NextAttemptTime = &metav1.Time{}
	return m
}

func TestIsHeld(t *testing.T) {
	for name, c := range map[string]struct {
		machine *facts.Machine
		held    bool
	}{
		"nothing known":        {&facts.Machine{}, false},
		"never tried":          {waits("a", rkev1.WaitingForQuotaReason, ""), true},
		"no capacity":          {waits("a", rkev1.WaitingForCapacityReason, ""), true},
		"rate limit":           {waits("a", rkev1.WaitingForRateLimitReason, ""), true},
		"asks next":            {next(waits("a", rkev1.WaitingForQuotaReason, "")), false},
		"refused, asks next":   {next(waits("a", rkev1.WaitingForRetryReason, rkev1.ClassQuota)), false},
		"refused, as others":   {waits("a", rkev1.WaitingForRetryReason, rkev1.ClassQuota), true},
		"its own failure":      {waits("a", rkev1.WaitingForRetryReason, rkev1.ClassTransient), false},
		"has no attempts left": {waits("a", rkev1.AttemptsExhaustedReason, rkev1.ClassQuota), false},
	} {
		require.Equal(t, c.held, c.machine.IsHeld(), name)
	}
}

func TestAhead(t *testing.T) {
	held := waits("a", rkev1.WaitingForQuotaReason, "")
	first := next(waits("b", rkev1.WaitingForRetryReason, rkev1.ClassQuota))
	trying := waits("c", rkev1.JobRunningReason, rkev1.ClassQuota)
	trying.Status.Phase = rkev1.PhaseCreating
	other := next(waits("d", rkev1.WaitingForRetryReason, rkev1.ClassQuota))
	other.Spec.Common.CloudCredentialSecretName = "another"
	broken := next(waits("e", rkev1.WaitingForRetryReason, rkev1.ClassTransient))
	behind := waits("f", rkev1.WaitingForRetryReason, rkev1.ClassQuota)
	none := waits("g", rkev1.WaitingForQuotaReason, "")

	require.Nil(t, held.Ahead(nil))
	require.Nil(t, held.Ahead([]*facts.Machine{held, other, broken, behind, none}))
	require.Same(t, first, held.Ahead([]*facts.Machine{other, behind, first, trying}))
	require.Same(t, trying, held.Ahead([]*facts.Machine{none, trying}))
	require.Nil(t, first.Ahead([]*facts.Machine{first}))
}
