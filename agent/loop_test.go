package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-project/drover/api/plan"
)

// everything is a plan of files and of two instructions, of which one is an image, that leave traces in a folder.
func everything(folder string) plan.Plan {
	own := func(f plan.File) plan.File {
		f.UID, f.GID = os.Getuid(), os.Getgid()
		return f
	}
	return plan.Plan{
		Files: []plan.File{
			own(plan.NewFile(filepath.Join(folder, "etc/a"), "0640", []byte("a\n"))),
			own(plan.File{Path: filepath.Join(folder, "etc/d"), Directory: true, Permissions: "0750"}),
			{Path: filepath.Join(folder, "old"), Action: plan.ActionDelete},
		},
		Instructions: []plan.Instruction{
			{Command: plan.Command{Name: "first", Image: "example.com/installer:v1", Args: []string{folder}}, SaveOutput: true},
			shellStep("second", "echo warning >&2; echo $CATTLE_AGENT_ATTEMPT_NUMBER; echo x >> "+folder+"/ran-second"),
		},
	}
}

func TestApplies(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, os.WriteFile(filepath.Join(w.folder, "old"), nil, 0o600))
	w.secret.deliver(t, everything(w.folder))
	w.until(w.state(plan.StateSucceeded))

	info, err := os.Stat(filepath.Join(w.folder, "etc/a"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode())
	info, err = os.Stat(filepath.Join(w.folder, "etc/d"))
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|0o750, info.Mode())
	require.NoFileExists(t, filepath.Join(w.folder, "old"))
	output, err := plan.DecodeOutput[map[string][]byte](w.secret.now.Data[plan.KeyAppliedOutput])
	require.NoError(t, err)
	require.Equal(t, "a\n", string(output["first"]))
	require.ElementsMatch(t, []string{"warning", "1"}, strings.Fields(string(output["second"])), "stderr is saved too")
	require.Equal(t, plan.Checksum(w.secret.now.Data[plan.KeyPlan]), w.secret.value(plan.KeyAppliedChecksum))
	require.Equal(t, "1", w.secret.value(plan.KeyRevision))
	require.Equal(t, "1", w.secret.value(plan.KeySuccessCount))
	require.Equal(t, noon.Format(time.UnixDate), w.secret.value(plan.KeyLastApplyTime))
	require.Equal(t, 2, w.secret.writes, "the claim and the result")

	// Nothing is written or done again, also not by an agent that starts anew.
	w.looks(5)
	w.restart()
	w.looks(5)
	require.Equal(t, 2, w.secret.writes)
	require.Equal(t, 1, ran(w.folder, "ran-first"))

	// The same content, ordered again, is done again, with another number.
	w.secret.deliver(t, everything(w.folder))
	w.until(w.state(plan.StateSucceeded))
	require.Equal(t, 2, ran(w.folder, "ran-second"))
	require.Equal(t, "2", w.secret.value(plan.KeyRevision))
	output, err = plan.DecodeOutput[map[string][]byte](w.secret.now.Data[plan.KeyAppliedOutput])
	require.NoError(t, err)
	require.Contains(t, string(output["second"]), "2\n")
}

// TestOldProtocol: a planner that writes no plan-state has its plans applied once per content, and what a revert undoes is done again.
func TestOldProtocol(t *testing.T) {
	w := newWorld(t)
	deliver := func(raw string) {
		data := map[string][]byte{}
		maps.Copy(data, w.secret.now.Data)
		data[plan.KeyPlan] = []byte(raw)
		w.secret.put(data)
	}
	line := func(name string, exit int) string {
		return fmt.Sprintf(`{"instructions":[{"command":"sh","args":["-c","echo x >> %s/ran-%s; exit %d"]}]}`, w.folder, name, exit)
	}
	good, bad := line("good", 0), line("bad", 1)
	applied := func(raw string) func() bool {
		return func() bool {
			return w.secret.value(plan.KeyAppliedChecksum) == plan.Checksum([]byte(raw)) && w.secret.value(plan.KeyFailedChecksum) == ""
		}
	}
	deliver(good)
	w.until(applied(good))
	deliver(bad)
	w.until(func() bool { return w.secret.value(plan.KeyFailureCount) == "3" })
	require.Equal(t, plan.Checksum([]byte(bad)), w.secret.value(plan.KeyFailedChecksum))
	require.Equal(t, 3, ran(w.folder, "ran-bad"))
	deliver(good)
	w.until(applied(good))
	require.Equal(t, 2, ran(w.folder, "ran-good"), "what was applied before is applied again after another plan was tried")
	require.Equal(t, "0", w.secret.value(plan.KeyFailureCount))
	require.Empty(t, w.secret.value(plan.KeyState))

	require.NoError(t, os.Remove(filepath.Join(w.o.Folder, JournalFile)))
	w.restart()
	w.looks(3)
	require.Equal(t, 2, ran(w.folder, "ran-good"), "an agent without a journal believes the Secret")
}

