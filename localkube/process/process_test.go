package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func shell(t *testing.T, name, script string) Spec {
	t.Helper()
	return Spec{Name: name, Path: "/bin/sh", Args: []string{"-c", script}, Log: filepath.Join(t.TempDir(), "logs", name+".log")}
}

func TestSupervisor_reports_the_end_with_its_log(t *testing.T) {
	s := New()
	t.Setenv("https_proxy", "http://x")
	spec := shell(t, "etcd", `echo "proxy: $https_proxy."; echo reason; echo; echo "goroutine 1 [running]:"; exit 3`)
	require.NoError(t, s.Start(spec))
	require.EqualError(t, <-s.fail, "etcd ended: exit status 3\nlast lines of "+spec.Log+":\nproxy: .\nreason")
	require.NoError(t, s.Start(shell(t, "b", "exit 0")))
	require.ErrorContains(t, <-s.fail, "b ended: exit status 0\n")
	require.ErrorContains(t, s.Start(Spec{Name: "x", Path: "/none", Log: spec.Log}), "starting x: ")
	s.StopAll(0)
}

func TestSupervisor_restarts(t *testing.T) {
	s := New()
	count := filepath.Join(t.TempDir(), "count")
	spec := shell(t, "scheduler", "echo run >>"+count+"; [ $(wc -l <"+count+") -lt 2 ] || sleep 1000")
	spec.Restart = true
	require.NoError(t, s.Start(spec))
	require.Eventually(t, func() bool {
		raw, _ := os.ReadFile(count)
		return strings.Count(string(raw), "run") == 2
	}, time.Minute, 10*time.Millisecond)
	s.StopAll(time.Minute)
	require.Empty(t, s.fail)
	s.Stop("scheduler", 0)
}

func TestSupervisor_stops_in_reverse_order_and_kills_what_does_not_listen(t *testing.T) {
	s := New()
	out := filepath.Join(t.TempDir(), "out")
	for _, name := range []string{"first", "second"} {
		require.NoError(t, s.Start(shell(t, name, `trap "echo `+name+` >>`+out+`; exit" TERM; echo ready-`+name+` >>`+out+`; while :; do sleep 0.01; done`)))
	}
	require.NoError(t, s.Start(shell(t, "deaf", `trap "" TERM; echo ready-deaf >>`+out+`; while :; do sleep 0.01; done`)))
	require.Eventually(t, func() bool {
		raw, _ := os.ReadFile(out)
		return strings.Count(string(raw), "ready") == 3
	}, time.Minute, 10*time.Millisecond)
	s.Stop("deaf", 100*time.Millisecond)
	s.StopAll(time.Minute)
	raw, err := os.ReadFile(out)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(raw), "second\nfirst\n"), "%s", raw)
}

func TestChildren_die_with_the_parent(t *testing.T) {
	if pid := os.Getenv("LOCALKUBE_TEST_PARENT"); pid != "" {
		require.NoError(t, New().Start(Spec{Name: "child", Path: "/bin/sh", Args: []string{"-c", "echo $$ >" + pid + ".new; mv " + pid + ".new " + pid + "; exec sleep 1000"}, Log: pid + ".log"}))
		select {}
	}
	pid := filepath.Join(t.TempDir(), "pid")
	parent := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	parent.Env = append(os.Environ(), "LOCALKUBE_TEST_PARENT="+pid)
	require.NoError(t, parent.Start())
	require.Eventually(t, func() bool { _, err := os.Stat(pid); return err == nil }, time.Minute, 10*time.Millisecond)
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait() // it was killed
	raw, err := os.ReadFile(pid)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		line, err := os.ReadFile("/proc/" + strings.TrimSpace(string(raw)) + "/stat")
		return err != nil || strings.Contains(string(line), ") Z ")
	}, time.Minute, 10*time.Millisecond)
}
