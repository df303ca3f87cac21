package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/api/plan"
)

// childVariable makes the test binary an agent that obeys the Secret in a folder and kills itself at a point, as a power cut would.
const childVariable = "DROVER_AGENT_CHILD"

func TestMain(m *testing.M) {
	folder, point, ok := strings.Cut(os.Getenv(childVariable), "|")
	if !ok {
		os.Exit(m.Run())
	}
	killAt, err := strconv.Atoi(point)
	if err == nil {
		err = obey(folder, killAt)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// obey is an agent's life in a folder. Before the so-manieth thing that it does it is killed; 0 is never.
func obey(folder string, killAt int) error {
	path := filepath.Join(folder, "secret.json")
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	secret := newSecret(nil)
	if err := json.Unmarshal(content, secret.now); err != nil {
		return err
	}
	met := 0
	meet := func(point string) error {
		if met++; met == killAt {
			if err := os.WriteFile(filepath.Join(folder, "killed"), []byte(point), 0o600); err != nil {
				return err
			}
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	}
	keep := func() error {
		content, err := json.Marshal(secret.now)
		if err != nil {
			return err
		}
		return WriteFile(path, content, 0o600)
	}
	o := optionsIn(folder, secret)
	o.Fault, o.Runner.Images = meet, installer{half: func() error { return meet("the other half of an image") }}
	a := New(o)
	if a.journal, err = ReadJournal(o.Folder); err != nil {
		return err
	}
	a.written = a.journal
	for looks := 0; string(secret.now.Data[plan.KeyState]) != string(plan.StateSucceeded); looks++ {
		if looks > 100 {
			return errors.New("it never succeeds")
		}
		secret.before = func() error { return meet("write of the Secret") }
		before := secret.writes
		a.set(secret.now)
		a.step(context.Background())
		if secret.writes > before {
			if err := errors.Join(keep(), meet("what follows a write of the Secret")); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestKilled kills an agent before everything that it does, with SIGKILL, and starts it again. Afterwards all is as if it had never been killed, and every
// instruction ran once; the one whose end did not reach the journal any more runs again, with the same number.
func TestKilled(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	run := func(folder string, killAt int) error {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%d", childVariable, folder, killAt))
		out, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState.ExitCode() != -1 {
			return fmt.Errorf("%w: %s", err, out)
		}
		if cmd.ProcessState.ExitCode() == -1 {
			return errKilled
		}
		return nil
	}
	var matrix []string
	for killAt := 1; ; killAt++ {
		folder := orderedIn(t, everything)
		err := run(folder, killAt)
		if err == nil {
			break // it has no point left
		}
		require.ErrorIs(t, err, errKilled)
		point, err := os.ReadFile(filepath.Join(folder, "killed"))
		require.NoError(t, err)
		require.NoError(t, run(folder, 0))
		twice := strings.TrimPrefix(string(point), "journal of instruction ")
		matrix = append(matrix, fmt.Sprintf("%3d  before %s", killAt, strings.ReplaceAll(string(point), folder, "")))
		isApplied(t, folder, twice, string(point))
	}
	t.Logf("killed and started again, and applied once, at:\n%s", strings.Join(matrix, "\n"))
	require.Len(t, matrix, 15)
}

var errKilled = errors.New("killed")

// orderedIn is a folder with a Secret that orders a plan.
func orderedIn(t *testing.T, p func(string) plan.Plan) string {
	t.Helper()
	folder := t.TempDir()
	secret := newSecret(nil)
	secret.deliver(t, p(folder))
	content, err := json.Marshal(secret.now)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "secret.json"), content, 0o600))
	return folder
}

func isApplied(t *testing.T, folder, twice, point string) {
	t.Helper()
	for _, name := range []string{"first", "second"} {
		want := 1
		if name == twice {
			want = 2
		}
		require.Equal(t, want, ran(folder, "ran-"+name), "instruction %s, killed before %s", name, point)
	}
	content, err := os.ReadFile(filepath.Join(folder, "etc/a"))
	require.NoError(t, err)
	require.Equal(t, "a\n", string(content))
	left, err := filepath.Glob(filepath.Join(folder, "etc", ".*"))
	require.NoError(t, err)
	require.Empty(t, left)
	content, err = os.ReadFile(filepath.Join(folder, "secret.json"))
	require.NoError(t, err)
	var secret corev1.Secret
	require.NoError(t, json.Unmarshal(content, &secret))
	require.Equal(t, "1", string(secret.Data[plan.KeyRevision]))
	require.Equal(t, "1", string(secret.Data[plan.KeySuccessCount]))
	output, err := plan.DecodeOutput[map[string][]byte](secret.Data[plan.KeyAppliedOutput])
	require.NoError(t, err)
	require.Equal(t, "a\n", string(output["first"]), "output is kept over a crash")
	require.Contains(t, string(output["second"]), "1\n", "the number of the attempt is the same")
}

// TestKilledInside: the agent dies while an instruction runs, which runs again, alone: what it had started ends first.
func TestKilledInside(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	folder := orderedIn(t, func(folder string) plan.Plan {
		p := everything(folder)
		p.Instructions[1] = shellStep("second", "echo $CATTLE_AGENT_ATTEMPT_NUMBER; if mkdir "+folder+"/met; then mkfifo "+folder+"/fifo; setsid sh -c 'echo $$ > "+folder+"/left; echo > "+folder+"/fifo; exec sleep 600' & read x < "+folder+"/fifo; kill -9 $PPID; sleep 600; fi; ! grep -q sleep /proc/$(cat "+folder+"/left)/cmdline && echo x >> "+folder+"/ran-second")
		return p
	})
	for range 2 {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), childVariable+"="+folder+"|0")
		_ = cmd.Run()
	}
	isApplied(t, folder, "", "inside")
}

// TestDiskFull: each thing that an agent writes or starts fails once, then goes. Nothing of it is done twice.
func TestDiskFull(t *testing.T) {
	for fails := 1; ; fails++ {
		w := newWorld(t)
		met, point := 0, ""
		w.applier.fault = func(at string) error {
			if met++; met == fails {
				point = at
				return &os.PathError{Op: "write", Path: w.folder, Err: syscall.ENOSPC}
			}
			return nil
		}
		w.secret.deliver(t, everything(w.folder), plan.KeyMaxFailures, "-1")
		w.until(w.state(plan.StateSucceeded))
		if point == "" {
			require.Greater(t, fails, 8)
			return
		}
		for _, name := range []string{"first", "second"} {
			require.Equal(t, 1, ran(w.folder, "ran-"+name), "the disk was full at %s", point)
		}
	}
}

// TestDiskStaysFull: the agent says so and goes on when there is room.
func TestDiskStaysFull(t *testing.T) {
	w := newWorld(t)
	full := true
	w.applier.fault = func(at string) error {
		if full && strings.HasPrefix(at, "journal") {
			return &os.PathError{Op: "write", Path: "/var/lib", Err: syscall.ENOSPC}
		}
		return nil
	}
	w.secret.deliver(t, everything(w.folder))
	w.until(func() bool { return w.secret.status(t).Message != "" })
	require.Equal(t, "writing the journal: write /var/lib: no space left on device", w.secret.status(t).Message)
	require.Empty(t, w.secret.status(t).Step, "by that the planner knows it under a pending plan")
	require.True(t, w.state(plan.StatePending)())
	w.looks(20)
	require.Zero(t, ran(w.folder, "ran-first"), "nothing starts that could not be noted")
	require.Equal(t, 1, w.secret.writes)
	full = false
	w.until(w.state(plan.StateSucceeded))
	require.Equal(t, 1, ran(w.folder, "ran-first"))
	require.Empty(t, w.secret.status(t).Message)
}
