package rkebootstrap_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/api/plan"
	"github.com/drover-project/drover/bootstrap"
	"github.com/drover-project/drover/endpoint/agents"
	"github.com/drover-project/drover/endpoint/certificate"
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
	w.assets, err = agents.LoadAssets(dir)
	require.NoError(w, err)
	w.moveEndpoint()
}

// moveEndpoint makes an endpoint with an address and an authority that nobody knows yet, and gives up the one before.
func (w *world) moveEndpoint() {
	w.Helper()
	now := time.Now()
	authorities, key, err := certificate.Authority("one of "+now.String(), now, now.Add(time.Hour))
	require.NoError(w, err)
	authority, err := tls.X509KeyPair(authorities, key)
	require.NoError(w, err)
	cert, key, err := certificate.Serving([]string{"127.0.0.1"}, &authority, now, now.Add(time.Hour))
	require.NoError(w, err)
	pair, err := tls.X509KeyPair(cert, key)
	require.NoError(w, err)
	server := httptest.NewUnstartedServer(nil)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	w.Cleanup(server.Close)
	server.Config.Handler, err = agents.New(agents.Options{Client: w.WithWatch, API: testkit.Config(w.T), Server: server.URL, Assets: w.assets,
		Authorities: func(string) []byte { return authorities }, Recorder: events.NewFakeRecorder(10)})
	require.NoError(w, err)
	w.endpoint.Server, w.endpoint.CAChecksum, w.endpoint.Sums = server.URL, plan.Checksum(authorities), map[string]string{}
	for name, sum := range w.assets.Sums {
		w.endpoint.Sums[strings.TrimPrefix(name, "drover-agent-linux-")] = sum
	}
}

// program puts a program into a server's path.
func program(t *testing.T, root, name, body string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "programs"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "programs", name), []byte("#!/bin/sh\n"+body+"\n"), 0o755))
}

// install runs a script, which is the machine's or one that knows no machine.
func (w *world) install(root, text string) {
	w.Helper()
	out, err := w.run(root, text)
	require.NoError(w, err, out)
	require.Contains(w, out, "drover: the agent is installed")
}

func (w *world) run(root, text string) (string, error) {
	w.Helper()
	script := exec.CommandContext(w.Context(), "/bin/sh")
	script.Env = []string{"DROVER_ROOT=" + root, "PATH=" + filepath.Join(root, "programs") + ":" + os.Getenv("PATH")}
	script.Stdin = strings.NewReader(strings.ReplaceAll(text, `"/etc/drover/`, `"`+root+`/etc/drover/`))
	out, err := script.CombinedOutput()
	return string(out), err
}

// script is the machine's, for a server with this root.
func (w *world) script(root string) string {
	w.Helper()
	return strings.ReplaceAll(string(w.secret("b1-machine-bootstrap").Data["value"]), `'/var/lib/`, `'`+root+`/var/lib/`)
}

// restarts is how often systemd was told to start the agent, or to start it again.
func (w *world) restarts(root string) int {
	w.Helper()
	told, err := os.ReadFile(filepath.Join(root, "systemctl"))
	require.NoError(w, err)
	return strings.Count(string(told), "restart drover-agent")
}

// boot is a server's first start: it runs the machine's script, and then the agent as its unit says. Of systemd there is only what notes what it was told.
func (w *world) boot() (root string, stop func()) {
	w.Helper()
	root = w.TempDir()
	program(w.T, root, "systemctl", `echo "$*" >>"$DROVER_ROOT/systemctl"`)
	program(w.T, root, "id", "echo 0")
	require.NoError(w, os.MkdirAll(filepath.Join(root, "proc"), 0o755))
	require.NoError(w, os.WriteFile(filepath.Join(root, "proc/uptime"), []byte("1.00 1.00\n"), 0o600))
	w.install(root, w.script(root))
	return root, w.start(root)
}

