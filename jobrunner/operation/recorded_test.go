package operation_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/state"
)

func regionJob(t *testing.T, template, mode string) (*job, cloudDir) {
	t.Helper()
	j := newJob(t, "slow")
	c := cloudDir{t: t, path: t.TempDir(), name: j.request.InstanceName}
	j.request.CredentialEnv = map[string]string{"SLOW_DIR": c.path, "SLOW_REGION": "ams3"}
	j.request.ProviderIDTemplate, j.request.Options = template, map[string]any{"slow-mode": mode}
	return j, c
}

// TestRecorded_isTaken: a server that the record names is never denied, whether or not the record can fill the NodeDriver's template:
// what comes from the credential is not kept in it.
func TestRecorded_isTaken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ template, mode string }{
		"the template names a field of the credential": {"slow://{Region}/{ServerID}", "noted not to my liking"},
		"the template cannot be filled":                {"slow://{Missing}/{ServerID}", "noted not to my liking"},
		"so of a server that was finished":             {"slow://{Missing}/{ServerID}", "good"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, servers := regionJob(t, c.template, c.mode)
			first := known(rkev1.ClassUnknown)
			if c.mode == "good" {
				first = done
			}
			require.Equal(t, first, j.tell(state.Create), j.output)
			j.request.Options["slow-mode"] = "fail to make another"
			require.Equal(t, done, j.tell(state.Create), j.output)
			require.Equal(t, 1, servers.servers())
			require.Equal(t, cleared, j.tell(state.Remove), j.output)
			require.Zero(t, servers.servers())
		})
	}
}

// TestRecorded_inPart: one empty field of the template does not hide the server that the others name.
func TestRecorded_inPart(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]struct {
		kind state.Operation
		want told
	}{
		"another attempt removes what has no address": {state.Create, told{rkev1.ServerIncompleteReason, rkev1.ClassTransient, false, state.PhaseGone}},
		"a removal needs nobody":                      {state.Remove, cleared},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, servers := regionJob(t, "slow://{ServerID}/{Missing}", "numbered not to my liking")
			require.Equal(t, known(rkev1.ClassUnknown), j.tell(state.Create), j.output)
			require.Equal(t, next.want, j.tell(next.kind), j.output)
			require.Zero(t, servers.servers())
		})
	}
}

// TestRecorded_isTold: where nobody can tell which field names the server, the user is told what the driver had recorded, and
// again when it is forgotten at his word.
func TestRecorded_isTold(t *testing.T) {
	t.Parallel()
	j, _ := regionJob(t, "slow://{Missing}/{Id}", "numbered not to my liking")
	require.Equal(t, asked(rkev1.ClassUnknown), j.tell(state.Create), j.output)
	j.request.Options["slow-mode"] = "good"
	require.Equal(t, asked(rkev1.ClassUnknown), j.tell(state.Create), "another attempt keeps the words of the first")
	id := "ServerID srv-" + j.request.InstanceName
	result, err := state.ReadResult(j.state(), state.ResultKey)
	require.NoError(t, err)
	require.Contains(t, result.Message, "the driver recorded "+id)
	require.Equal(t, id, result.Recorded, "also for who abandons the machine")
	require.Contains(t, result.Message, "not to my liking", "how the attempt failed that left the doubt")
	j.request.Looked = j.request.Attempt - 1
	_, result = j.run(t.Context(), state.Create)
	require.Contains(t, result.Notes, "a user confirmed that no server is left: the record of the earlier attempt's server is dropped (driver's record: "+id+")")
}

// TestTaken_isTold: a server whose create had failed is not taken without a word.
func TestTaken_isTold(t *testing.T) {
	t.Parallel()
	j, _ := regionJob(t, "", "noted attaching the volume failed")
	require.Equal(t, known(rkev1.ClassUnknown), j.tell(state.Create), j.output)
	require.Contains(t, j.mustCreate().Taken, "its driver created it and then failed: attaching the volume failed")
	require.Empty(t, j.mustCreate().Taken, "by now it is finished")
}

// TestPanic_isTold with its words, where libmachine does not recover it, and without secrets.
func TestPanic_isTold(t *testing.T) {
	t.Parallel()
	j, _ := regionJob(t, "", "panic no such place: ams3")
	_, result := j.run(t.Context(), state.Create)
	require.Contains(t, result.Message, "the driver does not respond: its process ended during Create: panic: no such place: [redacted]. It is unknown whether server ")
}
