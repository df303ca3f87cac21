package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/api/plan"
)

// PlanSecret is the one object that the agent reads and writes. Errors are the API server's, as
// package apierrors knows them.
type PlanSecret interface {
	// Watch calls set with the Secret now and after each change, until the context ends. set gets
	// nil if the Secret does not exist.
	Watch(ctx context.Context, set func(*corev1.Secret))
	Get(ctx context.Context) (*corev1.Secret, error)
	Update(ctx context.Context, secret *corev1.Secret) (*corev1.Secret, error)
}

// Options of an agent.
type Options struct {
	// Folder holds the journal. Only the agent writes there.
	Folder string
	Secret PlanSecret
	Runner *Runner
	Clock  clock.Clock
	Log    logr.Logger
	// Version, Platform and the current result of CAChecksum are reported.
	Version, Platform string
	CAChecksum        func() string
	// FailedProxy returns the proxy that does not answer, without its credentials; nil reports none.
	FailedProxy func() string
	// Addresses returns the server's own addresses; nil reports none.
	Addresses func() []string
	// Fault is for tests: it is asked before each step and each write of the journal, and its error
	// is that step's.
	Fault func(point string) error
}

// Agent obeys one plan Secret.
type Agent struct {
	o       Options
	applier applier
	// wake has an element when the Secret has changed.
	wake chan struct{}

	mu     sync.Mutex
	secret *corev1.Secret
	// running is the instruction that runs, since when.
	running      string
	runningSince time.Time

	// journal is the state in memory, and written is the state on disk.
	journal, written Journal
	stand            *standing
	addresses        addresses
	backoff          wait.Backoff
}

// errOvertaken ends an attempt because another order has come.
var errOvertaken = errors.New("another plan has come")

// New is an agent that Run starts.
func New(o Options) *Agent {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Fault == nil {
		o.Fault = func(string) error { return nil }
	}
	a := &Agent{o: o, wake: make(chan struct{}, 1), backoff: firstBackoff}
	a.applier = applier{runner: o.Runner, clock: o.Clock, fault: o.Fault, note: func(j Journal) error {
		err := j.write(o.Folder)
		if err == nil {
			a.written = j
		}
		return err
	}, begin: a.begin}
	return a
}

// begin notes which instruction runs; none when it is empty.
func (a *Agent) begin(step string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running, a.runningSince = step, a.o.Clock.Now()
}

// firstBackoff is the wait after an error outside the steps of a plan.
var firstBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.3, Steps: 7, Cap: time.Minute}