// TestRetries: a failed attempt goes on at the step that failed, waits longer each time, remembers that over a restart, and ends.
func TestRetries(t *testing.T) {
	w := newWorld(t)
	p := everything(w.folder)
	p.Instructions[1] = shellStep("second", "echo why not; echo x >> "+w.folder+"/ran-second; test -e "+w.folder+"/cure")
	w.secret.deliver(t, p, plan.KeyMaxFailures, "4", plan.KeyFailureThreshold, "1")
	w.until(func() bool { return w.secret.value(plan.KeyFailureCount) == "2" })
	require.Equal(t, string(plan.StateInProgress), w.secret.value(plan.KeyState))
	status := w.secret.status(t)
	require.Equal(t, "instruction second", status.Step)
	require.Equal(t, "exit status 1", status.Message)
	require.Contains(t, status.Output, "why not")
	require.NotEmpty(t, status.RetryAt)
	require.Equal(t, 2, status.Attempt)

	w.restart()
	before := w.clock.Now()
	w.until(w.state(plan.StateFailed))
	require.Equal(t, 4, ran(w.folder, "ran-second"))
	require.Equal(t, 1, ran(w.folder, "ran-first"))
	require.GreaterOrEqual(t, w.clock.Now().Sub(before), 20*time.Second)
	require.Empty(t, w.secret.status(t).RetryAt)
	writes := w.secret.writes
	w.looks(3)
	require.Equal(t, writes, w.secret.writes)
	require.Equal(t, 4, ran(w.folder, "ran-second"))

	require.NoError(t, os.WriteFile(filepath.Join(w.folder, "cure"), nil, 0o600))
	w.secret.deliver(t, p)
	w.until(w.state(plan.StateSucceeded))
	require.Equal(t, "0", w.secret.value(plan.KeyFailureCount))
	require.Empty(t, w.secret.status(t).Message)
	require.Equal(t, 2, ran(w.folder, "ran-first"), "an order begins at its beginning")
}

// TestOvertaken: a plan whose instruction hangs ends when another comes.
func TestOvertaken(t *testing.T) {
	w := newWorld(t)
	fifo := filepath.Join(w.folder, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	w.secret.deliver(t, plan.Plan{Instructions: []plan.Instruction{shellStep("hangs", "echo > "+fifo+"; exec sleep 600")}})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = os.ReadFile(fifo) // it hangs now
		w.secret.deliver(t, everything(w.folder))
		w.set(w.secret.now)
	}()
	w.until(w.state(plan.StateSucceeded))
	<-done
	require.Equal(t, 1, ran(w.folder, "ran-first"))
	require.Equal(t, "0", w.secret.value(plan.KeyFailureCount), "to be overtaken is no failure")
}

