package nspawn

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// keep runs the keeper over a command that ends with the given codes in turn,
// and returns how often it was started.
func keep(t *testing.T, groups cgroups, codes ...string) int {
	t.Helper()
	log := filepath.Join(t.TempDir(), "starts")
	server := `echo "$1" >> "$0"; shift $(wc -l < "$0"); exit "$1"`
	args := append([]string{"-c", keeperScript, "drover-server-d1"}, groups...)
	args = append(args, "--", "sh", "-c", server, log, "name with space")
	command := exec.CommandContext(t.Context(), "/bin/sh", append(args, codes...)...)
	_ = command.Run() // its code means nothing
	content, _ := os.ReadFile(log)
	require.Equal(t, strings.Repeat("name with space\n", strings.Count(string(content), "\n")), string(content))
	return strings.Count(string(content), "\n")
}

func TestKeeperStartsAgainOnlyForAReboot(t *testing.T) {
	for name, test := range map[string]struct {
		codes  []string
		starts int
	}{
		"power off":               {[]string{"0"}, 1},
		"a reboot":                {[]string{"133", "0"}, 2},
		"two reboots":             {[]string{"133", "133", "0"}, 3},
		"a crash":                 {[]string{"1"}, 1},
		"a crash after a reboot":  {[]string{"133", "137"}, 2},
		"nearly the reboot's one": {[]string{"134"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.starts, keep(t, nil, test.codes...))
		})
	}
}

func TestKeeperEntersEveryGroupOrStartsNothing(t *testing.T) {
	groups := cgroups{filepath.Join(t.TempDir(), "cpu"), filepath.Join(t.TempDir(), "memory")}
	for _, group := range groups {
		require.NoError(t, os.Mkdir(group, 0o750))
	}
	require.Equal(t, 1, keep(t, groups, "0"))
	require.Len(t, groups.processes(), 1, "the same process is in both groups")

	require.Zero(t, keep(t, append(groups, filepath.Join(t.TempDir(), "missing")), "0"))
}

func TestNspawnCommand(t *testing.T) {
	require.Equal(t, []string{
		"systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot", "--directory=/state/servers/d1/root", "--machine=d1",
		"--network-bridge=drover0", "--capability=all", "--system-call-filter=add_key keyctl bpf @privileged",
		"--bind=/state/servers/d1/containerd:/var/lib/containerd", "--resolv-conf=off", "--timezone=off", "--link-journal=no",
		"--console=pipe",
	}, nspawnCommand("/state/servers/d1"))
}

func TestProcessIsFoundAgain(t *testing.T) {
	dir := serverDir(filepath.Join(t.TempDir(), "d1"))
	_, err := loadProcess(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "reading process of d1")
	require.NoError(t, os.MkdirAll(string(dir), 0o750))
	require.NoError(t, process{PID: 7, Start: 1<<64 - 1}.save(dir))
	found, err := loadProcess(dir)
	require.NoError(t, err)
	require.Equal(t, process{PID: 7, Start: 1<<64 - 1}, found)
	require.NoError(t, os.WriteFile(dir.in(processFile), []byte(`{"pid":`), 0o600))
	_, err = loadProcess(dir)
	require.ErrorContains(t, err, "parsing process of d1")
}

// TestAwaitEnd_powerCycle: a server without power for a moment has not ended.
func TestAwaitEnd_powerCycle(t *testing.T) {
	b, err := New(Options{Dir: t.TempDir()})
	require.NoError(t, err)
	dir, unlock, err := b.open("d1")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(string(dir), 0o750))
	ctx, cancel := context.WithCancel(t.Context())
	printed := make(chan string)
	go func() { printed <- b.AwaitEnd(ctx, "d1") }() // begins while the server has no keeper
	own, err := startTime(os.Getpid())
	require.NoError(t, err)
	time.Sleep(2 * askEvery) // so that it has looked; had it not, it would not have been misled either
	require.NoError(t, process{PID: os.Getpid(), Start: own}.save(dir))
	require.NoError(t, os.WriteFile(dir.in(consoleLog), []byte("panic\n"), 0o600))
	unlock()
	cancel()
	require.Empty(t, <-printed)

	require.NoError(t, process{PID: 7, Start: 1<<64 - 1}.save(dir))
	require.Equal(t, "its console: panic", b.AwaitEnd(t.Context(), "d1"))
}
