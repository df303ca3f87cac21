package nspawn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/server"
)

// console waits until the server's console log has the text and returns all of it.
func (b *bench) console(t *testing.T, name, text string) string {
	t.Helper()
	log := ""
	require.Eventually(t, func() bool {
		content, err := os.ReadFile(b.dir(name).in("console.log"))
		require.NoError(t, err)
		log = string(content)
		return strings.Contains(log, text)
	}, patience, tick)
	return log
}

// A server is a machine of its own: nothing of our environment belongs there.
func TestServerGetsNothingOfOurEnvironment(t *testing.T) {
	t.Setenv("DIGITALOCEAN_ACCESS_TOKEN", "marker-token")
	b := newBench(t, `env; echo end of it; exec sleep 1000`)
	require.NoError(t, b.Create(t.Context(), spec("d1")))
	log := b.console(t, "d1", "end of it")
	require.NotContains(t, log, "marker")
	require.Contains(t, log, "PATH=/usr/sbin:/usr/bin:/sbin:/bin\n")
	require.Contains(t, log, "LC_ALL=C\n")
	require.Contains(t, log, "PWD=/\n")
	info, err := os.Stat(b.dir("d1").in("console.log"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestServerOutlivesItsMaker(t *testing.T) {
	b := newBench(t, standIn)
	require.NoError(t, b.Create(t.Context(), spec("d1")))
	keeper, err := loadProcess(b.dir("d1"))
	require.NoError(t, err)
	own, err := syscall.Getpgid(os.Getpid())
	require.NoError(t, err)
	group, err := syscall.Getpgid(keeper.PID)
	require.NoError(t, err)
	require.NotEqual(t, own, group, "a signal to our group is none to the server")
	require.Equal(t, keeper.PID, group)
}

func TestConsoleIsKeptOverStarts(t *testing.T) {
	b := newBench(t, `echo boot; exec sleep 1000`)
	require.NoError(t, b.Create(t.Context(), spec("d1")))
	b.console(t, "d1", "boot\n")
	require.NoError(t, b.Power(t.Context(), "d1", server.PowerOff))
	require.NoError(t, b.Power(t.Context(), "d1", server.PowerOn))
	b.console(t, "d1", "boot\nboot\n")
}

func TestKeeperArguments(t *testing.T) {
	require.Equal(t, []string{"-c", keeperScript, "drover-server-d1", "/sys/fs/cgroup/cpu/drover/d1", "--", "systemd-nspawn", "--boot"},
		keeperArgs("/state/d1", cgroups{"/sys/fs/cgroup/cpu/drover/d1"}, []string{"systemd-nspawn", "--boot"}))
	require.Equal(t, []string{"-c", keeperScript, "drover-server-d2", "--", "x"}, keeperArgs("/state/d2", nil, []string{"x"}))
}

func TestConsoleThatCannotBeOpened(t *testing.T) {
	b := newBench(t, standIn)
	require.NoError(t, b.dir("d1").prepare(spec("d1"), b.opts))
	require.NoError(t, os.Mkdir(b.dir("d1").in("console.log"), 0o700))
	require.ErrorContains(t, b.Power(t.Context(), "d1", server.PowerOn), "opening console log: ")
	require.False(t, b.Running("d1"))
}

// One server that takes its time must not keep another waiting.
func TestServersDoNotWaitForEachOther(t *testing.T) {
	b := newBench(t, standIn)
	entered, leave := make(chan struct{}), make(chan struct{})
	b.host.mountOverlay = func(target, _ string) error {
		if strings.Contains(target, "/slow/") {
			close(entered)
			<-leave
		}
		return nil
	}
	slow := make(chan error, 1)
	go func() { slow <- b.Create(t.Context(), spec("slow")) }()
	<-entered
	require.NoError(t, b.Create(t.Context(), spec("quick")))
	require.NoError(t, b.Destroy(t.Context(), "quick"))
	gone := make(chan error, 1)
	go func() { gone <- b.Destroy(t.Context(), "slow") }()
	require.Empty(t, gone, "changes of one server come one by one")
	close(leave)
	require.NoError(t, <-slow)
	require.NoError(t, <-gone)
	require.False(t, b.Running("slow"))
}

func TestInterruptedCreationLeavesWhatDestroyRemoves(t *testing.T) {
	b := newBench(t, standIn)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := b.Create(ctx, spec("d1"))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "making root of d1: overlay: no overlay here; copy: ")
	require.False(t, b.Running("d1"))
	require.NotEmpty(t, b.Leftovers())
	require.NoError(t, b.Destroy(ctx, "d1"), "also when our own time is over")
	require.Empty(t, b.Leftovers())
}

func TestWaitForLooksOnceBeforeItsTimeIsOver(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, waitFor(over, 0, func() bool { return true }))
	require.ErrorIs(t, waitFor(over, time.Hour, func() bool { return false }), context.Canceled)
	require.ErrorIs(t, waitFor(t.Context(), time.Nanosecond, func() bool { return false }), context.DeadlineExceeded)
	looks := 0
	require.NoError(t, waitFor(t.Context(), time.Hour, func() bool { looks++; return looks == 3 }))
	require.Equal(t, 3, looks)
}

// sleeper starts a process and returns its id.
func sleeper(t *testing.T) int {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sleep", "1000")
	require.NoError(t, command.Start())
	go func() { _ = command.Wait() }()
	return command.Process.Pid
}

func TestKillAllKillsEveryProcessOfEveryGroup(t *testing.T) {
	pids := []int{sleeper(t), sleeper(t), sleeper(t)}
	groups := cgroups{t.TempDir(), t.TempDir()}
	nested := filepath.Join(groups[0], "system.slice", "containerd.service")
	require.NoError(t, os.MkdirAll(nested, 0o700))
	writePid(t, groups[0], pids[0])
	writePid(t, nested, pids[1])
	writePid(t, groups[1], pids[2])
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.EqualError(t, killAll(ctx, process{}, groups), "waiting for its processes to go: context canceled")
	for _, pid := range pids {
		requireGone(t, pid)
	}
	require.NoError(t, killAll(t.Context(), process{}, cgroups{t.TempDir(), "/no/such/group"}))
	require.NoError(t, killAll(t.Context(), process{}, nil))
}

func TestGroupErrorsNameTheGroup(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.ErrorContains(t, cgroups{filepath.Join(file, "drover", "d1")}.create(), "making control group: mkdir "+file)

	odd := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(odd, "cpuset.cpus"), 0o700))
	require.ErrorContains(t, cgroups{filepath.Join(odd, "drover", "d1")}.create(), "reading cpuset.cpus: read "+odd)

	full := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(full, "cpuset.cpus"), []byte("0\n"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(full, "drover", "cpuset.cpus"), 0o700))
	require.ErrorContains(t, cgroups{filepath.Join(full, "drover", "d1")}.create(), "writing cpuset.cpus: open "+full)

	busy := filepath.Join(t.TempDir(), "drover", "d1")
	require.NoError(t, os.MkdirAll(busy, 0o700))
	writePid(t, busy, 1)
	require.EqualError(t, cgroups{busy}.remove(), "removing control group "+busy+": directory not empty")
}