// TestHangs: an instruction that runs for long is named, by one write, and ends by itself at last, as a failure.
func TestHangs(t *testing.T) {
	w := newWorld(t)
	fifo := filepath.Join(w.folder, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	w.secret.written = make(chan *corev1.Secret, 10)
	w.secret.deliver(t, plan.Plan{Instructions: []plan.Instruction{shellStep("hangs", "echo > "+fifo+"; read x < "+fifo+"; echo why; exit 3")}})
	told := make(chan string)
	go func() {
		_, _ = os.ReadFile(fifo) // it hangs now
		w.clock.Step(longAfter)
		<-w.secret.written // the claim
		status, _ := plan.DecodeAgentStatus((<-w.secret.written).Data[plan.KeyAgentStatus])
		w.clock.Step(longAfter) // nothing more is told of it
		_ = os.WriteFile(fifo, []byte("\n"), 0o600)
		told <- status.Running
	}()
	w.until(w.state(plan.StateFailed))
	require.Equal(t, "instruction hangs since "+noon.Format(time.RFC3339), <-told)
	require.Empty(t, w.secret.status(t).Running)
	require.Equal(t, "exit status 3", w.secret.status(t).Message)
	require.Equal(t, 3, w.secret.writes)

	w = newWorld(t)
	w.o.Runner.Timeout = time.Millisecond
	w.secret.deliver(t, plan.Plan{Instructions: []plan.Instruction{shellStep("hangs", "exec sleep 600")}})
	w.until(w.state(plan.StateFailed))
	require.Equal(t, "it has not ended within 1ms", w.secret.status(t).Message)
	w.secret.deliver(t, plan.Plan{PeriodicInstructions: []plan.PeriodicInstruction{{Command: plan.Command{Name: "hangs", Script: "exec sleep 600"}}}})
	w.until(func() bool {
		all, err := plan.DecodeOutput[map[string]plan.PeriodicOutput](w.secret.now.Data[plan.KeyPeriodicOutput])
		require.NoError(t, err)
		return all["hangs"].Failures == 1
	})

	// The name of one that has ended does not stand while the next one runs.
	for name, runs := range map[string]time.Duration{"": 0, "instruction next": longAfter / 4} {
		for step, d := range []time.Duration{longAfter, runs} {
			w.begin([]string{"instruction first", name}[step])
			w.clock.Step(d)
			w.set(w.secret.now.DeepCopy())
			w.reportLong(t.Context(), w.secret.status(t).Checksum)
			require.Equal(t, step == 0, w.secret.status(t).Running != "", "%q", name)
		}
	}
}

// TestPlanThatIsNone: what cannot be applied is told, not tried.
func TestPlanThatIsNone(t *testing.T) {
	for name, tt := range map[string]struct{ raw, says string }{
		"no plan":                         {`{"files":[{"path":"relative"}]}`, "not absolute"},
		"a planner that has none":         {`{"error":"no such version"}`, "no such version"},
		"an image, and nobody to get it":  {`{"instructions":[{"command":"nothing-like-this"}]}`, "neither in PATH nor in the image"},
		"no run.sh":                       {`{"instructions":[{}]}`, "no such file"},
		"a folder in the place of a file": {`{"files":[{"path":"/proc","content":"eA=="}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.secret.put(map[string][]byte{plan.KeyPlan: []byte(tt.raw), plan.KeyState: []byte(plan.StatePending)})
			w.until(w.state(plan.StateFailed))
			require.Contains(t, w.secret.status(t).Message, tt.says)
			require.NotEmpty(t, w.secret.status(t).Step)
		})
	}
}

// TestWritesThatFail: conflicts, lost answers, refusals, a Secret that is gone, and a manager that is away.
func TestWritesThatFail(t *testing.T) {
	for name, break_ := range map[string]func(w *world, nth int) error{
		"the API server is away": func(_ *world, nth int) error {
			if nth < 4 {
				return errors.New("connection refused")
			}
			return nil
		},
		"somebody writes at the same time": func(w *world, nth int) error {
			if nth < 3 {
				data := w.secret.now.DeepCopy().Data
				data[plan.KeyProbePeriod] = []byte(fmt.Sprint(nth + 1))
				w.secret.put(data)
			}
			return nil
		},
		"every answer is lost once": func(w *world, nth int) error {
			w.secret.lost = nth%2 == 0
			return nil
		},
		"it is refused at first": func(_ *world, nth int) error {
			if nth < 2 {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "plan", errors.New("a policy"))
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			nth := -1
			w.secret.before = func() error {
				nth++
				return break_(w, nth)
			}
			w.secret.deliver(t, everything(w.folder))
			w.until(w.state(plan.StateSucceeded))
			require.Equal(t, 1, ran(w.folder, "ran-first"))
			require.Equal(t, 1, ran(w.folder, "ran-second"))
		})
	}
	t.Run("the Secret goes and comes back", func(t *testing.T) {
		w := newWorld(t)
		w.secret.deliver(t, everything(w.folder))
		w.until(w.state(plan.StateSucceeded))
		kept := w.secret.now
		w.secret.now = nil
		require.Zero(t, w.step(t.Context())) // by what the watch said before
		w.look()
		require.FileExists(t, filepath.Join(w.folder, "etc/a"), "a missing Secret is no order")
		w.secret.now = kept
		w.look()
		require.Equal(t, 1, ran(w.folder, "ran-first"))
	})
	t.Run("the Secret is one of a backup", func(t *testing.T) {
		w := newWorld(t)
		w.secret.deliver(t, everything(w.folder))
		backup := w.secret.now.DeepCopy()
		w.until(w.state(plan.StateSucceeded))
		backup.UID = "2"
		w.secret.now = backup
		w.until(w.state(plan.StateSucceeded))
		require.Equal(t, 1, ran(w.folder, "ran-first"), "the journal knows that it is done")
	})
	t.Run("the Secret is one of a backup, of before another plan", func(t *testing.T) {
		w := newWorld(t)
		w.secret.deliver(t, everything(w.folder))
		w.until(w.state(plan.StateSucceeded))
		backup := w.secret.now.DeepCopy()
		w.secret.deliver(t, plan.Plan{Files: []plan.File{plan.NewFile(filepath.Join(w.folder, "etc/a"), "", []byte("b\n"))}})
		w.until(w.state(plan.StateSucceeded))
		backup.UID = "2"
		w.secret.now = backup
		w.restart()
		w.until(func() bool { return w.state(plan.StateSucceeded)() && ran(w.folder, "ran-second") == 2 })
		content, err := os.ReadFile(filepath.Join(w.folder, "etc/a"))
		require.NoError(t, err)
		require.Equal(t, "a\n", string(content), "the host is as its Secret says")
		writes := w.secret.writes
		w.looks(5)
		require.Equal(t, writes, w.secret.writes)
	})
}

func TestProbes(t *testing.T) {
	var status atomic.Int32
	status.Store(http.StatusServiceUnavailable)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	defer server.Close()
	w := newWorld(t)
	healthy := func(is bool) func() bool {
		return func() bool {
			statuses, err := plan.DecodeProbeStatuses(w.secret.now.Data[plan.KeyProbeStatuses])
			require.NoError(t, err)
			got, ok := statuses["well"]
			return ok && got.Healthy == is
		}
	}
	w.secret.deliver(t, plan.Plan{Probes: map[string]plan.Probe{"well": {InitialDelaySeconds: 20, SuccessThreshold: 2, FailureThreshold: 2, HTTPGet: plan.HTTPGet{URL: server.URL}}}})
	w.until(w.state(plan.StateSucceeded))
	require.True(t, healthy(false)(), "with the result comes that nothing is known to be healthy")
	w.until(func() bool { return w.secret.status(t).Probes["well"] != "" })
	require.Equal(t, "it answers 503 Service Unavailable", w.secret.status(t).Probes["well"])
	require.GreaterOrEqual(t, w.clock.Now().Sub(noon), 20*time.Second)

	// Another reason takes its place, but not in every round.
	told := w.clock.Now()
	status.Store(http.StatusInternalServerError)
	w.until(func() bool { return w.secret.status(t).Probes["well"] == "it answers 500 Internal Server Error" })
	require.GreaterOrEqual(t, w.clock.Since(told), reasonPeriod)

	status.Store(http.StatusFound)
	w.until(healthy(true))
	require.Empty(t, w.secret.status(t).Probes)
	writes := w.secret.writes
	w.restart()
	w.looks(10)
	require.Equal(t, writes, w.secret.writes, "an agent that starts anew goes on from what was told")

	status.Store(http.StatusInternalServerError)
	w.until(healthy(false))
	require.Equal(t, writes+1, w.secret.writes, "one failure is none, and two are one write")
}

// TestProbes_reset: a connection that breaks off has one reason, whatever port it came from.
func TestProbes_reset(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			err = errors.Join(conn.(*net.TCPConn).SetLinger(0), conn.Close())
		}
		if err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	require.EqualError(t, ask(t.Context(), plan.Probe{HTTPGet: plan.HTTPGet{URL: server.URL}}), "read: connection reset by peer")
	require.EqualError(t, ask(t.Context(), plan.Probe{HTTPGet: plan.HTTPGet{URL: "http://127.0.0.1:1"}}), "connect: connection refused")
}

// TestProbesByCertificate: the given CA alone counts, and a certificate that is missing is a failure with a reason.
func TestProbesByCertificate(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	missing := filepath.Join(t.TempDir(), "ca.crt")
	require.ErrorContains(t, ask(t.Context(), plan.Probe{HTTPGet: plan.HTTPGet{URL: server.URL}}), "certificate signed by unknown authority")
	require.ErrorContains(t, ask(t.Context(), plan.Probe{HTTPGet: plan.HTTPGet{URL: server.URL, Insecure: true}}), "404")
	require.ErrorContains(t, ask(t.Context(), plan.Probe{HTTPGet: plan.HTTPGet{URL: server.URL, CACert: missing}}), "reading its CA certificate")
	require.ErrorContains(t, ask(t.Context(), plan.Probe{HTTPGet: plan.HTTPGet{URL: server.URL, ClientCert: missing, ClientKey: missing}}), "client certificate")
	require.ErrorContains(t, ask(t.Context(), plan.Probe{HTTPGet: plan.HTTPGet{URL: "file:///etc/passwd"}}), "not one of http")
}

func TestPeriodic(t *testing.T) {
	w := newWorld(t)
	p := plan.Plan{PeriodicInstructions: []plan.PeriodicInstruction{
		{Command: plan.Command{Name: "list", Script: "echo x >> " + w.folder + "/ran-list; echo one; echo two >&2"}, PeriodSeconds: 60, SaveStderrOutput: true},
		{Command: plan.Command{Name: "fails", Script: "echo x >> " + w.folder + "/ran-fails; exit 3"}, PeriodSeconds: 5},
	}}
	w.secret.deliver(t, p)
	outputs := func() map[string]plan.PeriodicOutput {
		all, err := plan.DecodeOutput[map[string]plan.PeriodicOutput](w.secret.now.Data[plan.KeyPeriodicOutput])
		require.NoError(t, err)
		return all
	}
	w.until(func() bool { return outputs()["fails"].Failures == 2 })
	all := outputs()
	require.Equal(t, plan.PeriodicOutput{Name: "list", Stdout: []byte("one\n"), Stderr: []byte("two\n"), LastSuccessfulRunTime: noon.Format(time.UnixDate)}, all["list"])
	require.Equal(t, 3, all["fails"].ExitCode)
	require.Equal(t, noon.Add(30*time.Second).Format(time.UnixDate), all["fails"].LastFailedRunTime, "a failure waits longer than the period")
	require.Equal(t, 1, ran(w.folder, "ran-list"))
	w.restart()
	w.until(func() bool { return ran(w.folder, "ran-list") == 2 })
	require.Equal(t, noon.Add(time.Minute), w.clock.Now(), "also after a restart")

	w.clock.SetTime(noon.Add(-time.Hour))
	w.looks(2)
	require.Equal(t, 3, ran(w.folder, "ran-list"), "a clock that was ahead delays nothing")
	require.Equal(t, noon.Add(-time.Hour).Format(time.UnixDate), outputs()["list"].LastSuccessfulRunTime)
}

// TestLongOutput: a line of any length ends no command, and what is kept is the end.
func TestLongOutput(t *testing.T) {
	w := newWorld(t)
	w.secret.deliver(t, plan.Plan{Instructions: []plan.Instruction{shellStep("long", "head -c 3000000 /dev/zero | tr '\\0' x; echo end")}})
	w.until(w.state(plan.StateSucceeded))
	output, err := plan.DecodeOutput[map[string][]byte](w.secret.now.Data[plan.KeyAppliedOutput])
	require.NoError(t, err)
	require.Len(t, output["long"], maxSavedBytes)
	require.True(t, strings.HasSuffix(string(output["long"]), "xend\n"))
}

// TestRun: the loop itself, with a watch and the real clock.
func TestRun(t *testing.T) {
	folder := t.TempDir()
	secret := newSecret(nil)
	secret.deliver(t, everything(folder))
	secret.written = make(chan *corev1.Secret, 100)
	left := filepath.Join(folder, "work", "of-another-plan")
	require.NoError(t, os.MkdirAll(left, 0o700))
	a := New(optionsIn(folder, secret))
	ended := make(chan error)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	go func() { ended <- a.Run(ctx) }()
	for s := range secret.written {
		if string(s.Data[plan.KeyState]) == string(plan.StateSucceeded) {
			break
		}
	}
	cancel()
	require.NoError(t, <-ended)
	require.Equal(t, 1, ran(folder, "ran-second"))
	require.NoDirExists(t, left)
}
