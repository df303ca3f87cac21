package jobrunner_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit/golden"
)

// The whole schedule, for one machine: how long each class waits after each try.
func TestNextAttempt_goldenSchedule(t *testing.T) {
	var text bytes.Buffer
	classes := []string{rkev1.ClassInvalid, rkev1.ClassUnauthorized, rkev1.ClassQuota, rkev1.ClassCapacity, rkev1.ClassThrottled,
		rkev1.ClassTransient, rkev1.ClassUnknown, "something new"}
	for _, operation := range []state.Operation{state.Create, state.Remove} {
		for _, class := range classes {
			fmt.Fprintf(&text, "%s %s:", operation, class)
			for try := int32(1); try <= 13; try++ {
				at, exhausted := jobrunner.NextAttempt(jobrunner.Failure{Operation: operation, Class: class, Try: try, End: begin, UID: "uid"})
				if exhausted {
					text.WriteString(" stop")
					break
				}
				fmt.Fprintf(&text, " %s", at.Sub(begin).Round(time.Second))
			}
			text.WriteByte('\n')
		}
	}
	golden.Require(t, "testdata/schedule.txt", text.String())
}

// Two machines never share a name of anything, however alike their own names are.
func TestNames_neverMeet(t *testing.T) {
	machines := []string{"a", "a-machine", "a-create", "a-create-1", "a.b", "a-b", "a--b", strings.Repeat("a", 60), strings.Repeat("a", 63), strings.Repeat("a", 64),
		strings.Repeat("a", 253), strings.Repeat("a", 60) + ".b", strings.Repeat("a", 60) + "-b", "m-1", "m-11", "m1"}
	seen := map[string]string{}
	for _, machine := range machines {
		names := map[string]string{"state": jobrunner.StateSecretName(machine), "access": "sa/" + jobrunner.AccessName(machine)}
		for attempt := int32(1); attempt <= 12; attempt++ {
			names[fmt.Sprintf("create %d", attempt)] = "job/" + jobrunner.JobName(machine, state.Create, attempt)
			names[fmt.Sprintf("remove %d", attempt)] = "job/" + jobrunner.JobName(machine, state.Remove, attempt)
		}
		for what, name := range names {
			_, bare, ok := strings.Cut(name, "/")
			if !ok {
				bare = name
			}
			require.Empty(t, validation.IsDNS1123Label(bare), name)
			require.Empty(t, seen[name], "%s of %s has the name %s of", what, machine, name)
			seen[name] = what + " of " + machine
		}
	}
}

func TestNames_table(t *testing.T) {
	for given, want := range map[string]string{
		"pool1-abc": "pool1-abc", "A": "a-", "a_b": "a-b-", "-a-": "a-", "a.": "a-", "": "x", "...": "x", "ä": "x", "a b": "a-b-",
	} {
		got := jobrunner.ObjectName(given)
		if strings.HasSuffix(want, "-") || want == "x" {
			require.Regexp(t, "^"+want+"[0-9a-f]{8}$", got, "%q was changed, and has a hash", given)
			continue
		}
		require.Equal(t, want, got)
	}
}