func TestLeftoversNameProcesses(t *testing.T) {
	b := newBench(t, standIn)
	require.NoError(t, b.dir("d1").prepare(spec("d1"), b.opts))
	group := t.TempDir()
	writePid(t, group, 4711)
	whole := b.host
	b.host.cgroups = func(string) (cgroups, error) { return cgroups{group}, nil }
	require.Equal(t, []string{"directory " + string(b.dir("d1")), "process 4711 of d1"}, b.Leftovers())
	b.host.cgroups = func(string) (cgroups, error) { return nil, errors.New("reading mounts: no /proc") }
	require.Equal(t, []string{"directory " + string(b.dir("d1")), "reading mounts: no /proc"}, b.Leftovers())
	b.host = whole
	require.NoError(t, os.RemoveAll(b.opts.Dir))
	require.NoError(t, os.WriteFile(b.opts.Dir, nil, 0o600))
	require.Len(t, b.Leftovers(), 1)
	require.Contains(t, b.Leftovers()[0], "listing servers: ")
	_, err := b.Names()
	require.ErrorContains(t, err, "listing servers: ")
	require.ErrorContains(t, b.DestroyAll(t.Context()), "listing servers: ")
	require.NoError(t, os.Remove(b.opts.Dir))
}

func TestHostIsTheRealOneUnlessTold(t *testing.T) {
	b, err := New(Options{Dir: t.TempDir()})
	require.NoError(t, err)
	require.Equal(t, nspawnCommand("/s/d1"), b.host.command("/s/d1"))
	want, err := findCgroups("d1")
	require.NoError(t, err)
	got, err := b.host.cgroups("d1")
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, b.host.removeInterface(t.Context(), "vb-no-such"), "what is not there is no error")
	require.NoError(t, b.host.unmountBelow(t.TempDir()))
	require.Error(t, b.host.mountOverlay("/no/such/target", "lowerdir=/no/such"))
}

