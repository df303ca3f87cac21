package faults

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/agent"
	"github.com/drover-project/drover/agent/access"
	"github.com/drover-project/drover/api/connect"
	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/endpoint/agents"
	"github.com/drover-project/drover/planner"
)

// agentLimit is how long an agent may take, an API server's restart and its own waits included.
const agentLimit = 2 * time.Minute

// agentFault is what happens when an agent's request reaches the way to the endpoint. It reports whether the request goes on, and whether its answer comes back.
type agentFault struct {
	name string
	meet func(*agentLife) (goesOn, answered bool)
	// alone says that it strikes all who use the API server.
	alone bool
}

var agentFaults = []agentFault{
	{name: "request lost", meet: func(*agentLife) (bool, bool) { return false, false }},
	{name: "answer lost", meet: func(*agentLife) (bool, bool) { return true, false }},
	{name: "network cut", meet: func(l *agentLife) (bool, bool) {
		l.refuse.Store(3)
		l.front.CloseClientConnections()
		return false, false
	}},
	{name: "clock a day ahead", meet: func(l *agentLife) (bool, bool) { l.clock.shift.Store(int64(24 * time.Hour)); return true, true }},
	{name: "clock 2 years back", meet: func(l *agentLife) (bool, bool) {
		l.clock.shift.Store(-int64(2 * 365 * 24 * time.Hour))
		return true, true
	}},
	{name: "API server killed and started again", alone: true, meet: func(l *agentLife) (bool, bool) { l.server.strike(); return true, true }},
}

// shiftingClock is a server's that is wrong.
type shiftingClock struct {
	clock.RealClock
	shift atomic.Int64
}

func (c *shiftingClock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.shift.Load())) }

func (c *shiftingClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// agentLab is an API server that can be killed, which agents reach through the endpoint's own handler.
type agentLab struct {
	*testing.T
	server *apiServer
	config *rest.Config
	client client.Client
}

// agentLife is that of one agent, from its bootstrap token to a plan that is applied, with at most one fault.
type agentLife struct {
	*agentLab
	namespace, folder string
	front             *httptest.Server
	clock             shiftingClock

	fault *agentFault
	at    int32
	// met counts requests; refuse is how many more are refused.
	met, refuse atomic.Int32
	mu          sync.Mutex
	points      []string
}

// serve is the way to the endpoint, with the fault in it.
func (l *agentLife) serve(endpoint http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := l.met.Add(1) - 1
		l.mu.Lock()
		l.points = append(l.points, r.Method+" "+strings.ReplaceAll(r.URL.Path, l.namespace, "NAMESPACE")+watched(r))
		l.mu.Unlock()
		goesOn, answered := true, true
		switch {
		case l.refuse.Load() > 0:
			l.refuse.Add(-1)
			goesOn, answered = false, false
		case l.fault != nil && n == l.at:
			goesOn, answered = l.fault.meet(l)
		}
		if goesOn && answered {
			endpoint.ServeHTTP(w, r)
			return
		}
		if goesOn && watched(r) == "" {
			endpoint.ServeHTTP(httptest.NewRecorder(), r)
		}
		panic(http.ErrAbortHandler)
	})
}

func watched(r *http.Request) string {
	if r.URL.Query().Get("watch") != "" {
		return " (watch)"
	}
	return ""
}

const (
	agentsMachine = "m"
	// appliedOnce is what the plan's instruction leaves when it runs once.
	appliedOnce = "x\n"
)

var planSecret = plan.SecretName(agentsMachine)

// prepare makes what a bootstrap provider and a planner make of a machine, and returns its token.
func (l *agentLife) prepare(ctx context.Context) (string, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "agent-"}}
	if err := l.client.Create(ctx, namespace); err != nil {
		return "", err
	}
	l.namespace = namespace.Name
	order, err := json.Marshal(plan.Plan{
		Files: []plan.File{{Path: filepath.Join(l.folder, "file"), Content: "Y29udGVudA=="}},
		Instructions: []plan.Instruction{{Command: plan.Command{Name: "once", Command: "sh",
			Args: []string{"-c", "echo x >>" + filepath.Join(l.folder, "ran")}}}},
	})
	if err != nil {
		return "", err
	}
	token := connect.NewToken(l.namespace, planSecret)
	data := planner.Delivery{Plan: order, MaxFailures: -1}.Data(nil)
	data[plan.KeyTokenHash] = []byte(token.Hash())
	meta := metav1.ObjectMeta{Namespace: l.namespace, Name: planSecret, OwnerReferences: []metav1.OwnerReference{{
		APIVersion: rkev1.GroupVersion.String(), Kind: "RKEBootstrap", Name: agentsMachine, UID: namespace.UID, Controller: new(true)}}}
	for _, obj := range []client.Object{
		&corev1.Secret{ObjectMeta: meta, Type: plan.SecretType, Data: data},
		&corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{planSecret},
			Verbs: []string{"get", "list", "watch", "update"}}}},
		&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: planSecret},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: l.namespace, Name: planSecret}}},
	} {
		if err := l.client.Create(ctx, obj); err != nil {
			return "", err
		}
	}
	return token.String(), nil
}

