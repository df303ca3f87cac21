package access_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clocks "k8s.io/utils/clock"

	"github.com/drover-project/drover/agent"
	"github.com/drover-project/drover/agent/access"
	"github.com/drover-project/drover/api/plan"
	"github.com/drover-project/drover/endpoint/certificate"
	"github.com/drover-project/drover/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// passed is what the endpoint answers a request that gets through it, where there is no API server behind.
const passed = http.StatusNotFound

// through asks for something, and gets this status.
func through(t *testing.T, a *access.Access, want int) {
	t.Helper()
	status, err := ask(t, a)
	require.NoError(t, err)
	require.Equal(t, want, status)
}

func TestRegister(t *testing.T) {
	e := newEndpoint(t, nil, "ns", "plan")
	e.unheard, e.loseAnswers, e.refuse = 3, 2, 1
	o := optionsOf(t, e)
	a := open(t, o)
	require.Equal(t, 4, e.asked, "the same key asks again until it has an answer")
	require.NoFileExists(t, o.TokenFile)
	for _, private := range []string{o.ConnectionFile, o.KeyFile} {
		info, err := os.Stat(private)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
	}
	namespace, name := a.Secret()
	require.Equal(t, "ns/plan", namespace+"/"+name)
	through(t, a, passed)

	e.burned = true
	again := open(t, o)
	require.Equal(t, 4, e.asked, "what is on disk is enough")
	require.NotEmpty(t, again.CAChecksum())
	require.NoError(t, os.Remove(o.ConnectionFile))
	open(t, o)
	require.Equal(t, 5, e.asked, "the key alone is enough when the token is gone")
}

func TestRenew(t *testing.T) {
	e := newEndpoint(t, nil, "ns", "plan")
	o := optionsOf(t, e)
	a := open(t, o)
	e.clock.Step(29 * time.Minute)
	through(t, a, passed)
	require.Equal(t, 1, e.issued)
	e.clock.Step(2 * time.Minute)
	through(t, a, passed)
	require.Equal(t, 2, e.issued, "half its life is over")

	e.set(func() { e.token = "revoked" })
	through(t, a, passed)
	require.Equal(t, 3, e.issued, "after a 401")

	e.set(func() { e.refuse = 100 })
	e.clock.Step(40 * time.Minute)
	asked := e.asked
	for range 20 {
		through(t, a, passed)
	}
	require.Equal(t, asked+1, e.asked, "a renewal that fails disturbs nothing while the token lives, and is not tried with every request")
	e.set(func() { e.token = "revoked" })
	e.clock.Step(10 * time.Minute)
	for range 3 {
		_, err := ask(t, a)
		require.ErrorContains(t, err, "503")
	}
	require.Equal(t, asked+2, e.asked)

	e.set(func() { e.refuse = 0 })
	e.clock.Step(21 * 24 * time.Hour)
	through(t, a, passed)
	e.clock.Step(21 * 24 * time.Hour)
	e.set(func() { e.token = "another age" })
	a = open(t, o)
	through(t, a, passed)
}

// TestDiskFull: an answer that cannot be written is used all the same, and written later; a bootstrap token stays until then, for the next start.
func TestDiskFull(t *testing.T) {
	e := newEndpoint(t, nil, "ns", "plan")
	o := optionsOf(t, e)
	folder := filepath.Dir(o.ConnectionFile)
	o.ConnectionFile = filepath.Join(folder, "full", "info.json")
	full := func() { // a file is where the folder was
		require.NoError(t, os.RemoveAll(filepath.Dir(o.ConnectionFile)))
		require.NoError(t, os.WriteFile(filepath.Dir(o.ConnectionFile), nil, 0o600))
	}
	room := func() { require.NoError(t, os.Remove(filepath.Dir(o.ConnectionFile))) }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Log = funcr.New(func(_, args string) {
		if strings.Contains(args, "Registering") {
			full()
		}
	}, funcr.Options{})
	a, err := access.Open(ctx, o)
	require.NoError(t, err)
	through(t, a, passed)
	require.FileExists(t, o.TokenFile)
	room()
	through(t, a, passed)
	require.FileExists(t, o.ConnectionFile)
	require.NoFileExists(t, o.TokenFile)

	full()
	e.clock.Step(31 * time.Minute)
	through(t, a, passed)
	e.set(func() { e.token = "another age" })
	through(t, a, passed)
	require.Equal(t, 3, e.issued)
	room()
	through(t, a, passed)
	a = open(t, o)
	through(t, a, passed)
	require.Equal(t, 3, e.issued, "the last answer is on disk")
}

