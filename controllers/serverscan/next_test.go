package serverscan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/controllers/attempt"
)

// TestNext over all that there is: nothing is removed before the first Job's list is there, nor twice.
func TestNext(t *testing.T) {
	for _, p := range []phase{notBegun, looking, removing} {
		for _, s := range []attempt.State{attempt.Unclaimed, attempt.Claimed, attempt.Running, attempt.Succeeded, attempt.Failed} {
			for bits := range 1 << 2 {
				listed, reported := bits&1 != 0, bits&2 != 0
				want := map[attempt.State]action{attempt.Unclaimed: giveUp, attempt.Claimed: giveUp, attempt.Running: awaitJob, attempt.Succeeded: refuseVersion, attempt.Failed: giveUp}[s]
				if s == attempt.Succeeded && reported {
					want = conclude
				}
				if s == attempt.Claimed && p == removing && listed {
					want = makeRemoval
				}
				if p == notBegun {
					want = begin
				}
				require.Equal(t, want, next(p, s, listed, reported), "%v %v %v %v", p, s, listed, reported)
			}
		}
	}
}