// Run obeys until the context ends.
func (a *Agent) Run(ctx context.Context) error {
	if err := os.MkdirAll(a.o.Folder, 0o700); err != nil {
		return fmt.Errorf("making the agent's folder: %w", err)
	}
	journal, err := ReadJournal(a.o.Folder)
	if err != nil {
		// The file is written as a whole, so the disk has lost it. The Secret shows whether work is
		// left.
		a.o.Log.Error(err, "The journal is lost and put aside")
		path := filepath.Join(a.o.Folder, JournalFile)
		if err := os.Rename(path, path+".unreadable"); err != nil {
			return fmt.Errorf("putting the journal aside: %w", err)
		}
	}
	a.journal, a.written = journal, journal
	if err := a.o.Runner.clear(); err != nil {
		a.o.Log.Error(err, "Folders of instructions that were interrupted are left")
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watching.Go(func() { a.o.Secret.Watch(ctx, a.set) })
	for ctx.Err() == nil {
		a.sleep(ctx, a.step(ctx))
	}
	return nil
}

// sleep waits until a time or a change; the zero time is a change only.
func (a *Agent) sleep(ctx context.Context, until time.Time) {
	var timer <-chan time.Time
	if !until.IsZero() {
		left := until.Sub(a.o.Clock.Now())
		if left <= 0 {
			return
		}
		t := a.o.Clock.NewTimer(left)
		defer t.Stop()
		timer = t.C()
	}
	select {
	case <-ctx.Done():
	case <-timer:
	case <-a.wake:
	}
}

// set stores the current Secret. The newest version of an object counts, because a watch may
// deliver a version from before our own write.
func (a *Agent) set(secret *corev1.Secret) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if secret != nil && a.secret != nil && secret.UID == a.secret.UID && version(secret) < version(a.secret) {
		return
	}
	a.secret = secret
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func version(secret *corev1.Secret) uint64 {
	n, err := strconv.ParseUint(secret.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (a *Agent) current() *corev1.Secret {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.secret
}

// step compares the Secret with the journal, does the next work, and returns the time of the next
// call. A missing Secret asks for no work.
func (a *Agent) step(ctx context.Context) time.Time {
	secret := a.current()
	if secret == nil {
		return time.Time{}
	}
	v := readView(secret.Data)
	trouble := a.keepJournal(take(v, a.journal))
	p := a.planOf(v)
	a.judge(v, p)
	next, err := report(v, a.written, a.findings(v, trouble))
	if len(plan.Changed(v.data, next)) > 0 {
		if secret, err = a.update(ctx, secret, next); secret == nil {
			return a.o.Clock.Now()
		}
	}
	if err = errors.Join(trouble, err); err != nil {
		after := a.backoff.Step()
		if ctx.Err() == nil {
			a.o.Log.Error(err, "Trying again", "after", after.Round(time.Second).String())
		}
		return a.o.Clock.Now().Add(after)
	}
	a.backoff = firstBackoff
	v = readView(secret.Data)
	due, at := isDue(v, a.journal, a.o.Clock.Now())
	if due && v.state != plan.StatePending {
		a.execute(ctx, p)
		return a.o.Clock.Now()
	}
	return earliest(at, a.attend(ctx))
}

// keepJournal makes a journal the one that counts, on disk before anything follows from it.
func (a *Agent) keepJournal(j Journal) error {
	if j.Checksum != a.journal.Checksum || j.Revision != a.journal.Revision {
		a.o.Log.Info("Taking up plan", "checksum", j.Checksum, "revision", j.Revision, "attempt", j.Attempt)
		a.stand = nil
	}
	a.journal = j
	if sameJournal(a.journal, a.written) {
		return nil
	}
	return a.applier.save(j, "order")
}

// sameJournal compares the fields that can change between two writes.
func sameJournal(a, b Journal) bool {
	return a.Checksum == b.Checksum && a.Revision == b.Revision && a.Phase == b.Phase && a.Attempt == b.Attempt && a.Failures == b.Failures &&
		a.FilesDone == b.FilesDone && a.InstructionsDone == b.InstructionsDone && a.Ended.Equal(b.Ended)
}

// planOf is the plan of a Secret; one that cannot be read is one that says so.
func (a *Agent) planOf(v view) plan.Plan {
	if v.checksum == "" {
		return plan.Plan{}
	}
	if a.stand != nil && a.stand.checksum == v.checksum {
		return a.stand.plan
	}
	p, err := plan.Decode(v.data[plan.KeyPlan])
	if err != nil {
		return plan.Plan{Error: err.Error()}
	}
	return p
}

// update writes the Secret. A conflict returns neither a Secret nor an error: the caller reads the
// Secret and decides again.
func (a *Agent) update(ctx context.Context, secret *corev1.Secret, data map[string][]byte) (*corev1.Secret, error) {
	changed := secret.DeepCopy()
	changed.Data = data
	updated, err := a.o.Secret.Update(ctx, changed)
	switch {
	case err == nil:
		a.set(updated)
		return updated, nil
	case apierrors.IsNotFound(err):
		a.set(nil)
		return nil, nil
	case !apierrors.IsConflict(err):
		return secret, fmt.Errorf("writing the plan Secret: %w", err)
	}
	fresh, err := a.o.Secret.Get(ctx)
	if apierrors.IsNotFound(err) {
		a.set(nil)
		return nil, nil
	}
	if err != nil {
		return secret, fmt.Errorf("reading the plan Secret after a conflict: %w", err)
	}
	a.set(fresh)
	return nil, nil
}

// execute applies the rest of the plan. A newer order cancels it.
func (a *Agent) execute(ctx context.Context, p plan.Plan) {
	j := a.journal
	if j.Phase == Failed { // another attempt of the same order, at the step that failed
		j.Phase = Applying
		j.Attempt++
		if a.keepJournal(j) != nil {
			return
		}
	}
	var err error
	a.unlessOvertaken(ctx, j.Checksum, j.Revision, func(ctx context.Context) { a.journal, err = a.applier.apply(ctx, p, j) })
	a.begin("")
	switch log := a.o.Log.WithValues("checksum", j.Checksum, "attempt", j.Attempt); {
	case err != nil:
		log.Error(err, "The attempt was interrupted")
	case a.journal.Phase == Failed:
		log.Error(errors.New(a.journal.Message), "The attempt failed", "step", a.journal.Step)
	default:
		log.Info("The plan is applied")
	}
}

// unlessOvertaken runs do. A newer order cancels it.
func (a *Agent) unlessOvertaken(ctx context.Context, checksum string, revision int, do func(context.Context)) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	long := a.o.Clock.NewTimer(longAfter)
	defer long.Stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(ctx)
	}()
	for {
		select {
		case <-done:
			return
		case <-long.C():
			a.reportLong(ctx, checksum)
			long.Reset(longAfter / 4)
		case <-a.wake:
			secret := a.current()
			if secret == nil {
				continue
			}
			if v := readView(secret.Data); v.checksum != "" && (v.checksum != checksum || v.state == plan.StatePending && v.revision >= revision) {
				cancel(errOvertaken)
			}
		}
	}
}

func (a *Agent) findings(v view, trouble error) findings {
	f := findings{status: plan.AgentStatus{Version: a.o.Version, Platform: a.o.Platform}}
	if a.o.CAChecksum != nil {
		f.status.CAChecksum = a.o.CAChecksum()
	}
	if a.o.FailedProxy != nil {
		f.status.Proxy = plan.Head(a.o.FailedProxy(), plan.MaxProxyBytes)
	}
	if a.o.Addresses != nil {
		before, _ := plan.DecodeAgentStatus(v.data[plan.KeyAgentStatus]) // an unreadable report has no addresses
		f.status.Addresses = a.addresses.look(a.o.Clock.Now(), a.o.Addresses(), before.Addresses)
	}
	if trouble != nil {
		f.trouble = trouble.Error()
	}
	if a.stand != nil {
		f.probes, f.status.Probes = a.stand.probes.reported, a.stand.probes.reportedWhy
		f.periodic = maps.Clone(a.stand.periodic)
	}
	return f
}

func earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}