// TestTicket: what the endpoint knows the agent by goes back with each renewal, also after a restart; who is taken for a stranger asks for another one.
func TestTicket(t *testing.T) {
	e := newEndpoint(t, nil, "ns", "plan")
	o := optionsOf(t, e)
	a := open(t, o)
	require.Empty(t, e.ticket)
	e.set(func() { e.busy = 1 })
	through(t, a, http.StatusTooManyRequests)
	require.Equal(t, 1, e.asked, "a ticket that has just come is good")
	e.clock.Step(10 * time.Minute)
	e.set(func() { e.busy = 1 })
	through(t, a, passed)
	require.Equal(t, "ticket-1", e.ticket)
	a = open(t, o)
	e.clock.Step(40 * time.Minute)
	through(t, a, passed)
	require.Equal(t, "ticket-2", e.ticket)
}

// TestClock: a server whose clock is wrong by years gets in.
func TestClock(t *testing.T) {
	e := newEndpoint(t, nil, "ns", "plan")
	e.ahead = 3 * 365 * 24 * time.Hour
	a := open(t, optionsOf(t, e))
	require.Equal(t, 2, e.asked)
	e.clock.Step(31 * time.Minute)
	_, err := ask(t, a)
	require.NoError(t, err)
	require.Equal(t, 3, e.asked, "it knows the difference from then on")
}

// TestNextAuthority: certificates that come with a renewal are the ones that count, and are acknowledged.
func TestNextAuthority(t *testing.T) {
	e := newEndpoint(t, nil, "ns", "plan")
	a := open(t, optionsOf(t, e))
	before := a.CAChecksum()
	e.set(func() { e.extra = anotherCA(t); e.token = "revoked" })
	_, err := ask(t, a)
	require.NoError(t, err)
	require.NotEqual(t, before, a.CAChecksum())
}

// TestConfigured: who configures the agent anew, with another address or other certificates, brings it back by its key, once for each change; the connection
// file counts as long as nobody does.
func TestConfigured(t *testing.T) {
	e := newEndpoint(t, nil, "ns", "plan")
	o := optionsOf(t, e)
	e.extra, e.other = anotherCA(t), true
	a := open(t, o)
	_, err := ask(t, a)
	require.ErrorContains(t, err, "certificate signed by unknown authority", "the authority that it was told of is not the one that signs")
	e.set(func() { e.burned, e.other = true, false })
	_, err = ask(t, open(t, o))
	require.ErrorContains(t, err, "certificate signed by unknown authority", "nothing else is tried by itself")

	o.CA = []byte(e.ca() + anotherCA(t))
	a = open(t, o)
	through(t, a, passed)
	asked := e.asked
	through(t, open(t, o), passed)
	require.Equal(t, asked, e.asked)

	moved := newEndpoint(t, nil, "ns", "plan")
	moved.key, moved.burned = e.key, true
	e.Close()
	o.Server = moved.URL
	through(t, open(t, o), passed)
	through(t, open(t, o), passed)
	require.Equal(t, 1, moved.asked)
	o.Server = ""
	through(t, open(t, o), passed)
	require.Equal(t, 1, moved.asked)

	again := newEndpoint(t, nil, "ns", "plan")
	again.key, again.burned = e.key, true
	o.Server = again.URL
	writtenWithout(t, o, "configured")
	through(t, open(t, o), passed)
	through(t, open(t, o), passed)
	require.Equal(t, 1, again.asked, "an agent of an earlier build is brought there, too")
	writtenWithout(t, o, "configured", "receivedAt")
	o.Server = moved.URL
	through(t, open(t, o), passed)
	require.Equal(t, 1, moved.asked, "Rancher's file counts")
}

// writtenWithout makes the connection file one of somebody's who does not write these fields.
func writtenWithout(t *testing.T, o access.Options, fields ...string) {
	t.Helper()
	content, err := os.ReadFile(o.ConnectionFile)
	require.NoError(t, err)
	var saved map[string]any
	require.NoError(t, json.Unmarshal(content, &saved))
	for _, field := range fields {
		delete(saved, field)
	}
	content, err = json.Marshal(saved)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(o.ConnectionFile, content, 0o600))
}

