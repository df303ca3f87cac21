package operation_test

import (
	"context"
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/jobrunner/operation"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
)

const script = "#!/bin/sh\necho MARKER-join-token-1234\n"

func withBootstrap(j *job) *job {
	j.request.HasBootstrap, j.data = true, []byte(script)
	return j
}

func TestCreate(t *testing.T) {
	t.Parallel()
	j := withBootstrap(newJob(t, "digitalocean"))
	result := j.mustCreate()
	require.True(t, result.ServerMayExist)
	require.Len(t, result.Notes, 1, "the instant server has no SSH: %v", result.Notes)

	droplets := j.droplets(false)
	require.Len(t, droplets, 1)
	require.Contains(t, droplets[0].Tags, "mine")
	require.Contains(t, droplets[0].Tags, "drover-machine-uid:"+j.request.Machine.UID)
	userData, err := theCloud.Account.UserData(atoi(t, droplets[0].ID))
	require.NoError(t, err)
	require.Contains(t, userData, "gz+b64", "the bootstrap data is the droplet's user data")
	require.Contains(t, userData, `hostname: "testcreate"`)

	server, err := state.ReadServer(j.state())
	require.NoError(t, err)
	require.Equal(t, "digitalocean://"+droplets[0].ID, server.ProviderID)
	require.Equal(t, droplets[0].ID, server.InstanceID)
	require.Equal(t, "nyc3", server.FailureDomain)
	require.Equal(t, "ExternalIP", server.Addresses[0].Type)
	require.Equal(t, state.PhaseBootstrapped, j.journal())
	access, err := sshkeys.AccessFrom(state.Of(j.state()))
	require.NoError(t, err)
	require.Equal(t, "root", access.User)
	require.Regexp(t, `(?s)\(PreCreateCheck\).*\(Create\).*Creating Digital Ocean droplet`, string(j.state()[state.LogKey]), "words below their call")
	require.LessOrEqual(t, j.writes(), 4, "intent, record, end, and that the server could not be logged in to")
	j.requireNoSecrets(j.secret(), "MARKER-join-token-1234")

	j.mustRemove()
	j.requireNoSecrets(j.secret())
	require.Equal(t, state.PhaseGone, j.journal())
	j.mustRemove()
}

func TestCreate_again_takes_the_server(t *testing.T) {
	t.Parallel()
	j := withBootstrap(newJob(t, "digitalocean"))
	j.mustCreate()
	first := j.droplets(false)[0].ID
	j.mustCreate()
	require.Len(t, j.droplets(true), 1)
	require.Equal(t, first, j.droplets(false)[0].ID)
	server, err := state.ReadServer(j.state())
	require.NoError(t, err)
	require.Equal(t, "digitalocean://"+first, server.ProviderID)
	j.mustRemove()
}

func TestCreate_failures(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, reason, class string
		prepare             func(*job)
		journal             state.Phase
	}{
		{name: "token revoked", reason: "PreCreateCheckFailed", class: rkev1.ClassUnauthorized, prepare: func(j *job) {
			j.fault("GET /v2/regions", fault.Unauthorized, 0)
		}},
		{name: "region unknown", reason: "PreCreateCheckFailed", class: rkev1.ClassInvalid, prepare: func(j *job) {
			j.request.Options["digitalocean-region"] = "nowhere"
		}},
		{name: "no such option", reason: "OptionsInvalid", class: rkev1.ClassInvalid, prepare: func(j *job) {
			j.request.Options["digitalocean-colour"] = "red"
		}},
		{name: "credential missing", reason: "OptionsInvalid", class: rkev1.ClassInvalid, prepare: func(j *job) { j.request.CredentialEnv = nil }},
		{name: "quota", reason: "CreateFailed", class: rkev1.ClassQuota, journal: state.PhaseGone, prepare: func(j *job) {
			j.fault(fault.CreateDroplet, fault.Quota, 0)
		}},
		{name: "throttled", reason: "CreateFailed", class: rkev1.ClassThrottled, journal: state.PhaseGone, prepare: func(j *job) {
			j.fault(fault.CreateDroplet, fault.RateLimited(time.Second), 0)
		}},
		{name: "cloud down", reason: "CreateFailed", class: rkev1.ClassTransient, journal: state.PhaseGone, prepare: func(j *job) {
			j.fault(fault.CreateDroplet, fault.Effect{Status: http.StatusServiceUnavailable}, 0)
		}},
		{name: "user data too large", reason: "UserDataTooLarge", class: rkev1.ClassInvalid, prepare: func(j *job) {
			j.request.Files = map[string][]byte{"digitalocean-userdata": []byte("#cloud-config\nx: " + strings.Repeat("y", 70<<10))}
		}},
		{name: "size sold out", reason: "CreateFailed", class: rkev1.ClassCapacity, journal: state.PhaseGone, prepare: func(j *job) {
			j.fault(fault.CreateDroplet, fault.Refused("Size is not available in this region."), 0)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "digitalocean")
			c.prepare(j)
			code, result := j.run(t.Context(), state.Create)
			require.Equal(t, operation.ExitFailed, code)
			require.Equal(t, c.reason, result.Reason, j.output.String())
			require.Equal(t, c.class, result.Class, result.Message)
			require.Equal(t, c.journal, j.journal())
			require.False(t, result.ServerMayExist)
			require.False(t, result.Made, "it cost nothing")
			require.Equal(t, c.journal == "", state.Of(j.state()).NothingMade())
			j.requireNothingLeft()
			j.requireNoSecrets(j.secret())
			t.Log(result.Message)

			// The next attempt, with nothing in its way, makes one server.
			j.clearFaults()
			again := newJob(t, "digitalocean")
			again.client, again.request.Machine, again.request.InstanceName = j.client, j.request.Machine, j.request.InstanceName
			again.request.Tags, again.request.Attempt = j.request.Tags, 2
			again.mustCreate()
			require.Len(t, again.droplets(false), 1)
			again.mustRemove()
		})
	}
}

