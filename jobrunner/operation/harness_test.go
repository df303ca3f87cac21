package operation_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rancher/machine/drivers/digitalocean"
	"github.com/rancher/machine/drivers/generic"
	"github.com/rancher/machine/drivers/none"
	"github.com/rancher/machine/drivers/vmwarevsphere"
	"github.com/rancher/machine/libmachine/drivers"
	"github.com/rancher/machine/libmachine/drivers/plugin"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"

	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation"
	"github.com/drover-project/drover/jobrunner/operation/isoimage"
	ourplugin "github.com/drover-project/drover/jobrunner/operation/plugin"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
)

// theCloud is the local cloud of all tests: the driver and the finder find it through the process's proxy settings, which Go
// reads once.
var theCloud *cloud.Cloud

// TestMain makes this binary the plugin of its drivers too, as cmd/machine is.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == isoimage.Program {
		writeImage()
		return
	}
	if name := os.Getenv("MACHINE_PLUGIN_DRIVER_NAME"); os.Getenv("MACHINE_PLUGIN_TOKEN") != "" {
		serveDriver(name)
		return
	}
	os.Exit(runTests(m))
}

func serveDriver(name string) {
	switch name {
	case "digitalocean":
		plugin.RegisterDriver(digitalocean.NewDriver("", ""))
	case "generic", "pool":
		plugin.RegisterDriver(generic.NewDriver("", ""))
	case "none":
		plugin.RegisterDriver(none.NewDriver("", ""))
	case "vmwarevsphere":
		if err := ourplugin.Serve(vmwarevsphere.NewDriver("", ""), os.Stdout); err == nil {
			os.Exit(0)
		}
	case "amazonec2":
		plugin.RegisterDriver(&taggingDriver{foreignDriver: &foreignDriver{BaseDriver: &drivers.BaseDriver{}, Name: name}})
	case "slow", "mute", "openstack", "exoscale", "azure", "vmwarevcloudair":
		plugin.RegisterDriver(&foreignDriver{BaseDriver: &drivers.BaseDriver{}, Name: name})
	}
	os.Exit(1)
}

// jobsAtOnce is how many tests run side by side: a Job waits more than it works.
const jobsAtOnce = "12"

func runTests(m *testing.M) int {
	flag.Parse()
	if err := flag.Set("test.parallel", jobsAtOnce); err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "operation")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if theCloud, err = cloud.New(cloud.Options{StateDir: dir}); err == nil {
		err = theCloud.Start(context.Background())
	}
	if err != nil {
		panic(err)
	}
	defer func() { _ = theCloud.Close() }()
	for _, variable := range theCloud.Environment() {
		name, value, _ := strings.Cut(variable, "=")
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if refused := theCloud.RefusedDestinations(); code == 0 && len(refused) > 0 {
		panic(fmt.Sprintf("drivers talk to nobody else than their cloud: %q", refused))
	}
	return code
}

// job is one machine's Jobs and what they leave.
type job struct {
	t       *testing.T
	request jobrunner.Request
	data    []byte
	client  *fake.Clientset
	output  *syncBuffer
	home    string
	// self is our own binary, by another name if need be.
	self string
	// markerRoot stands for /var/lib/drover/bootstrap.
	markerRoot string
	// hostsFile stands for /etc/hosts.
	hostsFile string
	// lookup stands for the pod's resolver.
	lookup func(context.Context, string) ([]netip.Addr, error)
	// token names the token of this test, which its faults are for.
	token string
}

const stateName = "m-machine-state"

var jobs atomic.Int64

func newJob(t *testing.T, driver string) *job {
	t.Helper()
	number := jobs.Add(1)
	uid := fmt.Sprintf("uid-%d-%d", time.Now().UnixNano(), number)
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-", ",", "").Replace(t.Name()))
	if len(name) > 60 {
		name = fmt.Sprintf("%s-%d", name[:50], number)
	}
	machine := jobrunner.MachineRef{Namespace: "team", Name: name, UID: uid, Kind: "DigitaloceanMachine", ClusterName: "c1"}
	j := &job{t: t, output: &syncBuffer{}, request: jobrunner.Request{
		Attempt: 1, Machine: machine, Driver: state.DriverRef{Name: driver, Builtin: true}, InstanceName: name,
		Namespace: "team", StateSecret: stateName, Tags: jobrunner.Tags(machine), SSHTimeoutSeconds: 1,
	}}
	if driver == "digitalocean" {
		secret, err := theCloud.Tokens.Add(uid)
		require.NoError(t, err)
		j.token = uid
		j.request.Options = map[string]any{"digitalocean-region": "nyc3", "digitalocean-tags": "mine"}
		j.request.CredentialEnv = map[string]string{"DIGITALOCEAN_ACCESS_TOKEN": secret}
	}
	j.client = fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: stateName}})
	return j
}