// TestStrict: an endpoint that is not the one the agent was told is never spoken to, whatever else would vouch for it.
func TestStrict(t *testing.T) {
	e := newEndpoint(t, nil, "ns", "plan")
	for name, change := range map[string]func(*access.Options){
		"no certificate":           func(o *access.Options) { o.CA = nil },
		"an unknown authority":     func(o *access.Options) { o.CA = []byte(anotherCA(t)) },
		"no certificate in it":     func(o *access.Options) { o.CA = []byte("x") },
		"no TLS":                   func(o *access.Options) { o.Server = "http://" + e.Listener.Addr().String() },
		"a password in an address": func(o *access.Options) { o.Server = "https://u:p@" + e.Listener.Addr().String() },
	} {
		t.Run(name, func(t *testing.T) {
			o := optionsOf(t, e)
			change(&o)
			var logged bytes.Buffer
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o.Log = funcr.New(func(_, args string) {
				logged.WriteString(args)
				if bytes.Contains(logged.Bytes(), []byte("Not registered")) {
					cancel()
				}
			}, funcr.Options{})
			_, err := access.Open(ctx, o)
			require.Error(t, err)
			require.Zero(t, e.asked)
			require.NotContains(t, logged.String()+err.Error(), bootstrapToken)
		})
	}
}

// TestAnswersThatAreNone: what no endpoint of ours answers is refused, and none of it is kept.
func TestAnswersThatAreNone(t *testing.T) {
	e := newEndpoint(t, nil, "ns", "plan")
	o := optionsOf(t, e)
	a := open(t, o)
	kept, err := os.ReadFile(o.ConnectionFile)
	require.NoError(t, err)
	e.set(func() { e.name, e.token = "another", "revoked" })
	_, err = ask(t, a)
	require.ErrorContains(t, err, "names plan Secret ns/another")
	now, err := os.ReadFile(o.ConnectionFile)
	require.NoError(t, err)
	require.Equal(t, kept, now)
}

// TestAgent: an agent at a real API server, with everything between them going wrong.
func TestAgent(t *testing.T) {
	config := testkit.Config(t)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	ns := testkit.Namespace(t)
	secrets := client.CoreV1().Secrets(ns)
	_, err = secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "plan"}, Type: plan.SecretType}, metav1.CreateOptions{})
	require.NoError(t, err)
	e := newEndpoint(t, config, ns, "plan")
	folder := t.TempDir()
	a := open(t, optionsOf(t, e))
	secret, err := access.NewSecret(a)
	require.NoError(t, err)

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- agent.New(agent.Options{Folder: filepath.Join(folder, "state"), Secret: secret, Clock: clocks.RealClock{}, Log: logr.Discard(), Version: "v1",
			CAChecksum: a.CAChecksum, Runner: &agent.Runner{Work: filepath.Join(folder, "work"), Env: os.Environ, Log: logr.Discard()}}).Run(ctx)
	}()
	for n, happens := range []func(){
		func() {},
		func() { e.set(func() { e.token = "revoked" }) },
		e.CloseClientConnections,
		func() { e.set(func() { e.unheard = 5 }); e.CloseClientConnections() },
		func() { e.set(func() { e.token = "revoked"; e.refuse = 1 }); e.CloseClientConnections() },
		func() {},
	} {
		happens()
		raw := fmt.Sprintf(`{"instructions":[{"command":"sh","args":["-c","echo x >> %s/ran-%d"]}]}`, folder, n)
		testkit.Eventually(t, time.Minute, func() error {
			now, err := secrets.Get(t.Context(), "plan", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if now.Data == nil {
				now.Data = map[string][]byte{}
			}
			now.Data[plan.KeyPlan], now.Data[plan.KeyState] = []byte(raw), []byte(plan.StatePending)
			_, err = secrets.Update(t.Context(), now, metav1.UpdateOptions{})
			return err
		})
		testkit.Eventually(t, time.Minute, func() error {
			e.clock.Step(time.Second)
			now, err := secrets.Get(t.Context(), "plan", metav1.GetOptions{})
			if err == nil && string(now.Data[plan.KeyState]) != string(plan.StateSucceeded) {
				err = fmt.Errorf("plan %d is %s", n, now.Data[plan.KeyState])
			}
			return err
		})
		content, err := os.ReadFile(filepath.Join(folder, fmt.Sprint("ran-", n)))
		require.NoError(t, err)
		require.Equal(t, "x\n", string(content))
	}
	stop()
	require.NoError(t, <-ended)
	now, err := secrets.Get(t.Context(), "plan", metav1.GetOptions{})
	require.NoError(t, err)
	status, err := plan.DecodeAgentStatus(now.Data[plan.KeyAgentStatus])
	require.NoError(t, err)
	require.Equal(t, "v1", status.Version)
	require.Equal(t, a.CAChecksum(), status.CAChecksum)
}

// anotherCA is a certificate that vouches for nobody here.
func anotherCA(t *testing.T) string {
	t.Helper()
	now := time.Now()
	ca, _, err := certificate.Authority("another", now, now.Add(time.Hour))
	require.NoError(t, err)
	return string(ca)
}
