package bench

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/testkit"
)

// ticks are how often a second /proc counts CPU time, on every Linux that Go runs on (proc(5), sysconf(_SC_CLK_TCK)).
const ticks = 100

// manager is bin/manager in a process of its own.
type manager struct {
	testing.TB
	cmd               *exec.Cmd
	log               *bytes.Buffer
	health, profiling string
}

// startManager runs one that lives in a namespace, and returns when the manager is ready, which is when its caches are filled.
func startManager(tb testing.TB, kubeconfig, namespace string, flags ...string) *manager {
	tb.Helper()
	binary, err := filepath.Abs("../../bin/manager")
	require.NoError(tb, err)
	require.FileExists(tb, binary, "run make build first")
	webhooks, health := testkit.FreePort(tb), testkit.FreePort(tb)
	m := &manager{TB: tb, log: &bytes.Buffer{}, health: "127.0.0.1:" + health, profiling: "127.0.0.1:" + testkit.FreePort(tb)}
	m.cmd = exec.Command(binary, append(flags, "--kubeconfig="+kubeconfig, "--machine-image=drover.local/drover:test", "--manager-namespace="+namespace,
		"--metrics-bind-address=0", "--health-probe-bind-address="+m.health, "--profiling-bind-address="+m.profiling, "--webhook-host=127.0.0.1",
		"--webhook-port="+webhooks, "--webhook-url=https://localhost:"+webhooks)...)
	m.cmd.Stdout, m.cmd.Stderr = m.log, m.log
	require.NoError(tb, m.cmd.Start())
	tb.Cleanup(m.stop)
	testkit.Eventually(tb, 2*time.Minute, m.ready)
	return m
}

func (m *manager) ready() error {
	req, err := http.NewRequestWithContext(m.Context(), http.MethodGet, "http://"+m.health+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %s", err, m.log)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s: %s", resp.Status, m.log)
	}
	return nil
}

// stop ends the manager; a second call does nothing.
func (m *manager) stop() {
	m.Helper()
	if m.cmd.ProcessState != nil {
		return
	}
	require.NoError(m, m.cmd.Process.Signal(syscall.SIGTERM))
	if err := m.cmd.Wait(); err != nil {
		m.Errorf("the manager must end well: %v: %s", err, m.log)
	}
}

// cpu is the time that the manager has had a core for.
func (m *manager) cpu() time.Duration {
	m.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.cmd.Process.Pid))
	require.NoError(m, err)
	d, err := cpuOf(string(raw))
	require.NoError(m, err)
	return d
}

// cpuOf reads utime and stime, fields 14 and 15 of proc(5)'s stat, counted behind the name in brackets.
func cpuOf(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("reading CPU time: %d fields", len(fields))
	}
	var sum int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading CPU time: %w", err)
		}
		sum += n
	}
	return time.Duration(sum) * time.Second / ticks, nil
}

// memory is the manager's resident size now and at its highest, in MiB.
func (m *manager) memory() (now, peak float64) {
	m.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.cmd.Process.Pid))
	require.NoError(m, err)
	return statusMiB(string(raw), "VmRSS"), statusMiB(string(raw), "VmHWM")
}

func statusMiB(status, name string) float64 {
	for line := range strings.Lines(status) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == name+":" {
			kib, _ := strconv.ParseFloat(fields[1], 64)
			return kib / 1024
		}
	}
	return 0
}

func TestCPUOf(t *testing.T) {
	d, err := cpuOf("42 (a (b) c) S 1 42 42 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 9 0 1 2 3")
	require.NoError(t, err)
	require.Equal(t, 3*time.Second, d)
	for _, bad := range []string{"", "42 (x) S 1", "42 (x) S 1 42 42 0 -1 4194560 1 0 0 0 x 50 0"} {
		_, err := cpuOf(bad)
		require.Error(t, err, bad)
	}
}

func TestStatusMiB(t *testing.T) {
	const status = "Name:\tmanager\nVmHWM:\t  204800 kB\nVmRSS:\t   51200 kB\n"
	require.InDelta(t, 200, statusMiB(status, "VmHWM"), 0)
	require.InDelta(t, 50, statusMiB(status, "VmRSS"), 0)
	require.Zero(t, statusMiB(status, "VmSwap"))
}
