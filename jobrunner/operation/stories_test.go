package operation_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation"
	"github.com/drover-project/drover/state"
)

// told is what a Job's result says, and how far its journal came.
type told struct {
	reason, class string
	mayExist      bool
	phase         state.Phase
}

// story is a first create in a mode of foreignDriver; then something may happen; then a create with nothing in its way, and a
// remove.
type story struct {
	driver, mode string
	first        told
	// then changes the cloud.
	then   func(c cloudDir)
	second told
	// servers there are after the second create.
	servers int
	removed told
}

// cloudDir is the cloud of foreignDriver.
type cloudDir struct {
	t    *testing.T
	path string
	name string
}

func (c cloudDir) write(file, content string) {
	c.t.Helper()
	require.NoError(c.t, os.WriteFile(filepath.Join(c.path, file), []byte(content), 0o600))
}

func (c cloudDir) remove(file string) {
	c.t.Helper()
	require.NoError(c.t, os.Remove(filepath.Join(c.path, file)))
}

func (c cloudDir) servers() int {
	c.t.Helper()
	if _, err := os.Stat(filepath.Join(c.path, c.name)); err != nil {
		return 0
	}
	return 1
}

var (
	done    = told{mayExist: true, phase: state.PhaseBootstrapped}
	cleared = told{phase: state.PhaseGone}
	// incomplete: the attempt removes what nobody can reach, and the next one makes another.
	incomplete = told{"ServerIncomplete", rkev1.ClassTransient, false, state.PhaseGone}
	// undecided: whoever asks again must not make a second server, and must not say that there is none.
	undecided = told{rkev1.ServerMayExistReason, rkev1.ClassInvalid, true, state.PhaseIntent}
)

func vague(class string) told {
	return told{rkev1.ServerMayExistReason, class, true, state.PhaseRecorded}
}
func refused(class string) told { return told{"CreateFailed", class, false, state.PhaseGone} }
func asked(class string) told {
	return told{rkev1.ServerMayExistReason, class, true, state.PhaseIntent}
}
func known(class string) told { return told{"CreateFailed", class, true, state.PhaseRecorded} }

// refusals: the cloud has made nothing and says so, so that the next attempt starts afresh.
func refusals() map[string]story {
	return map[string]story{
		"openstack, quota": {driver: "openstack", mode: `fail Request forbidden: [POST http://x/servers], error message: {"forbidden": {"message": "Quota exceeded for cores"}}`,
			first: refused(rkev1.ClassQuota), second: done, servers: 1, removed: cleared},
		"openstack, no such image": {driver: "openstack", mode: "fail Unable to find image named none", first: refused(rkev1.ClassInvalid), second: done, servers: 1, removed: cleared},
		"exoscale, too fast": {driver: "exoscale", mode: "fail CreateInstance: http response: Too Many Requests: x",
			first: refused(rkev1.ClassThrottled), second: done, servers: 1, removed: cleared},
		"azure, sold out": {driver: "azure", mode: `fail Code="SkuNotAvailable" Message="x"`, first: refused(rkev1.ClassCapacity), second: done, servers: 1, removed: cleared},
		"azure, an accident before the server": {driver: "azure", mode: `fail Code="InternalServerError" Message="x"`,
			first: refused(rkev1.ClassTransient), second: done, servers: 1, removed: cleared},
		"vcloudair, not composed": {driver: "vmwarevcloudair", mode: "fail error instantiating a new vApp: API Error: 403: no",
			first: refused(rkev1.ClassUnauthorized), second: done, servers: 1, removed: cleared},
		"a driver that cleaned up itself": {driver: "openstack", mode: "noted-gone Instance creation failed. Instance is in ERROR state",
			first: refused(rkev1.ClassTransient), second: done, servers: 1, removed: cleared},
	}
}

