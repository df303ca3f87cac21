package agent

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/api/plan"
)

// TestTake: what the journal becomes by what the Secret says. Letters are plans.
func TestTake(t *testing.T) {
	sum := func(letter string) string { return plan.Checksum([]byte(letter)) }
	done := Journal{Checksum: sum("A"), Revision: 4, Phase: Succeeded, Attempt: 2, FilesDone: true, InstructionsDone: 3}
	half := Journal{Checksum: sum("A"), Revision: 4, Phase: Applying, Attempt: 2, FilesDone: true, InstructionsDone: 1}
	fresh := func(letter string, revision, attempt int) Journal {
		return Journal{Checksum: sum(letter), Revision: revision, Phase: Applying, Attempt: attempt}
	}
	for name, tt := range map[string]struct {
		plan, state, revision string
		more                  map[string]string
		journal, want         Journal
	}{
		"no plan":                                    {journal: done, want: done},
		"the first":                                  {plan: "A", state: "pending", want: fresh("A", 1, 1)},
		"another":                                    {plan: "B", state: "pending", revision: "4", journal: done, want: fresh("B", 5, 1)},
		"the same again":                             {plan: "A", state: "pending", revision: "4", journal: done, want: fresh("A", 5, 3)},
		"the claim was lost":                         {plan: "A", state: "pending", revision: "3", journal: half, want: half},
		"a Secret from a backup":                     {plan: "A", state: "pending", revision: "2", journal: done, want: done},
		"another in a Secret from a backup":          {plan: "B", state: "pending", revision: "2", journal: done, want: fresh("B", 5, 1)},
		"it was taken up before a crash":             {plan: "A", state: "in-progress", revision: "4", journal: half, want: half},
		"it was done, and not yet told":              {plan: "A", state: "in-progress", revision: "4", journal: done, want: done},
		"the journal is lost":                        {plan: "A", state: "in-progress", revision: "4", want: fresh("A", 4, 1)},
		"the journal is of an earlier order":         {plan: "A", state: "in-progress", revision: "6", journal: done, want: fresh("A", 6, 3)},
		"another was applied since":                  {plan: "B", state: "succeeded", revision: "2", journal: done, want: fresh("B", 5, 1)},
		"another was begun since":                    {plan: "B", state: "succeeded", revision: "2", journal: half, want: fresh("B", 5, 1)},
		"the host is of a backup":                    {plan: "A", state: "succeeded", revision: "9", journal: half, want: fresh("A", 10, 3)},
		"it is taken up again, and not yet told":     {plan: "A", state: "succeeded", revision: "2", journal: half, want: half},
		"it is done":                                 {plan: "A", state: "succeeded", revision: "4", journal: done, want: done},
		"it is done, the journal lost":               {plan: "A", state: "succeeded", revision: "4"},
		"it failed":                                  {plan: "A", state: "failed", revision: "4", journal: half, want: half},
		"a state of another time":                    {plan: "B", state: "canceled", revision: "4", journal: done, want: done},
		"old: the first":                             {plan: "A", want: fresh("A", 1, 1)},
		"old: the same":                              {plan: "A", journal: done, want: done},
		"old: another":                               {plan: "B", journal: done, want: fresh("B", 5, 1)},
		"old: the journal is lost, and it is done":   {plan: "A", more: map[string]string{plan.KeyAppliedChecksum: sum("A")}},
		"old: back to what was applied before":       {plan: "B", more: map[string]string{plan.KeyAppliedChecksum: sum("B")}, journal: done, want: fresh("B", 5, 1)},
		"old: the journal is lost, another failed":   {plan: "A", more: map[string]string{plan.KeyAppliedChecksum: sum("A"), plan.KeyFailedChecksum: sum("B")}, want: fresh("A", 1, 1)},
		"the journal is lost, and failures are told": {plan: "A", state: "in-progress", revision: "4", more: map[string]string{plan.KeyFailedChecksum: sum("A"), plan.KeyFailureCount: "2"}, want: Journal{Checksum: sum("A"), Revision: 4, Phase: Applying, Attempt: 3, Failures: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			data := map[string][]byte{plan.KeyPlan: []byte(tt.plan), plan.KeyState: []byte(tt.state), plan.KeyRevision: []byte(tt.revision)}
			for key, value := range tt.more {
				data[key] = []byte(value)
			}
			require.Equal(t, tt.want, take(readView(data), tt.journal))
		})
	}
}

func TestRetryAt(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: 5 * time.Second, 2: 10 * time.Second, 5: 80 * time.Second, 8: 5 * time.Minute, 1 << 40: 5 * time.Minute} {
		require.Equal(t, noon.Add(want), retryAt(Journal{Failures: failures, Ended: noon}))
	}
	v := readView(map[string][]byte{plan.KeyPlan: []byte("A")})
	due, _ := isDue(v, Journal{Checksum: v.checksum, Phase: Failed, Failures: 1, Ended: noon.Add(999 * time.Hour)}, noon)
	require.True(t, due, "a clock that was ahead delays nothing")
}

// TestReportFits: output that a Secret cannot hold is left out, not the result.
func TestReportFits(t *testing.T) {
	data := map[string][]byte{plan.KeyPlan: make([]byte, 1000<<10), plan.KeyState: []byte(plan.StateInProgress), plan.KeyRevision: []byte("1")}
	v := readView(data)
	noise := make([]byte, maxSavedBytes)
	for i := range noise {
		noise[i] = byte(i * i >> 3)
	}
	next, err := report(v, Journal{Checksum: v.checksum, Revision: 1, Phase: Succeeded, Output: map[string][]byte{"a": noise}}, findings{})
	require.NoError(t, err)
	require.Equal(t, string(plan.StateSucceeded), string(next[plan.KeyState]))
	require.LessOrEqual(t, size(next), 1<<20)
}

// TestJournalIsLost: a journal that cannot be read is put aside, and the Secret tells.
func TestJournalIsLost(t *testing.T) {
	folder := t.TempDir()
	o := optionsIn(folder, newSecret(nil))
	require.NoError(t, os.WriteFile(filepath.Join(o.Folder, JournalFile), []byte("{"), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, New(o).Run(ctx))
	require.FileExists(t, filepath.Join(o.Folder, JournalFile+".unreadable"))
}

// FuzzJournal: refused, or one that is written and read again the same, and with which every state of the Secret is thought about without an end.
func FuzzJournal(f *testing.F) {
	seed, err := json.Marshal(Journal{Checksum: "x", Revision: 1, Phase: Failed, Attempt: 2, Failures: 1, Output: map[string][]byte{"a": {1}}, Ended: noon})
	require.NoError(f, err)
	f.Add(seed, "pending", "1")
	f.Fuzz(func(t *testing.T, content []byte, state, revision string) {
		j, err := parseJournal(content)
		if err != nil {
			return
		}
		written, err := json.Marshal(j)
		require.NoError(t, err)
		again, err := parseJournal(written)
		require.NoError(t, err)
		require.True(t, sameJournal(j, again))
		data := map[string][]byte{plan.KeyPlan: []byte("A"), plan.KeyState: []byte(state), plan.KeyRevision: []byte(revision)}
		v := readView(data)
		next := take(v, j)
		after, err := report(v, next, findings{})
		require.NoError(t, err)
		if next.Revision < 1<<60 { // a number that is no number's successor is refused by the policy, and said so
			require.NoError(t, plan.MayWrite(plan.Agent, data, after))
		}
	})
}
