package operation_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
)

func TestRemove_without_anything(t *testing.T) {
	t.Parallel()
	j := newJob(t, "digitalocean")
	result := j.mustRemove()
	require.Empty(t, result.Notes)
}

func TestRemove_when_the_server_is_gone(t *testing.T) {
	t.Parallel()
	j := newJob(t, "digitalocean")
	j.mustCreate()
	_, err := theCloud.Client(theCloud.Token()).Droplets.Delete(t.Context(), atoi(t, j.droplets(false)[0].ID))
	require.NoError(t, err)
	j.mustRemove()
}

// The tags of a server that is gone are removed too when the cloud does not tell at once that it is gone, unless the credential is of no
// use any more: that keeps no machine.
func TestRemove_tags_of_a_server_that_is_gone(t *testing.T) {
	for name, c := range map[string]struct {
		match  string
		effect fault.Effect
		count  int
		left   bool
	}{
		"one answer is lost":   {"GET /v2/droplets/*", fault.AnswerLost, 1, false},
		"one token is refused": {"GET /v2/droplets/*", fault.Unauthorized, 1, false},
		"the cloud is down":    {fault.AnyRequest, fault.Effect{Status: http.StatusBadGateway}, 6, false},
		"a useless token":      {fault.AnyRequest, fault.Unauthorized, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t, "digitalocean")
			j.mustCreate()
			described, err := state.ReadServer(j.state())
			require.NoError(t, err)
			_, err = theCloud.Client(theCloud.Token()).Droplets.Delete(t.Context(), atoi(t, described.InstanceID))
			require.NoError(t, err)
			j.request.ProviderID = described.ProviderID
			_, result := j.run(t.Context(), state.Create)
			require.Equal(t, "ServerGone", result.Reason)

			j.fault(c.match, c.effect, c.count)
			for code := operation.ExitFailed; code != operation.ExitSucceeded; {
				code, result = j.run(t.Context(), state.Remove)
				require.Less(t, j.request.Attempt, int32(8), result.Message)
			}
			tag := "drover-machine-uid:" + j.request.Machine.UID
			require.Equal(t, c.left, slices.ContainsFunc(theCloud.Ledger.Live(ledger.KindTag), func(r ledger.Record) bool { return r.Name == tag }), j.output)
			theCloud.Faults.Clear()
		})
	}
}

func TestRemove_without_state(t *testing.T) {
	t.Parallel()
	j := newJob(t, "digitalocean")
	j.mustCreate()
	j.emptyState()
	j.mustRemove()
}

func TestRemove_with_unreadable_state(t *testing.T) {
	t.Parallel()
	j := newJob(t, "digitalocean")
	j.mustCreate()
	j.setState(state.ExtractedConfigKey, []byte("broken"))
	j.mustRemove()
}

func TestRemove_failures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		match, class string
		effect       fault.Effect
	}{
		"cloud down":    {fault.DeleteDroplet, rkev1.ClassTransient, fault.Effect{Status: http.StatusBadGateway}},
		"token revoked": {"* /**", rkev1.ClassUnauthorized, fault.Unauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "digitalocean")
			j.mustCreate()
			j.fault(c.match, c.effect, 0)
			code, result := j.run(t.Context(), state.Remove)
			j.clearFaults()
			require.Equal(t, operation.ExitFailed, code, j.output.String())
			require.Equal(t, c.class, result.Class, result.Message)
			require.True(t, result.ServerMayExist)
			require.Len(t, j.droplets(false), 1)

			j.request.Abandon = true
			j.fault(fault.AnyRequest, fault.Unauthorized, 0)
			code, result = j.run(t.Context(), state.Remove)
			require.Equal(t, operation.ExitSucceeded, code, "given up")
			require.True(t, result.ServerMayExist)
			require.Contains(t, result.Notes[0], "may remain")
			j.clearFaults()
			j.request.Abandon = false
			j.mustRemove()
		})
	}
}

// foreign is a machine of a driver without profile and without finder.
func foreign(t *testing.T, mode string) (*job, string) {
	t.Helper()
	j := newJob(t, "slow")
	dir := t.TempDir()
	j.request.CredentialEnv = map[string]string{"SLOW_DIR": dir}
	j.request.Options = map[string]any{"slow-mode": mode}
	return j, filepath.Join(dir, j.request.InstanceName)
}

