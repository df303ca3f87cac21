package agent

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/api/plan"
)

// fakeSecret is a plan Secret that knows who may write what, and conflicts.
type fakeSecret struct {
	now    *corev1.Secret
	writes int
	// before is asked before each update, and its error is the answer.
	before func() error
	// lost loses the answer of the next update.
	lost bool
	set  func(*corev1.Secret)
	// written, where there is one, is told of every write.
	written chan *corev1.Secret
}

var gone = apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "plan")

func newSecret(data map[string][]byte) *fakeSecret {
	return &fakeSecret{now: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "plan", UID: "1", ResourceVersion: "1"}, Data: data}}
}

func (f *fakeSecret) Watch(ctx context.Context, set func(*corev1.Secret)) {
	f.set = set
	set(f.now)
	<-ctx.Done()
}

func (f *fakeSecret) Get(context.Context) (*corev1.Secret, error) {
	if f.now == nil {
		return nil, gone
	}
	return f.now.DeepCopy(), nil
}

func (f *fakeSecret) Update(_ context.Context, secret *corev1.Secret) (*corev1.Secret, error) {
	if f.before != nil {
		if err := f.before(); err != nil {
			return nil, err
		}
	}
	if f.now == nil {
		return nil, gone
	}
	if secret.ResourceVersion != f.now.ResourceVersion {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "plan", errors.New("changed"))
	}
	if err := plan.MayWrite(plan.Agent, f.now.Data, secret.Data); err != nil {
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "plan", err)
	}
	f.put(secret.Data)
	f.writes++
	if f.lost {
		f.lost = false
		return nil, errors.New("the answer is lost")
	}
	if f.written != nil {
		f.written <- f.now.DeepCopy()
	}
	return f.now.DeepCopy(), nil
}

// put is what anybody writes.
func (f *fakeSecret) put(data map[string][]byte) {
	next := f.now.DeepCopy()
	n, _ := strconv.Atoi(next.ResourceVersion)
	next.ResourceVersion, next.Data = strconv.Itoa(n+1), maps.Clone(data)
	f.now = next
}

// deliver is what our planner writes.
func (f *fakeSecret) deliver(t *testing.T, p plan.Plan, more ...string) {
	t.Helper()
	raw, err := json.Marshal(p)
	require.NoError(t, err)
	data := maps.Clone(f.now.Data)
	if data == nil {
		data = map[string][]byte{}
	}
	delete(data, plan.KeyProbeStatuses)
	data[plan.KeyPlan], data[plan.KeyState] = raw, []byte(plan.StatePending)
	for i := 0; i < len(more); i += 2 {
		data[more[i]] = []byte(more[i+1])
	}
	require.NoError(t, plan.MayWrite(plan.Planner, f.now.Data, data))
	f.put(data)
}

func (f *fakeSecret) value(key string) string { return string(f.now.Data[key]) }

func (f *fakeSecret) status(t *testing.T) plan.AgentStatus {
	t.Helper()
	status, err := plan.DecodeAgentStatus(f.now.Data[plan.KeyAgentStatus])
	require.NoError(t, err)
	return status
}

// world is an agent in a folder, driven step by step.
type world struct {
	*Agent
	t      *testing.T
	clock  *testingclock.FakeClock
	secret *fakeSecret
	folder string
}

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, clock: testingclock.NewFakeClock(noon), secret: newSecret(nil), folder: t.TempDir()}
	w.restart()
	return w
}

// restart is an agent that knows what is on disk.
func (w *world) restart() {
	w.t.Helper()
	w.Agent = New(optionsIn(w.folder, w.secret))
	w.o.Clock, w.applier.clock = w.clock, w.clock
	var err error
	w.journal, err = ReadJournal(w.o.Folder)
	require.NoError(w.t, err)
	w.written = w.journal
}

func optionsIn(folder string, secret PlanSecret) Options {
	state := filepath.Join(folder, "state")
	_ = os.MkdirAll(state, 0o700)
	return Options{Folder: state, Secret: secret, Log: logr.Discard(), Version: "v1", Platform: "linux/amd64",
		Runner: &Runner{Work: filepath.Join(folder, "work"), Env: os.Environ, Images: installer{}, Log: logr.Discard()}}
}

// until steps, and lets time pass as the agent asks for, until it is done.
func (w *world) until(done func() bool) {
	w.t.Helper()
	for range 200 {
		if done() {
			return
		}
		w.look()
	}
	w.t.Fatalf("never: %s\nat %s\nstatus %+v\njournal %+v", w.secret.now.Data, w.clock.Now(), w.secret.status(w.t), w.journal)
}

// look is one step, and the time until the next.
func (w *world) look() {
	if w.secret.now != nil {
		w.set(w.secret.now.DeepCopy())
	} else {
		w.set(nil)
	}
	if next := w.step(w.t.Context()); next.After(w.clock.Now()) {
		w.clock.SetTime(next)
	}
}

func (w *world) looks(n int) {
	for range n {
		w.look()
	}
}

func (w *world) state(is plan.State) func() bool {
	return func() bool { return w.secret.value(plan.KeyState) == string(is) }
}

// shell is an instruction that runs a line of shell.
func shellStep(name, line string) plan.Instruction {
	return plan.Instruction{Command: plan.Command{Name: name, Command: "/bin/sh", Args: []string{"-c", line}}, SaveOutput: true}
}

// ran is how often a line was written to a file of the world.
func ran(folder, name string) int {
	content, _ := os.ReadFile(filepath.Join(folder, name))
	return strings.Count(string(content), "\n")
}