// lostAnswers: the cloud may have made a server that nobody can name. There is never a second one, and nobody says that there is none.
func lostAnswers() map[string]story {
	return map[string]story{
		"openstack, an accident": {driver: "openstack", mode: "made Internal Server Error", first: asked(rkev1.ClassTransient), second: asked(rkev1.ClassTransient), servers: 1, removed: undecided},
		"openstack, an accident without a server": {driver: "openstack", mode: "fail Internal Server Error",
			first: asked(rkev1.ClassTransient), second: asked(rkev1.ClassTransient), removed: undecided},
		"exoscale, too fast when it was looked at": {driver: "exoscale", mode: "made GetOperation: http response: Too Many Requests: x",
			first: asked(rkev1.ClassThrottled), second: asked(rkev1.ClassThrottled), servers: 1, removed: undecided},
		"exoscale, no permission to look": {driver: "exoscale", mode: "made GetInstance: http response: Forbidden: x",
			first: asked(rkev1.ClassUnauthorized), second: asked(rkev1.ClassUnauthorized), servers: 1, removed: undecided},
		"vcloudair, a late quota": {driver: "vmwarevcloudair", mode: "made error customizing VM: API Error: 400: exceed the VDC's quota",
			first: asked(rkev1.ClassQuota), second: asked(rkev1.ClassQuota), servers: 1, removed: undecided},
		"vcloudair, the gate at the end": {driver: "vmwarevcloudair", mode: "made error reconfiguring Edge Gateway: API Error: 403: no",
			first: asked(rkev1.ClassUnauthorized), second: asked(rkev1.ClassUnauthorized), servers: 1, removed: undecided},
		"any, refused after its record had changed": {driver: "slow", mode: "vague 403 quota exceeded for addresses",
			first: vague(rkev1.ClassQuota), second: vague(rkev1.ClassQuota), servers: 1, removed: vague(rkev1.ClassInvalid)},
		"any, whose record has no ID yet": {driver: "slow", mode: "vague connection reset by peer",
			first: vague(rkev1.ClassTransient), second: vague(rkev1.ClassTransient), servers: 1, removed: vague(rkev1.ClassInvalid)},
		"a driver whose process ended": {driver: "openstack", mode: "made-die",
			first: asked(rkev1.ClassUnknown), second: asked(rkev1.ClassUnknown), servers: 1, removed: undecided},
	}
}

// keptServers: the create failed, but the server has a name, and the next attempt takes it, or removes it when it is of no use.
func keptServers() map[string]story {
	return map[string]story{
		"openstack, by its id": {driver: "openstack", mode: "noted Instance creation failed. Instance is in ERROR state",
			first: known(rkev1.ClassTransient), second: done, servers: 1, removed: cleared},
		"azure, by its name, of no use without address": {driver: "azure", mode: `made Code="InternalServerError" Message="x"`,
			first: known(rkev1.ClassTransient), second: incomplete, removed: cleared},
		"azure, whose driver ended": {driver: "azure", mode: "made-die",
			first: told{"DriverUnresponsive", rkev1.ClassUnknown, true, state.PhaseRecorded}, second: incomplete, removed: cleared},
		"any, by its changed record": {driver: "slow", mode: "noted something happened", first: known(rkev1.ClassUnknown), second: done, servers: 1, removed: cleared},
		"any, although the class says refused": {driver: "slow", mode: "noted quota exceeded",
			first: known(rkev1.ClassQuota), second: done, servers: 1, removed: cleared},
	}
}

// laterChanges: the server was made, and something happened before the Job ran again.
func laterChanges() map[string]story {
	unseen := func(class string) told { return told{"LookupFailed", class, true, state.PhaseBootstrapped} }
	unremoved := func(class string) told { return told{"RemoveFailed", class, true, state.PhaseRemoving} }
	return map[string]story{
		"nothing":          {driver: "openstack", mode: "good", first: done, second: done, servers: 1, removed: cleared},
		"it was destroyed": {driver: "openstack", mode: "good", first: done, then: func(c cloudDir) { c.remove(c.name) }, second: done, servers: 1, removed: cleared},
		"it was stopped":   {driver: "exoscale", mode: "good", first: done, then: func(c cloudDir) { c.write(c.name, "stopped") }, second: done, servers: 1, removed: cleared},
		"it cannot be seen, for the credential expired": {driver: "openstack", mode: "good", first: done,
			then: func(c cloudDir) {
				c.write(c.name, "error Authentication failed")
				c.write("remove", "Authentication failed")
			},
			second: unseen(rkev1.ClassUnauthorized), servers: 1, removed: unremoved(rkev1.ClassUnauthorized)},
		"it cannot be seen, for the subscription is another": {driver: "azure", mode: "good", first: done,
			then: func(c cloudDir) {
				c.write(c.name, `error Code="SubscriptionNotFound" Message="The subscription 's' could not be found."`)
				c.write("remove", `Code="SubscriptionNotFound" Message="The subscription 's' could not be found."`)
			},
			second: unseen(rkev1.ClassUnauthorized), servers: 1, removed: unremoved(rkev1.ClassUnauthorized)},
		"it cannot be removed, for the cloud is ill": {driver: "openstack", mode: "good", first: done, then: func(c cloudDir) { c.write("remove", "Internal Server Error") },
			second: done, servers: 1, removed: unremoved(rkev1.ClassTransient)},
		"it is not removed, without a word": {driver: "slow", mode: "good", first: done, then: func(c cloudDir) { c.write("remove", "nothing") },
			second: done, servers: 1, removed: unremoved(rkev1.ClassTransient)},
		"its address is not found, but it is there": {driver: "exoscale", mode: "good", first: done,
			then: func(c cloudDir) { c.write("remove", "DeleteIP: http response: Not Found: Elastic IP not found") }, second: done, servers: 1, removed: unremoved(rkev1.ClassTransient)},
	}
}