// run does the operation in a pod of its own: nothing is left of earlier ones but the state Secret.
func (j *job) run(ctx context.Context, kind state.Operation) (int, state.Result) {
	j.t.Helper()
	j.request.Operation = kind
	pod := j.t.TempDir()
	j.home = filepath.Join(pod, "home")
	request, err := json.Marshal(j.request)
	require.NoError(j.t, err)
	require.NoError(j.t, os.MkdirAll(filepath.Join(pod, "request"), 0o700))
	require.NoError(j.t, os.WriteFile(filepath.Join(pod, "request", jobrunner.RequestKey), request, 0o600))
	require.NoError(j.t, os.WriteFile(filepath.Join(pod, "request", jobrunner.BootstrapKey), j.data, 0o600))
	self := j.self
	if self == "" {
		self, err = os.Executable()
		require.NoError(j.t, err)
	}
	code := operation.Run(ctx, operation.Options{
		Operation: kind, RequestDir: filepath.Join(pod, "request"), Home: j.home, TempDir: filepath.Join(pod, "tmp"), Self: self,
		Env: os.Environ(), Core: func() (corev1client.CoreV1Interface, error) { return j.client.CoreV1(), nil },
		Output: j.output, MarkerRoot: j.markerRoot, HostsFile: j.hostsFile, LookupIP: j.lookup,
	})
	j.request.Attempt++
	result, err := state.ReadResult(j.state(), state.ResultKey)
	require.NoError(j.t, err, j.output.String())
	return code, result
}

func (j *job) mustCreate() state.Result {
	j.t.Helper()
	code, result := j.run(j.t.Context(), state.Create)
	require.Equal(j.t, operation.ExitSucceeded, code, "%s\n%s", result.Message, j.output.String())
	return result
}

func (j *job) mustRemove() state.Result {
	j.t.Helper()
	code, result := j.run(j.t.Context(), state.Remove)
	require.Equal(j.t, operation.ExitSucceeded, code, "%s\n%s", result.Message, j.output.String())
	require.False(j.t, result.ServerMayExist)
	j.requireNothingLeft()
	return result
}

func (j *job) state() map[string][]byte {
	j.t.Helper()
	secret, err := j.client.CoreV1().Secrets("team").Get(context.Background(), stateName, metav1.GetOptions{})
	require.NoError(j.t, err)
	return secret.Data
}

func (j *job) journal() state.Phase {
	j.t.Helper()
	journal, err := state.ReadJournal(j.state())
	if errors.Is(err, state.ErrNoDocument) {
		return ""
	}
	require.NoError(j.t, err)
	return journal.Phase
}

// droplets are those that carry the machine's tag; ever includes those that are gone.
func (j *job) droplets(ever bool) []ledger.Record {
	var out []ledger.Record
	records := theCloud.Ledger.Live(ledger.KindDroplet)
	if ever {
		records = theCloud.Ledger.Records()
	}
	for _, record := range records {
		if record.Kind == ledger.KindDroplet && record.Name == j.request.InstanceName {
			out = append(out, record)
		}
	}
	return out
}

func (j *job) requireNothingLeft() {
	j.t.Helper()
	require.Empty(j.t, j.droplets(false))
	for _, record := range theCloud.Ledger.Live(ledger.KindKey) {
		require.NotEqual(j.t, j.request.InstanceName, record.Name, "the SSH key is left at the cloud")
	}
}

// fault adds a fault that no other test meets.
func (j *job) fault(match string, effect fault.Effect, count int) {
	j.t.Helper()
	j.faultAfter(0, match, effect, count)
}

func (j *job) faultAfter(skip int, match string, effect fault.Effect, count int) {
	j.t.Helper()
	require.NotEmpty(j.t, j.token)
	_, err := theCloud.Faults.Add(fault.Rule{Token: j.token, Match: match, Skip: skip, Count: count, Effect: effect})
	require.NoError(j.t, err)
}