// start runs the agent.
func (w *world) start(root string) (stop func()) {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	agent := exec.CommandContext(ctx, filepath.Join(root, "usr/local/bin/drover-agent"), "--config", filepath.Join(root, "etc/drover/agent.yaml"))
	log, err := os.OpenFile(filepath.Join(root, "agent.log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	require.NoError(w, err)
	agent.Stdout, agent.Stderr = log, log
	require.NoError(w, agent.Start())
	stop = sync.OnceFunc(func() {
		cancel()
		_ = agent.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && w.Failed() {
			w.Log(string(text))
		}
	})
	w.Cleanup(stop)
	return stop
}

// obeys delivers a plan, which the agent is to apply.
func (w *world) obeys(order plan.Plan) {
	w.Helper()
	raw, err := json.Marshal(order)
	require.NoError(w, err)
	secret := w.secret("b1-machine-plan")
	secret.Data[plan.KeyPlan], secret.Data[plan.KeyState] = raw, []byte(plan.StatePending)
	require.NoError(w, w.Update(w.Context(), secret))
	w.await("the plan is applied", func(data map[string][]byte) bool { return plan.State(data[plan.KeyState]) == plan.StateSucceeded })
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
	root, stop := w.boot()

	w.await("an agent has registered", func(data map[string][]byte) bool { return len(data[plan.KeyAgentPublicKey]) > 0 })
	order := plan.Plan{Files: []plan.File{plan.NewFile(root+"/made", "0640", []byte("by plan"))},
		Instructions: []plan.Instruction{{Command: plan.Command{Name: "greet", Command: "/bin/sh", Args: []string{"-c", "echo hello >>" + root + "/greeting"}}}}}
	w.obeys(order)
	for name, want := range map[string]string{"made": "by plan", "greeting": "hello\n"} {
		got, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}

	w.install(root, w.script(root)) // again, with the same data
	require.Equal(t, 1, w.restarts(root), "an agent that has registered is left alone")

	w.reconcile()
	require.NotContains(t, w.secret("b1-machine-plan").Data, plan.KeyTokenHash)
	require.NotContains(t, w.secret("b1-machine-bootstrap").Data, "token")
	w.install(root, w.script(root))
	require.Equal(t, 1, w.restarts(root), "also when the token is burned")

	// Somebody deletes the plan Secret: the agent goes on with the next by its key, and does what it has done not once more.
	require.NoError(t, w.Delete(t.Context(), w.secret("b1-machine-plan")))
	w.reconcile()
	require.NotContains(t, w.secret("b1-machine-bootstrap").Data, "token")
	w.obeys(order)
	got, err := os.ReadFile(filepath.Join(root, "greeting"))
	require.NoError(t, err)
	require.Equal(t, "hello\n", string(got))
	w.reconcile()
	key := w.secret("b1-machine-plan").Data[plan.KeyAgentPublicKey]
	require.NotEmpty(t, key)
	require.NotContains(t, w.secret("b1-machine-bootstrap").Data, "token")

	// The endpoint has another authority and another address: the script run again brings the agent there by its key, the machine's and the one that is served.
	served := func() string {
		install := w.endpoint
		install.ByHand = true
		script, err := bootstrap.Script(install)
		require.NoError(t, err)
		return string(script)
	}
	for n, script := range []func() string{func() string { return w.script(root) }, served} {
		w.moveEndpoint()
		w.reconcile()
		w.install(root, script())
		require.Equal(t, n+2, w.restarts(root))
		stop()
		stop = w.start(root)
		w.obeys(plan.Plan{Files: []plan.File{plan.NewFile(root+"/moved", "", []byte{byte(n)})}})
		require.Equal(t, key, w.secret("b1-machine-plan").Data[plan.KeyAgentPublicKey])
	}

	// The agent's files are deleted on the server, which is a Node: it is let in anew by a token that the user asks for, and by no other.
	stop()
	w.machine.Status.NodeRef.Name = "node"
	require.NoError(t, w.Status().Update(t.Context(), w.machine))
	require.NoError(t, os.RemoveAll(filepath.Join(root, "var/lib/drover-agent")))
	out, err := w.run(root, w.script(root))
	require.Error(t, err)
	require.Contains(t, out, "drover: no token: see docs/endpoint.md")
	for _, value := range []string{"once", "twice"} {
		w.readmit(value)
		require.Contains(t, w.secret("b1-machine-bootstrap").Data, "token")
		w.reconcile()
		require.Contains(t, w.secret("b1-machine-bootstrap").Data, "token", "until it is used")
		w.install(root, w.script(root))
		stop = w.start(root)
		before := key
		key = w.await("another agent has registered", func(data map[string][]byte) bool {
			return len(data[plan.KeyAgentPublicKey]) > 0 && string(data[plan.KeyAgentPublicKey]) != string(before)
		}).Data[plan.KeyAgentPublicKey]
		w.obeys(plan.Plan{Files: []plan.File{plan.NewFile(root+"/let-in", "", []byte(value))}})
		w.reconcile()
		require.NotContains(t, w.secret("b1-machine-bootstrap").Data, "token")
		stop()
		require.NoError(t, os.RemoveAll(filepath.Join(root, "var/lib/drover-agent")))
	}
}