func TestForeignDriver(t *testing.T) {
	t.Parallel()
	j, server := foreign(t, "good")
	j.request.ProviderIDTemplate = "slow://{ServerID}"
	j.mustCreate()
	require.FileExists(t, server)
	described, err := state.ReadServer(j.state())
	require.NoError(t, err)
	require.Equal(t, "slow://srv-"+j.request.InstanceName, described.ProviderID)
	j.mustCreate()
	code, result := j.run(t.Context(), state.Remove)
	require.Equal(t, operation.ExitSucceeded, code, result.Message)
	require.NoFileExists(t, server)
}

func TestForeignDriver_that_refuses(t *testing.T) {
	t.Parallel()
	j, _ := foreign(t, "refuse")
	code, result := j.run(t.Context(), state.Create)
	require.Equal(t, operation.ExitFailed, code)
	require.Equal(t, rkev1.ClassQuota, result.Class)
	require.False(t, result.ServerMayExist, "a refusal means that nothing was made")
	code, _ = j.run(t.Context(), state.Remove)
	require.Equal(t, operation.ExitSucceeded, code)
}

// TestForeignDriver_ambiguous: nobody can tell whether there is a server, so nobody makes a second one, and nobody says that
// there is none.
func TestForeignDriver_ambiguous(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"mystery", "die"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			j, server := foreign(t, mode)
			code, result := j.run(t.Context(), state.Create)
			require.Equal(t, operation.ExitFailed, code)
			require.True(t, result.ServerMayExist, result.Message)

			j.request.Options["slow-mode"] = "good"
			code, result = j.run(t.Context(), state.Create)
			require.Equal(t, operation.ExitFailed, code)
			require.Equal(t, rkev1.ServerMayExistReason, result.Reason)
			require.NoFileExists(t, server)

			code, result = j.run(t.Context(), state.Remove)
			require.Equal(t, operation.ExitFailed, code)
			require.Equal(t, rkev1.ServerMayExistReason, result.Reason)
			require.True(t, result.ServerMayExist)

			j.request.Abandon = true
			code, result = j.run(t.Context(), state.Remove)
			require.Equal(t, operation.ExitSucceeded, code)
			require.Contains(t, strings.Join(result.Notes, " "), "may remain")
		})
	}
}

// TestForeignDriver_state_lost: who cannot look for a server does not say that there is none, and makes no second one.
func TestForeignDriver_state_lost(t *testing.T) {
	t.Parallel()
	j, server := foreign(t, "good")
	j.mustCreate()
	j.emptyState()
	j.request.MayExist = true
	for _, kind := range []state.Operation{state.Create, state.Remove} {
		code, result := j.run(t.Context(), kind)
		require.Equal(t, operation.ExitFailed, code, kind)
		require.Equal(t, rkev1.ServerMayExistReason, result.Reason)
		require.True(t, result.ServerMayExist)
		require.FileExists(t, server)
	}
}

// TestForeignDriver_names_its_server_late: nobody knows which field names the server, so that each change is kept at once.
func TestForeignDriver_names_its_server_late(t *testing.T) {
	t.Parallel()
	j, _ := foreign(t, "late")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		j.run(ctx, state.Create)
	}()
	require.Eventually(t, func() bool {
		files, _ := sshkeys.ReadArchive(j.state()[state.ExtractedConfigKey])
		return slices.ContainsFunc(files, func(file sshkeys.File) bool {
			return strings.Contains(string(file.Content), "srv-"+j.request.InstanceName)
		})
	}, time.Minute, 100*time.Millisecond, "it is kept while the driver goes on")
	cancel()
	<-ended
}

func TestForeignDriver_that_hangs_is_cancelled(t *testing.T) {
	t.Parallel()
	j, server := foreign(t, "hang")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		assert.Eventually(t, func() bool { _, err := os.Stat(server + "-asked"); return err == nil }, time.Minute, 50*time.Millisecond)
	}()
	code, result := j.run(ctx, state.Create)
	require.Equal(t, operation.ExitCancelled, code)
	require.True(t, result.ServerMayExist)
	require.Equal(t, state.PhaseIntent, j.journal())
}

// TestForeignDriver_with_its_record_only: the options are of no use any more, but the record still names the server.
func TestForeignDriver_with_its_record_only(t *testing.T) {
	t.Parallel()
	j, server := foreign(t, "good")
	j.mustCreate()
	j.request.CredentialEnv["SLOW_DIR"] = ""
	j.request.Options = map[string]any{"slow-mode": "good", "slow-gone": "x", "slow-dir": filepath.Dir(server)}
	code, result := j.run(t.Context(), state.Remove)
	require.Equal(t, operation.ExitSucceeded, code, result.Message)
	require.NoFileExists(t, server)
}