// run has an agent register and obey, and ends when its plan is applied, as it must be: once.
func (l *agentLife) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, agentLimit)
	defer cancel()
	token, err := l.prepare(ctx)
	if err != nil {
		return err
	}
	l.front = httptest.NewUnstartedServer(nil)
	l.front.EnableHTTP2 = true
	l.front.Config.ErrorLog = log.New(io.Discard, "", 0)
	l.front.StartTLS()
	defer l.front.Close()
	defer l.front.CloseClientConnections()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.front.Certificate().Raw})
	endpoint, err := agents.New(agents.Options{Client: l.client, API: l.config, Server: l.front.URL,
		Authorities: func(string) []byte { return ca }, Recorder: &events.FakeRecorder{}})
	if err != nil {
		return err
	}
	l.front.Config.Handler = l.serve(endpoint)
	file := func(name string) string { return filepath.Join(l.folder, name) }
	if err := os.WriteFile(file("token"), []byte(token), 0o600); err != nil {
		return err
	}
	door, err := access.Open(ctx, access.Options{ConnectionFile: file("connection"), KeyFile: file("key"), TokenFile: file("token"), Server: l.front.URL, CA: ca,
		Hostname: agentsMachine, Clock: &l.clock, Log: logr.Discard()})
	if err != nil {
		return err
	}
	secret, err := access.NewSecret(door)
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- agent.New(agent.Options{Folder: file("state"), Secret: secret, Clock: &l.clock, Log: logr.Discard(), CAChecksum: door.CAChecksum,
			Runner: &agent.Runner{Work: file("work"), Env: os.Environ, Log: logr.Discard()}}).Run(working)
	}()
	err = l.awaitApplied(ctx)
	stop()
	return errors.Join(err, <-ended, l.check())
}

// awaitApplied asks the API server, which may be away.
func (l *agentLife) awaitApplied(ctx context.Context) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	secret := &corev1.Secret{}
	for {
		err := l.client.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: planSecret}, secret)
		if state := string(secret.Data[plan.KeyState]); err == nil && state == string(plan.StateSucceeded) {
			count, revision := string(secret.Data[plan.KeySuccessCount]), string(secret.Data[plan.KeyRevision])
			if count != "1" || revision != "1" {
				return fmt.Errorf("it tells of %s successes in revision %s", count, revision)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the plan is %q: %w", secret.Data[plan.KeyState], errors.Join(ctx.Err(), err))
		case <-ticker.C:
		}
	}
}

// check looks at the server.
func (l *agentLife) check() error {
	ran, err := os.ReadFile(filepath.Join(l.folder, "ran"))
	if err != nil {
		return err
	}
	if string(ran) != appliedOnce {
		return fmt.Errorf("the instruction ran %d times", strings.Count(string(ran), appliedOnce))
	}
	file, err := os.ReadFile(filepath.Join(l.folder, "file"))
	if err == nil && string(file) != "content" {
		err = fmt.Errorf("the file has %q", file)
	}
	if _, left := os.Stat(filepath.Join(l.folder, "token")); left == nil {
		err = errors.Join(err, errors.New("the bootstrap token is still on the disk"))
	}
	return err
}

func newAgentLab(t *testing.T) *agentLab {
	t.Helper()
	l := &agentLab{T: t, server: startAPIServer(t)}
	var err error
	l.config, err = clientcmd.BuildConfigFromFlags("", l.server.kubeconfig)
	require.NoError(t, err)
	l.config.QPS = -1
	l.client, err = client.New(l.config, client.Options{})
	require.NoError(t, err)
	return l
}

func (l *agentLab) life(fault *agentFault, at int32) *agentLife {
	return &agentLife{agentLab: l, folder: l.TempDir(), fault: fault, at: at}
}

// TestAgent strikes an agent's way to its plan at each of its requests: what it registers with, what it watches and what it reports. Whatever happens the
// plan is applied, once, and the Secret says so.
func TestAgent(t *testing.T) {
	if *only >= 0 {
		t.Skip("one run of the matrix was asked for")
	}
	t.Parallel() // beside the matrix: it has an API server of its own, and waits more than it computes
	l := newAgentLab(t)
	plain := l.life(nil, 0)
	require.NoError(t, plain.run(t.Context()))
	require.Greater(t, len(plain.points), 3, plain.points)
	var together errgroup.Group
	together.SetLimit(8)
	var alone []func() error
	failed := make([][]error, len(agentFaults))
	for i := range agentFaults {
		fault := &agentFaults[i]
		failed[i] = make([]error, len(plain.points))
		for at := range plain.points {
			live := func() error {
				failed[i][at] = l.life(fault, int32(at)).run(t.Context())
				return nil
			}
			if fault.alone {
				alone = append(alone, live)
				continue
			}
			together.Go(live)
		}
	}
	require.NoError(t, together.Wait())
	for n, live := range alone {
		if *count > shortPart || n == 0 || n == len(alone)-1 { // see untried
			require.NoError(t, live())
		}
	}
	l.report(plain.points, failed)
}

// report tells what was tried, and what of it went wrong.
func (l *agentLab) report(points []string, failed [][]error) {
	var text strings.Builder
	text.WriteString("\nwhat strikes an agent at each of its requests\n")
	for at, point := range points {
		fmt.Fprintf(&text, "%3d  %s\n", at, point)
	}
	for i, fault := range agentFaults {
		wrong := 0
		for at, err := range failed[i] {
			if err != nil {
				wrong++
				l.Errorf("%s at request %d, %s: %v", fault.name, at, points[at], err)
			}
		}
		fmt.Fprintf(&text, "%-36s at %d requests, %d failed\n", fault.name, len(failed[i])-untried(fault, len(points)), wrong)
	}
	l.Log(text.String())
	if *reportFile != "" {
		require.NoError(l, os.WriteFile(strings.TrimSuffix(*reportFile, ".txt")+"-agent.txt", []byte(text.String()), 0o600))
	}
}

// untried is how many points a short run leaves out: each kill takes half a minute.
func untried(fault agentFault, points int) int {
	if !fault.alone || *count > shortPart {
		return 0
	}
	return points - 2
}
