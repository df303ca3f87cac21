package operation_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation"
	"github.com/drover-project/drover/state"
)

// builtPlugin is the driver of e2e/plugin, as a file of its own.
var builtPlugin = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "plugin")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	name := filepath.Join(dir, "docker-machine-driver-drovertest")
	if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", name, "../../e2e/plugin").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return os.ReadFile(name)
})

func buildPlugin(t *testing.T) []byte {
	t.Helper()
	content, err := builtPlugin()
	require.NoError(t, err)
	return content
}

// probe runs the three stages as the containers of a pod.
type probe struct {
	*job
	pod string
}

func newProbe(t *testing.T, content []byte) *probe {
	t.Helper()
	j := newJob(t, "drovertest")
	sum := sha256.Sum256(content)
	name := "drivers/" + j.request.Machine.UID
	theCloud.Files.Put(name, content)
	j.request = jobrunner.Request{
		Operation: state.Probe, Attempt: 1, Namespace: "team", StateSecret: stateName,
		Driver: state.DriverRef{Name: "drovertest", URL: "https://" + cloud.FilesHost + "/" + name, Checksum: hex.EncodeToString(sum[:])},
	}
	return &probe{job: j, pod: t.TempDir()}
}

func (p *probe) stage(name string) int {
	p.t.Helper()
	content, err := json.Marshal(p.request)
	require.NoError(p.t, err)
	for _, dir := range []string{"fetched", "flags", "tmp", "request"} {
		require.NoError(p.t, os.MkdirAll(filepath.Join(p.pod, dir), 0o700))
	}
	require.NoError(p.t, os.WriteFile(filepath.Join(p.pod, "request", jobrunner.RequestKey), content, 0o600))
	return operation.Run(p.t.Context(), operation.Options{
		Operation: state.Probe, Stage: name, RequestDir: filepath.Join(p.pod, "request"), Home: p.pod, TempDir: filepath.Join(p.pod, "tmp"),
		FetchedDir: filepath.Join(p.pod, "fetched"), FlagsDir: filepath.Join(p.pod, "flags"), Env: os.Environ(), Output: p.output,
		Core: func() (corev1client.CoreV1Interface, error) {
			require.NotEqual(p.t, jobrunner.StageFlags, name, "the driver's stage has no token")
			return p.client.CoreV1(), nil
		},
	})
}

func (p *probe) run() (int, state.Result) {
	p.t.Helper()
	require.Equal(p.t, operation.ExitSucceeded, p.stage(jobrunner.StageFetch), p.output.String())
	require.Equal(p.t, operation.ExitSucceeded, p.stage(jobrunner.StageFlags), p.output.String())
	code := p.stage(jobrunner.StageReport)
	result, err := state.ReadResult(p.state(), state.ResultKey)
	require.NoError(p.t, err)
	return code, result
}

func TestProbe(t *testing.T) {
	t.Parallel()
	content := buildPlugin(t)
	p := newProbe(t, content)
	code, result := p.run()
	require.Equal(t, operation.ExitSucceeded, code, p.output.String())
	sum := sha256.Sum256(content)
	require.Equal(t, hex.EncodeToString(sum[:]), result.Probe.Digest)
	flags, err := crdgen.DecodeFlags(result.Probe.Flags)
	require.NoError(t, err)
	require.Contains(t, flags, crdgen.Flag{Name: "drovertest-ssh-port", Usage: "SSH port", EnvVar: "DROVERTEST_SSH_PORT", Type: crdgen.Int, Default: int64(22)})

	// The driver is run from the cache from now on, whatever its address serves.
	j := newJob(t, "drovertest")
	j.client = p.client
	j.emptyState()
	j.request.Driver = state.DriverRef{Name: "drovertest", Digest: result.Probe.Digest, URL: "https://" + cloud.FilesHost + "/gone", Checksum: "00"}
	j.request.CredentialEnv = map[string]string{"DROVERTEST_TOKEN": theCloud.Token()}
	j.request.Options = map[string]any{"drovertest-tag": []any{"one", "two"}}
	j.mustCreate()
	droplet := j.droplets(false)[0]
	require.ElementsMatch(t, []string{"one", "two", "made-by-drovertest"}, droplet.Tags, "a list's default is kept")
	j.requireNoSecrets(theCloud.Token())
	code, removed := j.run(t.Context(), state.Remove)
	require.Equal(t, operation.ExitSucceeded, code, removed.Message)
	require.Empty(t, j.droplets(false))
}