// The driver takes its options no more, for the credential's token is gone: the removal fails in words, and goes on when it is there again.
func TestRemove_without_credential(t *testing.T) {
	t.Parallel()
	j := newJob(t, "digitalocean")
	j.mustCreate()
	given := j.request.CredentialEnv
	j.request.CredentialEnv = nil
	code, result := j.run(t.Context(), state.Remove)
	require.Equal(t, operation.ExitFailed, code)
	require.Equal(t, rkev1.ClassUnauthorized, result.Class, result.Message)
	require.Contains(t, result.Notes[0], "the machine's options cannot be used: digitalocean driver requires the --digitalocean-access-token option")
	require.Len(t, j.droplets(false), 1)
	j.request.CredentialEnv = given
	j.mustRemove()
}

func TestNoneDriver(t *testing.T) {
	t.Parallel()
	j := newJob(t, "none")
	j.request.Options = map[string]any{"url": "tcp://198.18.0.9:2376"}
	j.mustCreate()
	j.mustRemove()
	require.NotContains(t, j.output.String(), "logging in")
}

// A machine that a restore brought back with another UID and nothing else gets no second server beside the one that its name's tag
// names, until the user has looked; another management cluster's server keeps nobody.
func TestCreate_restoredWithoutAnything(t *testing.T) {
	j := newJob(t, "digitalocean")
	j.request.Machine.Management = "management-" + j.request.Machine.UID
	j.request.Tags = jobrunner.Tags(j.request.Machine)
	j.mustCreate()
	described, err := state.ReadServer(j.state())
	require.NoError(t, err)
	j.emptyState()
	j.request.Machine.UID += "-restored"
	j.request.Tags = jobrunner.Tags(j.request.Machine)
	for range 2 {
		code, result := j.run(t.Context(), state.Create)
		require.Equal(t, operation.ExitFailed, code, j.output)
		require.Equal(t, rkev1.ServerMayExistReason, result.Reason, result.Message)
		require.Contains(t, result.Message, "the cloud has server "+described.InstanceID)
		require.True(t, result.ServerMayExist, "so that a removal looks for it too")
		require.Len(t, j.droplets(false), 1)
	}
	code, result := j.run(t.Context(), state.Remove)
	require.Equal(t, operation.ExitFailed, code, j.output)
	require.Equal(t, rkev1.ServerMayExistReason, result.Reason, result.Message)

	j.request.Looked = j.request.Attempt
	j.mustCreate()
	require.Len(t, j.droplets(false), 2)
	j.emptyState()
	j.request.Looked, j.request.Machine.UID, j.request.Machine.Management = 0, "another", "another"
	j.request.Tags = jobrunner.Tags(j.request.Machine)
	j.mustCreate()
}

// A machine that was restored without its state has another UID, which no tag at the cloud has. What may be its server by the
// provider ID or by the name in its tag, or cannot be asked for, is named and left to the user.
func TestRemove_restoredWithoutState(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		providerID func(known string) string
		says       string
	}{
		"by its provider ID":         {func(known string) string { return known }, "its provider ID names server ID (NAME, 198.18."},
		"by the name in its tag":     {func(string) string { return "" }, "has server ID (NAME, 198.18."},
		"by its name, not by its ID": {func(string) string { return "digitalocean://1" }, "), which was created for machine team-testremove"},
		"it was removed by somebody": {func(known string) string { return known }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "digitalocean")
			j.mustCreate()
			described, err := state.ReadServer(j.state())
			require.NoError(t, err)
			j.emptyState()
			j.request.Machine.UID += "-restored"
			j.request.Tags, j.request.ProviderID, j.request.MayExist = jobrunner.Tags(j.request.Machine), c.providerID(described.ProviderID), true
			if c.says == "" {
				_, err = theCloud.Client(theCloud.Token()).Droplets.Delete(t.Context(), atoi(t, described.InstanceID))
				require.NoError(t, err)
				require.Empty(t, j.mustRemove().Notes, "the cloud was asked for all that could be there")
				return
			}
			for range 2 { // also when the state knows again that there was one
				code, result := j.run(t.Context(), state.Remove)
				require.Equal(t, operation.ExitFailed, code, j.output)
				require.Equal(t, rkev1.ServerMayExistReason, result.Reason, result.Message)
				require.True(t, result.ServerMayExist)
				require.Contains(t, result.Message, strings.NewReplacer("server ID", "server "+described.InstanceID, "NAME", j.request.InstanceName).Replace(c.says))
				require.Len(t, j.droplets(false), 1)
				j.request.MayExist = false
			}
		})
	}
}