func TestCreate_answer_lost(t *testing.T) {
	t.Parallel()
	for name, effect := range map[string]fault.Effect{
		"connection": fault.AnswerLost, "error": {Status: http.StatusInternalServerError, After: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := withBootstrap(newJob(t, "digitalocean"))
			j.fault(fault.CreateDroplet, effect, 1)
			result := j.mustCreate()
			require.Contains(t, strings.Join(result.Notes, "\n"), "response was lost")
			require.Len(t, j.droplets(true), 1, "found by its tag, not made again")
			server, err := state.ReadServer(j.state())
			require.NoError(t, err)
			require.NotEmpty(t, server.ProviderID)
			require.NotEmpty(t, server.SSHHost)
			j.mustRemove()
		})
	}
}

// TestCreate_answer_and_finder_lost: the answer is lost, and the cloud cannot be asked for a while.
func TestCreate_answer_and_finder_lost(t *testing.T) {
	t.Parallel()
	j := withBootstrap(newJob(t, "digitalocean"))
	j.fault(fault.CreateDroplet, fault.AnswerLost, 1)
	// The look before the create has two requests: by tag, and for droplets with GPUs.
	j.faultAfter(2, "GET /v2/droplets", fault.Effect{Status: http.StatusBadGateway}, 0)
	code, result := j.run(t.Context(), state.Create)
	require.Equal(t, operation.ExitFailed, code)
	require.True(t, result.ServerMayExist)
	require.Equal(t, state.PhaseIntent, j.journal())
	require.Len(t, j.droplets(false), 1)

	j.clearFaults()
	j.mustCreate()
	require.Len(t, j.droplets(true), 1, "the key was kept, so the server is taken")
	j.mustRemove()
}

// TestCreate_crash loses the pod at each of its writes; whatever happens, there is one server in the end.
func TestCreate_crash(t *testing.T) {
	t.Parallel()
	for write := 1; write <= 3; write++ {
		t.Run(string(rune('0'+write)), func(t *testing.T) {
			t.Parallel()
			j := withBootstrap(newJob(t, "digitalocean"))
			restore := j.crashAt(write)
			j.request.Operation = state.Create
			j.runCrashing(t.Context())
			restore()
			j.mustCreate()
			require.Len(t, j.droplets(false), 1)
			j.mustRemove()
		})
	}
}

// TestRemove_after_crash: the pod is lost right after the cloud made the server.
func TestRemove_after_crash(t *testing.T) {
	t.Parallel()
	j := withBootstrap(newJob(t, "digitalocean"))
	restore := j.crashAt(2)
	j.runCrashing(t.Context())
	restore()
	require.Equal(t, state.PhaseIntent, j.journal())
	require.Len(t, j.droplets(false), 1)
	j.mustRemove()
}

