package rkebootstrap_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/api/plan"
	"github.com/drover-project/drover/endpoint/agents"
	"github.com/drover-project/drover/testkit"
)

// serve lets the endpoint have the agent of this very source for the world's servers.
func (w *world) serve() {
	w.Helper()
	dir := w.TempDir()
	build := exec.CommandContext(w.Context(), "go", "build", "-ldflags", "-s -w", "-o", filepath.Join(dir, "drover-agent-linux-"+runtime.GOARCH), "../../cmd/agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(w, err, string(out))
	assets, err := agents.LoadAssets(dir)
	require.NoError(w, err)
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	w.Cleanup(server.Close)
	authorities := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	server.Config.Handler, err = agents.New(agents.Options{Client: w.WithWatch, API: testkit.Config(w.T), Server: server.URL, Assets: assets,
		Authorities: func(string) []byte { return authorities }, Recorder: events.NewFakeRecorder(10)})
	require.NoError(w, err)
	w.endpoint.Server, w.endpoint.CAChecksum, w.endpoint.Sums = server.URL, plan.Checksum(authorities), map[string]string{}
	for name, sum := range assets.Sums() {
		w.endpoint.Sums[strings.TrimPrefix(name, "drover-agent-linux-")] = sum
	}
}

// program puts a program into a server's path.
func program(t *testing.T, root, name, body string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "programs"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "programs", name), []byte("#!/bin/sh\n"+body+"\n"), 0o755))
}

// install runs the machine's script.
func (w *world) install(root string) {
	w.Helper()
	script := exec.CommandContext(w.Context(), "/bin/sh")
	script.Env = []string{"DROVER_ROOT=" + root, "PATH=" + filepath.Join(root, "programs") + ":" + os.Getenv("PATH")}
	script.Stdin = strings.NewReader(strings.NewReplacer(`"/etc/drover/`, `"`+root+`/etc/drover/`, `"/var/lib/`, `"`+root+`/var/lib/`, `'/var/lib/`, `'`+root+`/var/lib/`).
		Replace(string(w.secret("b1-machine-bootstrap").Data["value"])))
	out, err := script.CombinedOutput()
	require.NoError(w, err, string(out))
	require.Contains(w, string(out), "drover: the agent is installed")
}

// boot is a server's first start: it runs the machine's script, and then the agent as its unit says. Of systemd there is only what notes what it was told.
func (w *world) boot() (root string) {
	w.Helper()
	root = w.TempDir()
	program(w.T, root, "systemctl", `echo "$*" >>"$DROVER_ROOT/systemctl"`)
	program(w.T, root, "id", "echo 0")
	require.NoError(w, os.MkdirAll(filepath.Join(root, "proc"), 0o755))
	require.NoError(w, os.WriteFile(filepath.Join(root, "proc/uptime"), []byte("1.00 1.00\n"), 0o600))
	w.install(root)
	ctx, cancel := context.WithCancel(context.Background())
	agent := exec.CommandContext(ctx, filepath.Join(root, "usr/local/bin/drover-agent"), "--config", filepath.Join(root, "etc/drover/agent.yaml"))
	log, err := os.Create(filepath.Join(root, "agent.log"))
	require.NoError(w, err)
	agent.Stdout, agent.Stderr = log, log
	require.NoError(w, agent.Start())
	w.Cleanup(func() {
		cancel()
		_ = agent.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && w.Failed() {
			w.Log(string(text))
		}
	})
	return root
}

// await watches the plan Secret until it is as said.
func (w *world) await(what string, is func(map[string][]byte) bool) *corev1.Secret {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 2*time.Minute)
	defer cancel()
	secrets, err := w.Watch(ctx, &corev1.SecretList{}, &client.ListOptions{Namespace: w.obj.Namespace, FieldSelector: fields.OneTermEqualSelector("metadata.name", "b1-machine-plan")})
	require.NoError(w, err)
	defer secrets.Stop()
	for event := range secrets.ResultChan() {
		if secret, ok := event.Object.(*corev1.Secret); ok && is(secret.Data) {
			return secret
		}
	}
	require.Fail(w, "the plan Secret never said: "+what)
	return nil
}

// From an RKEBootstrap to a plan that is applied, nothing stood in for but systemd: the script from the bootstrap Secret fetches and verifies the
// agent, which registers through the endpoint with its token, obeys the plan that is put into its Secret, and reports; the token is burned.
func TestFlow(t *testing.T) {
	w := newWorld(t)
	w.control.Spec.AgentEnvVars = nil // the proxy is not there
	require.NoError(t, w.Update(t.Context(), w.control))
	w.serve()
	w.reconcile()
	root := w.boot()

	secret := w.await("an agent has registered", func(data map[string][]byte) bool { return len(data[plan.KeyAgentPublicKey]) > 0 })
	order := plan.Plan{Files: []plan.File{plan.NewFile(root+"/made", "0640", []byte("by plan"))},
		Instructions: []plan.Instruction{{Command: plan.Command{Name: "greet", Command: "/bin/sh", Args: []string{"-c", "echo hello >>" + root + "/greeting"}}}}}
	raw, err := json.Marshal(order)
	require.NoError(t, err)
	secret.Data[plan.KeyPlan], secret.Data[plan.KeyState] = raw, []byte(plan.StatePending)
	require.NoError(t, w.Update(t.Context(), secret))
	w.await("the plan is applied", func(data map[string][]byte) bool { return plan.State(data[plan.KeyState]) == plan.StateSucceeded })
	for name, want := range map[string]string{"made": "by plan", "greeting": "hello\n"} {
		got, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}

	w.install(root) // again, with the same data
	told, err := os.ReadFile(filepath.Join(root, "systemctl"))
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(told), "restart drover-agent"), "an agent that has registered is left alone")

	w.reconcile()
	require.NotContains(t, w.secret("b1-machine-plan").Data, plan.KeyTokenHash)
	require.NotContains(t, w.secret("b1-machine-bootstrap").Data, "token")

	// Somebody deletes the plan Secret: the agent goes on with the next by its key, and does what it has done not once more.
	require.NoError(t, w.Delete(t.Context(), w.secret("b1-machine-plan")))
	w.reconcile()
	require.NotContains(t, w.secret("b1-machine-bootstrap").Data, "token")
	secret = w.secret("b1-machine-plan")
	secret.Data[plan.KeyPlan], secret.Data[plan.KeyState] = raw, []byte(plan.StatePending)
	require.NoError(t, w.Update(t.Context(), secret))
	w.await("the plan is known to be applied", func(data map[string][]byte) bool { return plan.State(data[plan.KeyState]) == plan.StateSucceeded })
	got, err := os.ReadFile(filepath.Join(root, "greeting"))
	require.NoError(t, err)
	require.Equal(t, "hello\n", string(got))
	w.reconcile()
	require.NotEmpty(t, w.secret("b1-machine-plan").Data[plan.KeyAgentPublicKey])
	require.NotContains(t, w.secret("b1-machine-bootstrap").Data, "token")
}
