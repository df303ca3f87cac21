package process_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/process"
)

func TestStart_refuses_a_name_that_runs(t *testing.T) {
	dir := t.TempDir()
	sup := process.New()
	t.Cleanup(func() { sup.StopAll(0) })
	require.NoError(t, sup.Start(shell("etcd", filepath.Join(dir, "1"), "exec sleep 600")))
	first := sup.Processes()["etcd"]
	require.EqualError(t, sup.Start(shell("etcd", filepath.Join(dir, "2"), "exec sleep 600")), "starting etcd: it has been started already")
	require.Equal(t, map[string]int{"etcd": first}, sup.Processes(), "the first is not lost sight of")
	require.NoFileExists(t, filepath.Join(dir, "2"))
	sup.StopAll(time.Minute)
	require.ErrorIs(t, syscall.Kill(first, 0), syscall.ESRCH)
}

func TestProcesses_leaves_out_what_has_ended(t *testing.T) {
	dir := t.TempDir()
	sup := process.New()
	t.Cleanup(func() { sup.StopAll(0) })
	require.NoError(t, sup.Start(shell("short", filepath.Join(dir, "1"), "exit 1")))
	require.NoError(t, sup.Start(shell("long", filepath.Join(dir, "2"), "exec sleep 600")))
	require.ErrorContains(t, <-sup.Failed(), "short ended")
	running := sup.Processes()
	require.Len(t, running, 1, "the number of an ended process may be another's by now")
	require.Positive(t, running["long"])
}

func TestSupervisor_gives_up_what_dies_again_and_again(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	sup := process.NewWithDelay(time.Millisecond)
	t.Cleanup(func() { sup.StopAll(0) })
	spec := shell("sisyphus", log, `echo up; exit 7`)
	spec.Restart = true
	require.NoError(t, sup.Start(spec))
	err := <-sup.Failed()
	require.EqualError(t, err, "sisyphus ended: exit status 7\nlast lines of "+log+":\n"+strings.TrimSpace(strings.Repeat("up\n", 6)))
	raw, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, 6, strings.Count(string(raw), "up"), "five restarts and no more")
	require.Empty(t, sup.Processes())
}

func TestSupervisor_reports_what_cannot_be_restarted(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\nrm -f \"$0\"\n"), 0o700))
	sup := process.NewWithDelay(time.Millisecond)
	t.Cleanup(func() { sup.StopAll(0) })
	require.NoError(t, sup.Start(process.Spec{Name: "gone", Path: program, Log: filepath.Join(dir, "log"), Restart: true}))
	err := <-sup.Failed()
	require.ErrorContains(t, err, "gone ended: starting gone: fork/exec "+program+": no such file or directory")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestSupervisor_says_how_it_ended(t *testing.T) {
	for name, tc := range map[string]struct{ script, want string }{
		"exit code": {"exit 3", "c ended: exit status 3\n"},
		"success":   {"exit 0", "c ended: exit status 0\n"},
		"killed":    {"kill -KILL $$", "c ended: signal: killed\n"},
		"crashed":   {"kill -SEGV $$", "c ended: signal: segmentation fault"},
		"told":      {"kill -TERM $$", "c ended: signal: terminated\n"},
		"not found": {"exec /nowhere/at/all", "c ended: exit status 127\n"},
	} {
		t.Run(name, func(t *testing.T) {
			sup := process.New()
			t.Cleanup(func() { sup.StopAll(0) })
			require.NoError(t, sup.Start(shell("c", filepath.Join(t.TempDir(), "log"), tc.script)))
			require.ErrorContains(t, <-sup.Failed(), tc.want)
		})
	}
}

func TestSupervisor_of_many_at_once(t *testing.T) {
	const many = 16
	dir := t.TempDir()
	sup := process.New()
	var wait sync.WaitGroup
	failures := make(chan error, many)
	for i := range many {
		wait.Go(func() {
			failures <- sup.Start(shell(fmt.Sprint("c", i), filepath.Join(dir, fmt.Sprint(i)), "exec sleep 600"))
		})
	}
	wait.Wait()
	for range many {
		require.NoError(t, <-failures)
	}
	pids := sup.Processes()
	require.Len(t, pids, many)
	for range 4 { // a signal and a failure may both ask for the end
		wait.Go(func() { sup.StopAll(0) })
	}
	wait.Wait()
	sup.StopAll(0)
	require.Empty(t, sup.Processes())
	require.Empty(t, sup.Failed())
	for name, pid := range pids {
		require.Eventually(t, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH }, time.Minute, time.Millisecond, name)
	}
}

func TestStop_spares_the_children_of_a_component(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	sup := process.New()
	// As containerd does with its shims.
	require.NoError(t, sup.Start(shell("containerd", filepath.Join(dir, "log"), "sleep 600 & echo $! >"+fifo+"; wait")))
	raw, err := os.ReadFile(fifo)
	require.NoError(t, err)
	var shim int
	_, err = fmt.Sscan(string(raw), &shim)
	require.NoError(t, err)
	sup.StopAll(time.Minute)
	require.NoError(t, syscall.Kill(shim, syscall.SIGKILL), "pods outlive their runtime")
}

func TestStop_during_the_pause_between_runs(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	sup := process.NewWithDelay(time.Hour)
	spec := shell("resting", log, "exit 1")
	spec.Restart = true
	require.NoError(t, sup.Start(spec))
	require.Eventually(t, func() bool { return len(sup.Processes()) == 0 }, time.Minute, time.Millisecond)
	began := time.Now()
	sup.Stop("resting", time.Minute)
	require.Less(t, time.Since(began), 30*time.Second, "nobody waits for what does not run")
	require.Empty(t, sup.Failed())
}

func TestDiskFull(t *testing.T) {
	require.Empty(t, process.DiskFull(t.TempDir()))
	require.Empty(t, process.DiskFull(filepath.Join(t.TempDir(), "missing")))
	require.Equal(t, "no space is left on the file system of /proc\n", process.DiskFull("/proc"), "nothing can be stored there")
}

func TestEnvironment(t *testing.T) {
	have := []string{
		"PATH=/bin", "HTTP_PROXY=http://u:hush@p", "https_proxy=p", "No_Proxy=x", "ALL_PROXY=p", "HOME=/root", "PROXY=kept", "MY_PROXY_HOST=kept", "BARE_PROXY", "EMPTY=",
	}
	require.Equal(t, []string{"PATH=/bin", "HOME=/root", "PROXY=kept", "MY_PROXY_HOST=kept", "EMPTY="}, process.Environment(have))
	require.Empty(t, process.Environment(nil))
}

func TestTail_is_bounded_and_of_the_log(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	check := func(content string, lines int) {
		lines = max(0, min(lines, 50))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		got := process.Tail(path, lines)
		require.LessOrEqual(t, len(got), 16<<10)
		require.LessOrEqual(t, strings.Count(got, "\n"), max(0, lines-1))
		if !strings.Contains(content, "stacktrace") {
			require.Contains(t, content, got)
		}
	}
	for _, seed := range []string{"", "\n\n", "one\ntwo", "one\r\ntwo\x00\xff", strings.Repeat("long ", 5000)} {
		check(seed, 3)
	}
}