func TestStories(t *testing.T) {
	t.Parallel()
	for about, stories := range map[string]map[string]story{
		"the cloud refuses": refusals(), "the answer is lost": lostAnswers(), "the server is kept": keptServers(), "later": laterChanges(),
	} {
		for name, s := range stories {
			t.Run(about+"/"+name, s.run)
		}
	}
}

func (s story) run(t *testing.T) {
	t.Parallel()
	j := newJob(t, s.driver)
	c := cloudDir{t: t, path: t.TempDir(), name: j.request.InstanceName}
	j.request.CredentialEnv = map[string]string{"SLOW_DIR": c.path}
	j.request.Options = map[string]any{"slow-mode": s.mode}
	require.Equal(t, s.first, j.tell(state.Create), "the first create\n%s", j.output)
	if s.then != nil {
		s.then(c)
	}
	j.request.Options["slow-mode"] = "good"
	require.Equal(t, s.second, j.tell(state.Create), "the second create\n%s", j.output)
	require.Equal(t, s.servers, c.servers())
	require.Equal(t, s.removed, j.tell(state.Remove), "the remove\n%s", j.output)
	if s.removed == cleared {
		require.Zero(t, c.servers())
		require.Equal(t, cleared, j.tell(state.Remove), "a second remove")
		return
	}
	require.Equal(t, s.servers, c.servers(), "what could not be removed is there")
	j.request.Abandon = true
	given := j.tell(state.Remove)
	require.Equal(t, told{mayExist: true, phase: s.removed.phase}, given, "the user gives it up")
}

// TestStories_looked: once the user has looked, a lost answer keeps a machine no longer; a new one does.
func TestStories_looked(t *testing.T) {
	t.Parallel()
	j := newJob(t, "openstack")
	c := cloudDir{t: t, path: t.TempDir(), name: j.request.InstanceName}
	j.request.CredentialEnv = map[string]string{"SLOW_DIR": c.path}
	j.request.Options = map[string]any{"slow-mode": "fail Internal Server Error"}
	require.Equal(t, asked(rkev1.ClassTransient), j.tell(state.Create), j.output)
	j.request.Looked = 0
	require.Equal(t, asked(rkev1.ClassTransient), j.tell(state.Create), "nobody looked yet")
	j.request.Looked, j.request.Retry = j.request.Attempt-1, "again"
	require.Equal(t, asked(rkev1.ClassTransient), j.tell(state.Create), "it is asked for once more, and that answer is lost too")
	require.Equal(t, asked(rkev1.ClassTransient), j.tell(state.Create), "of which the user knows nothing")
	result, err := state.ReadResult(j.state(), state.ResultKey)
	require.NoError(t, err)
	require.Equal(t, []any{"again", j.request.Looked}, []any{*result.Retry, result.Looked})
	j.request.Looked, j.request.Options["slow-mode"] = j.request.Attempt-1, "good"
	require.Equal(t, done, j.tell(state.Create), j.output)
	require.Equal(t, 1, c.servers())
	require.Equal(t, cleared, j.tell(state.Remove))
}

// tell runs an operation and says what came of it.
func (j *job) tell(kind state.Operation) told {
	j.t.Helper()
	code, result := j.run(j.t.Context(), kind)
	require.Equal(j.t, result.Outcome == state.Succeeded, code == operation.ExitSucceeded)
	require.Equal(j.t, result.Reason == "", result.Message == "", "a failure has words")
	require.NotContains(j.t, result.Message, "\x00")
	require.NotContains(j.t, result.Message, "<nil>")
	return told{result.Reason, result.Class, result.ServerMayExist, j.journal()}
}