func TestCreate_cancelled(t *testing.T) {
	t.Parallel()
	j := withBootstrap(newJob(t, "digitalocean"))
	// The driver polls for an address every five seconds until the droplet has one.
	j.fault(fault.CreateDroplet, fault.NeverBoots, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	j.whenJournaled(state.PhaseRecorded, cancel)
	start := time.Now()
	code, result := j.run(ctx, state.Create)
	require.Equal(t, operation.ExitCancelled, code)
	require.Equal(t, state.Cancelled, result.Outcome)
	require.True(t, result.ServerMayExist)
	require.Less(t, time.Since(start), time.Minute, "a driver that waits for ever is not waited for")
	require.Len(t, j.droplets(false), 1)
	j.mustRemove()
}

// TestCreate_cancelled_while_the_cloud_answers: the request is on its way when the pod is told to end.
func TestCreate_cancelled_while_the_cloud_answers(t *testing.T) {
	t.Parallel()
	j := newJob(t, "digitalocean")
	j.fault(fault.CreateDroplet, fault.Effect{Latency: time.Minute}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		j.awaitFault(ctx)
	}()
	code, result := j.run(ctx, state.Create)
	require.Equal(t, operation.ExitCancelled, code, j.output.String())
	require.True(t, result.ServerMayExist)
	j.clearFaults()
	j.mustRemove()
}

func TestCreate_server_gone(t *testing.T) {
	t.Parallel()
	j := withBootstrap(newJob(t, "digitalocean"))
	j.mustCreate()
	first := j.droplets(false)[0]
	_, err := theCloud.Client(theCloud.Token()).Droplets.Delete(t.Context(), atoi(t, first.ID))
	require.NoError(t, err)
	j.mustCreate()
	require.NotEqual(t, first.ID, j.droplets(false)[0].ID)
	j.mustRemove()
}

// TestCreate_state_lost: the state Secret was emptied; the server is found by its tag, but its key is lost.
func TestCreate_state_lost(t *testing.T) {
	t.Parallel()
	j := withBootstrap(newJob(t, "digitalocean"))
	j.mustCreate()
	j.emptyState()
	j.mustCreate()
	require.Len(t, j.droplets(false), 1)
	require.Len(t, j.droplets(true), 2)
	j.mustRemove()
}

func TestCreate_takes_a_machine_over_from_Rancher(t *testing.T) {
	t.Parallel()
	j := withBootstrap(newJob(t, "digitalocean"))
	j.mustCreate()
	archive := j.state()[state.ExtractedConfigKey]
	files, err := sshkeys.ReadArchive(archive)
	require.NoError(t, err)
	moved, err := sshkeys.WriteArchive("/home/somebody/.docker/machine/machines", files)
	require.NoError(t, err)
	j.emptyState()
	j.setState(state.ExtractedConfigKey, moved)
	j.mustCreate()
	require.Len(t, j.droplets(true), 1)
	j.mustRemove()
}

func TestCreate_with_credentials_that_changed(t *testing.T) {
	t.Parallel()
	j := newJob(t, "digitalocean")
	old := "old-" + j.request.Machine.UID
	secret, err := theCloud.Tokens.Add(old)
	require.NoError(t, err)
	j.request.CredentialEnv["DIGITALOCEAN_ACCESS_TOKEN"] = secret
	j.mustCreate()
	require.NoError(t, theCloud.Tokens.Revoke(old))
	code, result := j.run(t.Context(), state.Remove)
	require.Equal(t, operation.ExitFailed, code)
	require.Equal(t, rkev1.ClassUnauthorized, result.Class)
	require.True(t, result.ServerMayExist)
	j.request.CredentialEnv["DIGITALOCEAN_ACCESS_TOKEN"] = theCloud.Token()
	j.mustRemove()
}

// The key is ours before the cloud knows it: a pod that dies right after asking for a server leaves one that can be taken.
func TestCreate_bringsAKeyThatIsKeptBeforeTheCloudKnowsIt(t *testing.T) {
	t.Parallel()
	j := newJob(t, "digitalocean")
	j.fault(fault.CreateDroplet, fault.AnswerLost, 1)
	var kept []byte
	j.client.PrependReactor("patch", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if patch := action.(clienttesting.PatchAction).GetPatch(); kept == nil {
			kept = patch
		}
		return false, nil, nil
	})
	j.mustCreate()
	data := j.state()
	require.True(t, strings.HasPrefix(string(data[state.SSHPublicKeyKey]), "ssh-ed25519 "), "%s", data[state.SSHPublicKeyKey])

	var first struct {
		Data map[string][]byte `json:"data"`
	}
	require.NoError(t, json.Unmarshal(kept, &first))
	files, err := sshkeys.ReadArchive(first.Data[state.ExtractedConfigKey])
	require.NoError(t, err)
	at := slices.IndexFunc(files, func(f sshkeys.File) bool { return path.Base(f.Path) == "id_rsa" })
	require.GreaterOrEqual(t, at, 0)
	require.Equal(t, string(data[state.SSHPrivateKeyKey]), string(files[at].Content), "the first write, before the cloud is asked, has the key")
	require.Len(t, j.droplets(true), 1, "the server whose answer was lost is the one that is kept")
	j.mustRemove()
}
