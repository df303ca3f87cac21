package jobrunner_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

func TestNextAttempt(t *testing.T) {
	for _, tt := range []struct {
		class     string
		operation state.Operation
		try, made int32
		least     time.Duration
		stopped   bool
	}{
		{class: rkev1.ClassInvalid, try: 1, stopped: true},
		{class: rkev1.ClassUnauthorized, try: 1, stopped: true},
		{class: rkev1.ClassQuota, try: 1, least: 10 * time.Minute},
		{class: rkev1.ClassQuota, try: 1 << 30, least: 6 * time.Hour},
		{class: rkev1.ClassCapacity, try: 3, least: 8 * time.Minute},
		{class: rkev1.ClassThrottled, try: 2, least: 2 * time.Minute},
		{class: rkev1.ClassTransient, try: 1, least: 15 * time.Second},
		{class: rkev1.ClassTransient, try: 1 << 30, least: 15 * time.Minute},
		{class: rkev1.ClassUnknown, try: 2, least: time.Minute},
		{class: rkev1.ClassUnknown, try: 1 << 30, least: 30 * time.Minute},
		{class: "what", try: 3, least: 2 * time.Minute},
		{class: rkev1.ClassTransient, try: 4, made: 4, least: 2 * time.Minute},
		{class: rkev1.ClassTransient, try: 9, made: 5, stopped: true},
		{class: rkev1.ClassQuota, try: 9, made: 6, stopped: true},
		{class: rkev1.ClassInvalid, operation: state.Remove, try: 1, least: time.Hour},
		{class: rkev1.ClassInvalid, operation: state.Remove, try: 1 << 30, least: 6 * time.Hour},
		{class: rkev1.ClassTransient, operation: state.Remove, try: 50, made: 9, least: 15 * time.Minute},
	} {
		at, stopped := jobrunner.NextAttempt(jobrunner.Failure{Operation: tt.operation, Class: tt.class, Try: tt.try, Made: tt.made, End: begin, UID: "u"})
		require.Equal(t, tt.stopped, stopped, "%+v", tt)
		if stopped {
			continue
		}
		wait := at.Sub(begin)
		require.GreaterOrEqual(t, wait, tt.least, "%+v", tt)
		require.Less(t, wait, tt.least+tt.least/5+1, "%+v", tt)
	}
}

func TestNextAttempt_spreadsMachines(t *testing.T) {
	seen := map[time.Time]bool{}
	for _, uid := range []string{"a", "b", "c", "d", "e"} {
		at, _ := jobrunner.NextAttempt(jobrunner.Failure{Class: rkev1.ClassQuota, Try: 1, End: begin, UID: uid})
		again, _ := jobrunner.NextAttempt(jobrunner.Failure{Class: rkev1.ClassQuota, Try: 1, End: begin, UID: uid})
		require.Equal(t, at, again)
		seen[at] = true
	}
	require.Len(t, seen, 5)
}

// The table in docs/metrics.md is what the code does.
func TestPaces_areDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	for _, class := range []string{rkev1.ClassInvalid, rkev1.ClassUnauthorized, rkev1.ClassQuota, rkev1.ClassCapacity, rkev1.ClassThrottled,
		rkev1.ClassTransient, rkev1.ClassUnknown} {
		waits, others := "none: it stops", "go on"
		if _, stopped := jobrunner.NextAttempt(jobrunner.Failure{Operation: state.Create, Class: class, Try: 1 << 30}); !stopped {
			waits = inWords(jobrunner.Wait(class, 1)) + ", " + inWords(jobrunner.Wait(class, 1<<30))
		}
		if jobrunner.IsShared(class) {
			others = "wait"
		}
		require.Contains(t, string(text), fmt.Sprintf("| %s | %s | %s |", class, waits, others))
	}
	require.Contains(t, string(text), fmt.Sprintf("%d attempts", jobrunner.MadeBudget))
}

func inWords(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d >= time.Minute:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}