// TestStories_checks_before: what the driver's own checks refuse was never asked of the cloud.
func TestStories_checks_before(t *testing.T) {
	t.Parallel()
	for text, class := range map[string]string{
		"Unable to find flavor named huge": rkev1.ClassInvalid, "Authentication failed": rkev1.ClassUnauthorized,
		"The service is currently unable to handle the request due to a temporary overloading or maintenance.": rkev1.ClassTransient,
	} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "openstack")
			c := cloudDir{t: t, path: t.TempDir(), name: j.request.InstanceName}
			c.write("check", text)
			j.request.CredentialEnv = map[string]string{"SLOW_DIR": c.path}
			require.Equal(t, told{reason: "PreCreateCheckFailed", class: class}, j.tell(state.Create))
			require.True(t, state.Of(j.state()).NothingMade())
			require.Equal(t, cleared, j.tell(state.Remove), "nothing to remove")
		})
	}
}

// TestStories_names_decide_nothing: the machine's own name may be a word that tells classes apart.
func TestStories_names_decide_nothing(t *testing.T) {
	t.Parallel()
	j := newJob(t, "slow")
	c := cloudDir{t: t, path: t.TempDir(), name: j.request.InstanceName}
	j.request.CredentialEnv = map[string]string{"SLOW_DIR": c.path}
	j.request.InstanceName = "quota-throttled-unauthorized"
	j.request.Options = map[string]any{"slow-mode": "fail quota-throttled-unauthorized could not be started"}
	require.Equal(t, asked(rkev1.ClassUnknown), j.tell(state.Create))
	require.Contains(t, j.output.String(), "quota-throttled-unauthorized could not be started", "the words are told as they are")
}

// TestStories_panic: what stands in a stack means nothing.
func TestStories_panic(t *testing.T) {
	t.Parallel()
	j := newJob(t, "slow")
	j.request.CredentialEnv = map[string]string{"SLOW_DIR": t.TempDir()}
	j.request.Options = map[string]any{"slow-mode": "fail Panic in the driver: runtime error: x\ngoroutine 1 [running]:\nquota.NotFound(unauthorized.go:401)"}
	require.Equal(t, asked(rkev1.ClassUnknown), j.tell(state.Create))
	require.Equal(t, asked(rkev1.ClassUnknown), j.tell(state.Create))
}

// TestRequest_names that could be other directories, and what else a Job refuses to begin with.
func TestRequest_names(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ request, says string }{
		"no server's name":      {`{"operation":"create","driver":{"name":"none"}}`, "the server's name is not usable"},
		"a path":                {`{"operation":"create","driver":{"name":"none"},"instanceName":"../MARKER"}`, "the server's name is not usable"},
		"a name with a space":   {`{"operation":"remove","driver":{"name":"none"},"instanceName":"a MARKER"}`, "the server's name is not usable"},
		"an endless name":       {`{"operation":"remove","driver":{"name":"none"},"instanceName":"` + strings.Repeat("a", 254) + `"}`, "the server's name is not usable"},
		"a driver's path":       {`{"operation":"create","driver":{"name":"/bin/MARKER"},"instanceName":"a"}`, "the driver's name is not usable"},
		"no driver":             {`{"operation":"create","instanceName":"a"}`, "the driver's name is not usable"},
		"another operation":     {`{"operation":"remove","driver":{"name":"none"},"instanceName":"a"}`, `the request has the operation "remove", the command "create"`},
		"an unknown operation":  {`{"operation":"MARKED","driver":{"name":"none"},"instanceName":"a"}`, `the request has the operation "MARKED", the command "create"`},
		"no JSON":               {`{"MARKER`, "it is not the JSON of a request"},
		"JSON of another thing": {`["MARKER"]`, "it is not the JSON of a request"},
		"nothing":               {``, "it is not the JSON of a request"},
		"too much":              {`{"x":"` + strings.Repeat("y", 2<<20) + `"}`, "request.json is not a regular file of at most 2097152 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, jobrunner.RequestKey), []byte(c.request), 0o600))
			out := &syncBuffer{}
			code := operation.Run(t.Context(), operation.Options{Operation: state.Create, RequestDir: dir, Home: t.TempDir(), Output: out})
			require.Equal(t, operation.ExitUsage, code)
			require.Contains(t, out.String(), c.says)
			require.NotContains(t, out.String(), "MARKER", "what was asked for may be secret")
		})
	}
	out := &syncBuffer{}
	require.Equal(t, operation.ExitUsage, operation.Run(t.Context(), operation.Options{Operation: state.Create, RequestDir: t.TempDir(), Output: out}))
	require.Contains(t, out.String(), "reading the request: open")
}
