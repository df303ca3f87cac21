package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rancher/machine/libmachine/drivers/plugin/localbinary"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/install"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
	"github.com/drover-project/drover/testkit/access"
)

// theCloud is found by drivers through the process's proxy settings, which Go reads once.
var theCloud *cloud.Cloud

// TestMain makes this binary the plugin of the built-in drivers too, and the whole program where asMachine is set.
func TestMain(m *testing.M) {
	if os.Getenv(localbinary.PluginEnvKey) == localbinary.PluginEnvVal || os.Getenv(asMachine) != "" {
		main()
		return
	}
	if err := startCloud(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testkit.Main(m, testkit.WithCleanup(stopCloud))
}

func stopCloud() error {
	return errors.Join(theCloud.Close(), os.RemoveAll(filepath.Dir(theCloud.CAFile())))
}

func startCloud() error {
	dir, err := os.MkdirTemp("", "cmd-machine")
	if err == nil {
		theCloud, err = cloud.New(cloud.Options{StateDir: dir})
	}
	if err == nil {
		err = theCloud.Start(context.Background())
	}
	if err != nil {
		return fmt.Errorf("starting the local cloud: %w", err)
	}
	for _, pair := range theCloud.Environment() {
		name, value, _ := strings.Cut(pair, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

// worker runs tasks as the Job's pod does: with the token of the task's own service account.
type worker struct {
	*testing.T
	admin    client.Client
	recorder *access.Recorder
	dir      string
}

func newWorker(t *testing.T) *worker {
	t.Helper()
	p := &worker{T: t, admin: testkit.Client(t, clientgoscheme.Scheme), recorder: access.NewRecorder(t, testkit.Config(t)), dir: t.TempDir()}
	require.NoError(t, install.Objects(t.Context(), p.admin, nil))
	return p
}

// core is what the task's token reaches.
func (p *worker) core(task jobrunner.Task) corev1client.CoreV1Interface {
	p.Helper()
	admin, err := kubernetes.NewForConfig(testkit.Config(p))
	require.NoError(p, err)
	account := jobrunner.ServiceAccount(task)
	token, err := admin.CoreV1().ServiceAccounts(account.Namespace).CreateToken(p.Context(), account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(p, err)
	clients, err := kubernetes.NewForConfig(p.recorder.Config(token.Status.Token))
	require.NoError(p, err)
	return clients.CoreV1()
}

// give makes what the controller makes before the Job.
func (p *worker) give(task jobrunner.Task) {
	p.Helper()
	secret, err := jobrunner.StateSecret(task)
	require.NoError(p, err)
	if task.Request.Operation == state.Probe {
		secret = jobrunner.ResultSecret(task)
	}
	secret.Finalizers = nil // nobody is here to take it away
	for _, obj := range []client.Object{secret, jobrunner.ServiceAccount(task), jobrunner.Role(task), jobrunner.RoleBinding(task)} {
		require.NoError(p, client.IgnoreAlreadyExists(p.admin.Create(p.Context(), obj)))
	}
}

// run does one operation, or one stage of a probe.
func (p *worker) run(task jobrunner.Task, stage string) {
	p.Helper()
	content, err := json.Marshal(task.Request)
	require.NoError(p, err)
	self, err := os.Executable()
	require.NoError(p, err)
	options := operation.Options{Operation: task.Request.Operation, Stage: stage, Self: self, Env: driverEnvironment(os.Environ()), Output: io.Discard,
		RequestDir: p.folder("request"), Home: p.folder("home"), TempDir: p.folder("tmp"), FetchedDir: p.folder("fetched"), FlagsDir: p.folder("flags"),
		Core: func() (corev1client.CoreV1Interface, error) { return p.core(task), nil }}
	require.NoError(p, os.WriteFile(filepath.Join(options.RequestDir, jobrunner.RequestKey), content, 0o600))
	output := &strings.Builder{}
	options.Output = output
	require.Equal(p, operation.ExitSucceeded, operation.Run(p.Context(), options), output)
}

func (p *worker) folder(name string) string {
	p.Helper()
	dir := filepath.Join(p.dir, name)
	require.NoError(p, os.MkdirAll(dir, 0o700))
	return dir
}

// probeTask probes the driver of e2e/plugin; a damaged part of it is in the cache already.
func probeTask(t *testing.T, p *worker) jobrunner.Task {
	t.Helper()
	name := filepath.Join(t.TempDir(), "docker-machine-driver-drovertest")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", name, "../../e2e/plugin").CombinedOutput()
	require.NoError(t, err, string(out))
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	theCloud.Files.Put("drovertest", content)
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	damaged := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: driver.CacheNamespace, Name: driver.CachePartName(digest, 0)}}
	require.NoError(t, p.admin.Create(t.Context(), damaged))
	return jobrunner.Task{Request: jobrunner.Request{Operation: state.Probe, Attempt: 1, Namespace: driver.CacheNamespace, StateSecret: "probe-drovertest-result",
		Driver: state.DriverRef{Name: "drovertest", URL: "https://" + cloud.FilesHost + "/drovertest", Checksum: digest, Digest: digest}}}
}

// machineTask makes or removes a server with the driver in the cache.
func machineTask(namespace string, kind state.Operation, digest string) jobrunner.Task {
	return jobrunner.Task{Request: jobrunner.Request{Operation: kind, Attempt: 1, Namespace: namespace, StateSecret: jobrunner.StateSecretName("m"),
		Machine: jobrunner.MachineRef{Namespace: namespace, Name: "m", UID: "u-1", Kind: "DrovertestMachine"}, InstanceName: "m",
		Driver: state.DriverRef{Name: "drovertest", Digest: digest}, CredentialEnv: map[string]string{"DROVERTEST_TOKEN": theCloud.Token()}, SSHTimeoutSeconds: 1}}
}

// TestJobRoles: with the rights of its own service account a Job does all that it has to, and it has no right that it does
// not use.
func TestJobRoles(t *testing.T) {
	p := newWorker(t)
	probe := probeTask(t, p)
	p.give(probe)
	for _, stage := range []string{jobrunner.StageFetch, jobrunner.StageFlags, jobrunner.StageReport} {
		p.run(probe, stage)
	}
	require.Empty(t, p.recorder.Refused())
	got := access.Compare(access.Grants(jobrunner.Role(probe).Rules), p.recorder.Uses())
	require.Equal(t, access.Difference{}, got, "the Role of a probe is not what it uses")

	namespace := testkit.Namespace(t)
	p.recorder = access.NewRecorder(t, testkit.Config(t))
	create, remove := machineTask(namespace, state.Create, probe.Request.Driver.Digest), machineTask(namespace, state.Remove, probe.Request.Driver.Digest)
	p.give(create)
	p.run(create, "")
	p.run(remove, "")
	require.Empty(t, p.recorder.Refused())
	reader := access.Grant{Verb: "get", Resource: "configmaps"} // of the Role of install.DriversReaderName
	got = access.Compare(append(access.Grants(jobrunner.Role(create).Rules), reader), p.recorder.Uses())
	require.Equal(t, access.Difference{}, got, "the Role of a machine is not what its Jobs use")
}

// TestJobToken_reachesNothingElse: a driver that gets hold of its Job's token cannot do more with it than the Job.
func TestJobToken_reachesNothingElse(t *testing.T) {
	p := newWorker(t)
	namespace, other := testkit.Namespace(t), testkit.Namespace(t)
	task := machineTask(namespace, state.Create, "")
	p.give(task)
	p.give(machineTask(other, state.Create, ""))
	core, own := p.core(task), task.Request.StateSecret
	_, err := core.Secrets(namespace).Get(t.Context(), own, metav1.GetOptions{})
	require.NoError(t, err, "its own state")
	secrets := core.Secrets(namespace)
	for name, try := range map[string]func() error{
		"another Secret of its namespace": func() error { _, err := secrets.Get(t.Context(), "cred", metav1.GetOptions{}); return err },
		"all Secrets of its namespace":    func() error { _, err := secrets.List(t.Context(), metav1.ListOptions{}); return err },
		"the state of another machine":    func() error { _, err := core.Secrets(other).Get(t.Context(), own, metav1.GetOptions{}); return err },
		"its own state, to delete it":     func() error { return secrets.Delete(t.Context(), own, metav1.DeleteOptions{}) },
		"a token of another account": func() error {
			_, err := core.ServiceAccounts(namespace).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			return err
		},
		"a pod of its own": func() error {
			_, err := core.Pods(namespace).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
			return err
		},
		"the cached drivers, to change one": func() error {
			return core.ConfigMaps(driver.CacheNamespace).Delete(t.Context(), "driver-x-0", metav1.DeleteOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) { require.True(t, apierrors.IsForbidden(try()), "%v", try()) })
	}
}