func TestCableFitsAnInterfaceName(t *testing.T) {
	const longestInterface = 15
	for _, name := range []string{"d1", "d170000001", "s7-100000", "d99999999999"} {
		require.True(t, serverName.MatchString(name), name)
		require.LessOrEqual(t, len(cable(name)), longestInterface, name)
	}
	require.False(t, serverName.MatchString("d999999999999"))
}

// TestOverlayOptionsAreReadBack takes options apart as the kernel does and finds the paths again.
func TestOverlayOptionsAreReadBack(t *testing.T) {
	check := func(image, dir string) {
		if strings.ContainsRune(image+dir, 0) {
			return
		}
		d := serverDir("/" + dir)
		options := splitUnescaped(overlayOptions(image, d), ',')
		require.Len(t, options, 3)
		layers := splitUnescaped(strings.TrimPrefix(options[0], "lowerdir="), ':')
		require.Len(t, layers, 1, "one image, however its path is written")
		require.Equal(t, image, unescape(layers[0]))
		require.Equal(t, "upperdir="+d.upper(), unescape(options[1]))
		require.Equal(t, "workdir="+d.work(), unescape(options[2]))
	}
	check("/cache/image", "/state/d1")
	check(`/a,b:c\d`, `/x\,y:z`)
}

func splitUnescaped(text string, at byte) []string {
	parts := []string{""}
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			parts[len(parts)-1] += text[i : i+2]
			i++
		case text[i] == at:
			parts = append(parts, "")
		default:
			parts[len(parts)-1] += text[i : i+1]
		}
	}
	return parts
}

func unescape(text string) string {
	var plain strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			i++
		}
		plain.WriteByte(text[i])
	}
	return plain.String()
}

// TestMountPointIsReadBack writes a mount as the kernel does, four characters escaped, and reads it back.
func TestMountPointIsReadBack(t *testing.T) {
	check := func(name string) {
		if name == "" || strings.ContainsAny(name, "\x00\r\v\f\u0085\u00a0") {
			return
		}
		for _, r := range name {
			if r > 127 {
				return
			}
		}
		path := "/mnt/" + name
		escaped := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace(path)
		line := fmt.Sprintf("50 27 0:50 / %s rw shared:1 - overlay overlay rw,lowerdir=/x\n", escaped)
		require.Equal(t, []string{path}, parseMountPoints(line))
	}
	check("with space")
	check("tab\tand\nline and \\ and \\040")
}

// TestFollowKeepsTheEnd feeds what an installation may print.
func TestFollowKeepsTheEnd(t *testing.T) {
	check := func(output string) {
		tail := newProgress(nil).follow(strings.NewReader(output))
		lines := strings.Split(strings.TrimSuffix(output, "\n"), "\n")
		if output == "" {
			lines = nil
		}
		require.Len(t, tail, min(len(lines), tailLines))
		for i, line := range tail {
			require.LessOrEqual(t, len(line), maxLine)
			whole := lines[len(lines)-len(tail)+i]
			require.True(t, strings.HasPrefix(whole, line), "%q is not the beginning of %q", line, whole)
		}
	}
	check("I: Retrieving\nE: failed\n")
	check(strings.Repeat("x", 10000) + "\r\n\n\n")
}

// A server that cannot go on tells why on its console alone.
func TestAwaitEnd(t *testing.T) {
	b := newBench(t, `echo boot; printf 'Failed to allocate manager object: \033[1mToo many open files\r\n'; exit 1`)
	require.NoError(t, b.Create(t.Context(), spec("d1")))
	require.Equal(t, "its console: boot; Failed to allocate manager object: [1mToo many open files", b.AwaitEnd(t.Context(), "d1"))

	b = newBench(t, standIn)
	require.NoError(t, b.Create(t.Context(), spec("d1")))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Empty(t, b.AwaitEnd(ended, "d1"), "it runs")
}