// awaitFault waits until one of this test's faults has met a request.
func (j *job) awaitFault(ctx context.Context) {
	for ctx.Err() == nil {
		if slices.ContainsFunc(theCloud.Faults.Hits(), func(hit fault.Hit) bool { return hit.Token == j.token }) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (j *job) clearFaults() {
	for _, rule := range theCloud.Faults.List() {
		if rule.Token == j.token {
			theCloud.Faults.Remove(rule.ID)
		}
	}
}

// secret is the token of this test.
func (j *job) secret() string { return j.request.CredentialEnv["DIGITALOCEAN_ACCESS_TOKEN"] }

func (j *job) writes() int {
	count := 0
	for _, action := range j.client.Actions() {
		if action.GetVerb() == "patch" || action.GetVerb() == "update" {
			count++
		}
	}
	return count
}

// requireNoSecrets searches every surface that is not the state Secret's own keys for them.
func (j *job) requireNoSecrets(secrets ...string) {
	j.t.Helper()
	data := maps.Clone(j.state())
	private := string(data[state.SSHPrivateKeyKey])
	delete(data, state.SSHPrivateKeyKey)
	surfaces := map[string]string{"log": j.output.String()}
	for key, value := range data {
		surfaces[key] = string(value)
		if key != state.ExtractedConfigKey {
			continue
		}
		files, err := sshkeys.ReadArchive(value)
		require.NoError(j.t, err)
		for _, file := range files {
			if strings.HasSuffix(file.Path, "config.json") {
				surfaces[key] = string(file.Content)
			}
		}
	}
	for name, text := range surfaces {
		for _, secret := range append(secrets, private) {
			if secret != "" {
				require.NotContains(j.t, text, secret, name)
			}
		}
	}
}

type syncBuffer struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.buffer.String()
}

// crashAt makes the pod's writes fail for ever from the nth on, as when its node is lost at that moment.
func (j *job) crashAt(n int) (restore func()) {
	count, broken := 0, true
	j.client.PrependReactor("patch", "secrets", func(clienttesting.Action) (bool, runtimeObject, error) {
		if !broken {
			return false, nil, nil
		}
		if count++; count >= n {
			return true, nil, forbidden()
		}
		return false, nil, nil
	})
	return func() { broken = false }
}

// runCrashing runs a create whose last words are lost.
func (j *job) runCrashing(ctx context.Context) {
	j.t.Helper()
	defer func() { j.request.Attempt++ }()
	j.request.Operation = state.Create
	pod := j.t.TempDir()
	request, err := json.Marshal(j.request)
	require.NoError(j.t, err)
	require.NoError(j.t, os.WriteFile(filepath.Join(pod, jobrunner.RequestKey), request, 0o600))
	require.NoError(j.t, os.WriteFile(filepath.Join(pod, jobrunner.BootstrapKey), j.data, 0o600))
	self, err := os.Executable()
	require.NoError(j.t, err)
	code := operation.Run(ctx, operation.Options{
		Operation: state.Create, RequestDir: pod, Home: filepath.Join(pod, "home"), TempDir: filepath.Join(pod, "tmp"), Self: self, Env: os.Environ(),
		Core:   func() (corev1client.CoreV1Interface, error) { return j.client.CoreV1(), nil },
		Output: j.output,
	})
	require.Equal(j.t, operation.ExitFailed, code, j.output.String())
}

func (j *job) emptyState() {
	j.t.Helper()
	secret, err := j.client.CoreV1().Secrets("team").Get(context.Background(), stateName, metav1.GetOptions{})
	require.NoError(j.t, err)
	secret.Data = nil
	_, err = j.client.CoreV1().Secrets("team").Update(context.Background(), secret, metav1.UpdateOptions{})
	require.NoError(j.t, err)
}

func (j *job) setState(key string, value []byte) {
	j.t.Helper()
	secret, err := j.client.CoreV1().Secrets("team").Get(context.Background(), stateName, metav1.GetOptions{})
	require.NoError(j.t, err)
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[key] = value
	_, err = j.client.CoreV1().Secrets("team").Update(context.Background(), secret, metav1.UpdateOptions{})
	require.NoError(j.t, err)
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	number, err := strconv.Atoi(text)
	require.NoError(t, err)
	return number
}

// whenJournaled calls act as soon as the pod writes that it has reached a phase.
func (j *job) whenJournaled(phase state.Phase, act func()) {
	j.client.PrependReactor("patch", "secrets", func(action clienttesting.Action) (bool, runtimeObject, error) {
		if strings.Contains(string(patched(action)[state.JournalKey]), string(phase)) {
			act()
		}
		return false, nil, nil
	})
}

// patched is what a patch writes into a Secret.
func patched(action clienttesting.Action) map[string][]byte {
	var body struct{ Data map[string][]byte }
	if patch, ok := action.(clienttesting.PatchAction); !ok || json.Unmarshal(patch.GetPatch(), &body) != nil {
		return nil
	}
	return body.Data
}