func TestProbe_failures(t *testing.T) {
	t.Parallel()
	silent, err := os.ReadFile("/bin/true")
	require.NoError(t, err)
	cases := []struct {
		name, reason, class string
		content             []byte
		change              func(*probe)
	}{
		{name: "another checksum", reason: v3.ChecksumMismatchReason, class: rkev1.ClassInvalid, content: silent,
			change: func(p *probe) { p.request.Driver.Checksum = "deadbeef" + p.request.Driver.Checksum[8:] }},
		{name: "nothing there", reason: v3.DownloadFailedReason, class: rkev1.ClassInvalid, content: silent,
			change: func(p *probe) { p.request.Driver.URL += "-missing" }},
		{name: "a web page", reason: v3.NotADriverReason, class: rkev1.ClassInvalid, content: []byte("<!DOCTYPE html><html>log in</html>")},
		{name: "a program that is no driver", reason: "DriverUnresponsive", class: rkev1.ClassInvalid, content: silent},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProbe(t, c.content)
			if c.change != nil {
				c.change(p)
			}
			code, result := p.run()
			require.Equal(t, operation.ExitFailed, code)
			require.Equal(t, c.reason, result.Reason, result.Message)
			require.Equal(t, c.class, result.Class)
			require.NotEmpty(t, result.Message)
		})
	}
}

// TestProbe_mute: a driver that starts, and does not tell its flags, is told apart from one that does not start.
func TestProbe_mute(t *testing.T) {
	t.Parallel()
	silent, err := os.ReadFile("/bin/true")
	require.NoError(t, err)
	p := newProbe(t, silent)
	require.Equal(t, operation.ExitSucceeded, p.stage(jobrunner.StageFetch), p.output.String())
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(p.pod, "fetched", "fetched.json"), []byte(`{"path":"`+self+`"}`), 0o600))
	p.request.Driver.Name = "mute"
	require.Equal(t, operation.ExitSucceeded, p.stage(jobrunner.StageFlags), p.output.String())
	require.Equal(t, operation.ExitFailed, p.stage(jobrunner.StageReport))
	result, err := state.ReadResult(p.state(), state.ResultKey)
	require.NoError(t, err)
	require.Equal(t, "DriverUnresponsive", result.Reason)
	require.Equal(t, "the driver started but did not return its flags: the driver does not respond: its process ended during GetCreateFlags", result.Message)
}

// TestProbe_distrusts_the_drivers_stage: whatever the driver leaves in its directory, the last stage with its token reads
// plain files of bounded size only.
func TestProbe_distrusts_the_drivers_stage(t *testing.T) {
	t.Parallel()
	silent, err := os.ReadFile("/bin/true")
	require.NoError(t, err)
	secret := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(secret, []byte(`[{"name":"MARKER-token","type":"string"}]`), 0o600))
	cases := map[string]struct {
		leave  func(dir string) error
		reason string
	}{
		"a link to our token": {leave: func(dir string) error { return os.Symlink(secret, filepath.Join(dir, "flags.json")) }, reason: "DriverUnresponsive"},
		"a link as failure":   {leave: func(dir string) error { return os.Symlink(secret, filepath.Join(dir, "failure.json")) }, reason: "DriverUnresponsive"},
		"nonsense":            {leave: func(dir string) error { return os.WriteFile(filepath.Join(dir, "flags.json"), []byte("MARKER"), 0o600) }, reason: "FlagsInvalid"},
		"too many flags": {leave: func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "flags.json"), make([]byte, 3<<20), 0o600)
		}, reason: "DriverUnresponsive"},
		"a reason of another stage": {leave: func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "failure.json"), []byte(`{"reason":"ServerMayExist","class":"Quota","message":"x"}`), 0o600)
		}, reason: "DriverUnresponsive"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProbe(t, silent)
			require.Equal(t, operation.ExitSucceeded, p.stage(jobrunner.StageFetch), p.output.String())
			require.NoError(t, c.leave(filepath.Join(p.pod, "flags")))
			require.Equal(t, operation.ExitFailed, p.stage(jobrunner.StageReport))
			result, err := state.ReadResult(p.state(), state.ResultKey)
			require.NoError(t, err)
			require.Equal(t, c.reason, result.Reason)
			require.Equal(t, rkev1.ClassInvalid, result.Class)
			require.NotContains(t, result.Message, "MARKER")
		})
	}
}
