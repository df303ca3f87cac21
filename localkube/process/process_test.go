package process_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/localkube/process"
)

// grandparent makes the test binary a parent whose death can be watched.
const grandparent = "LOCALKUBE_TEST_PARENT"

func TestMain(m *testing.M) {
	if log := os.Getenv(grandparent); log != "" {
		sup := process.New()
		if err := sup.Start(shell("child", log, "sleep 600")); err != nil {
			os.Exit(1)
		}
		_, _ = os.Stdout.WriteString(strconv.Itoa(sup.Processes()["child"]) + "\n")
		select {}
	}
	os.Exit(m.Run())
}

func shell(name, log, script string) process.Spec {
	return process.Spec{Name: name, Path: "/bin/sh", Args: []string{"-c", script}, Log: log}
}

func TestSupervisor_reports_the_end_with_its_log(t *testing.T) {
	sup := process.New()
	t.Cleanup(func() { sup.StopAll(0) })
	require.NoError(t, sup.Start(shell("sad", filepath.Join(t.TempDir(), "logs", "sad.log"), "echo no luck; exit 3")))
	err := <-sup.Failed()
	require.ErrorContains(t, err, "sad ended: exit status 3")
	require.ErrorContains(t, err, "no luck")
}

func TestSupervisor_restarts(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	sup := process.New()
	t.Cleanup(func() { sup.StopAll(0) })
	spec := shell("phoenix", log, `echo run >>`+log+`.runs; if [ $(wc -l <`+log+`.runs) -ge 2 ]; then echo again >`+log+`.ready; sleep 600; fi; exit 1`)
	spec.Restart = true
	require.NoError(t, syscall.Mkfifo(log+".ready", 0o600))
	require.NoError(t, sup.Start(spec))
	said, err := os.ReadFile(log + ".ready") // blocks until the second run writes
	require.NoError(t, err)
	require.Equal(t, "again\n", string(said))
	require.Empty(t, sup.Failed())
}

func TestSupervisor_stops_in_reverse_order(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	require.NoError(t, syscall.Mkfifo(log+".ready", 0o600))
	sup := process.New()
	for _, name := range []string{"one", "two", "three"} {
		require.NoError(t, sup.Start(shell(name, log, `trap "echo `+name+`; exit" TERM; echo up >`+log+`.ready; while :; do sleep 0.01; done`)))
		_, err := os.ReadFile(log + ".ready")
		require.NoError(t, err)
	}
	sup.StopAll(time.Minute)
	raw, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, "three\ntwo\none\n", string(raw))
	require.Empty(t, sup.Processes())
	require.Empty(t, sup.Failed(), "stopping is not failing")
}

func TestSupervisor_kills_what_does_not_listen(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	require.NoError(t, syscall.Mkfifo(log+".ready", 0o600))
	sup := process.New()
	require.NoError(t, sup.Start(shell("deaf", log, `trap "" TERM; echo up >`+log+`.ready; while :; do sleep 0.01; done`)))
	_, err := os.ReadFile(log + ".ready")
	require.NoError(t, err)
	sup.Stop("deaf", time.Millisecond)
	require.Empty(t, sup.Processes())
}

func TestChildren_die_with_the_parent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), grandparent+"="+filepath.Join(t.TempDir(), "log"))
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	child, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	fd, err := unix.PidfdOpen(child, 0)
	require.NoError(t, err)
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait() // it was killed
	// A pidfd is readable when its process has ended.
	ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
	require.NoError(t, err)
	require.Equal(t, 1, ready, "the kernel ends the child")
}

func TestSupervisor_leaves_proxy_settings_out(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://proxy.example")
	log := filepath.Join(t.TempDir(), "log")
	sup := process.New()
	t.Cleanup(func() { sup.StopAll(0) })
	require.NoError(t, sup.Start(shell("env", log, `env; exit 1`)))
	<-sup.Failed()
	raw, err := os.ReadFile(log)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "proxy.example")
}
