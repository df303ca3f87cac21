package nspawn

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const mountinfo = `22 27 0:21 / /proc rw,relatime - proc proc rw
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:4 - cgroup2 cgroup2 rw
50 27 0:50 / /mnt/with\040space rw - overlay overlay rw
60 27 0:51 / /elsewhere/cgroup rw - cgroup cgroup rw
`

func TestParseMounts(t *testing.T) {
	require.Equal(t, []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified"}, parseCgroupMounts(mountinfo))
	require.Contains(t, parseMountPoints(mountinfo), "/mnt/with space")
	require.Len(t, parseMountPoints(mountinfo), 5)
}

func TestParseStartTime(t *testing.T) {
	alive := "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 0 0\n"
	start, err := parseStartTime(alive)
	require.NoError(t, err)
	require.Equal(t, uint64(4711), start)
	for name, stat := range map[string]string{
		"zombie": "7 (a) Z 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 0 0",
		"short":  "7 (a) S 1", "empty": "", "no number": "7 (a) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 x 0 0",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseStartTime(stat)
			require.Error(t, err)
		})
	}
	_, err = startTime(os.Getpid())
	require.NoError(t, err)
}

func TestProcessOfAnotherLifeIsNotAlive(t *testing.T) {
	start, err := startTime(os.Getpid())
	require.NoError(t, err)
	require.True(t, process{PID: os.Getpid(), Start: start}.alive())
	require.False(t, process{PID: os.Getpid(), Start: start + 1}.alive())
	require.NoError(t, process{PID: os.Getpid(), Start: start + 1}.kill())
	require.False(t, process{}.alive())
}

func itoa(pid int) string { return strconv.Itoa(pid) }

func TestParseStartTimeSaysWhatIsWrong(t *testing.T) {
	for stat, want := range map[string]string{
		"":                                "parsing process state: too short",
		"7 a S 1 7 7":                     "parsing process state: too short",
		"7 (a) S 1 7 7":                   "parsing process state: too short",
		"7 (a)":                           "parsing process state: too short",
		stat("Z", "4711"):                 "parsing process state: it is dead",
		stat("X", "4711"):                 "parsing process state: it is dead",
		stat("S", "-1"):                   `parsing process start: strconv.ParseUint: parsing "-1": invalid syntax`,
		stat("S", "99999999999999999999"): `parsing process start: strconv.ParseUint: parsing "99999999999999999999": value out of range`,
	} {
		_, err := parseStartTime(stat)
		require.EqualError(t, err, want, stat)
	}
	for _, name := range []string{"sh", "a b", "Z)", ") S 1 2 3", "(((", ""} {
		start, err := parseStartTime("7 (" + name + ") S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 18446744073709551615 0 0\n")
		require.NoError(t, err, name)
		require.Equal(t, uint64(1<<64-1), start, name)
	}
}

func stat(state, start string) string {
	return "7 (a) " + state + " 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 " + start + " 0 0"
}

func TestParseMountsOfOddLines(t *testing.T) {
	for line, want := range map[string]struct{ mounts, cgroups []string }{
		"":                                {},
		"one two three":                   {},
		"32 31 0:29 / /sys/fs/cgroup/cpu": {mounts: []string{"/sys/fs/cgroup/cpu"}},
		`1 2 0:3 / /a\134040b rw - x x x`: {mounts: []string{`/a\040b`}},
		`1 2 0:3 / /a\011b\012c rw - tmpfs tmpfs rw`:              {mounts: []string{"/a\tb\nc"}},
		"1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw":        {mounts: []string{"/sys/fs/cgroup"}, cgroups: []string{"/sys/fs/cgroup"}},
		"1 2 0:3 / /sys/fs/cgroup rw - tmpfs cgroup rw":           {mounts: []string{"/sys/fs/cgroup"}},
		"1 2 0:3 / /sys/fs/cgroup/x rw shared:1 - cgroup c rw":    {mounts: []string{"/sys/fs/cgroup/x"}, cgroups: []string{"/sys/fs/cgroup/x"}},
		"1 2 0:3 / /home/u/sys/fs/cgroup rw - cgroup2 cgroup2 rw": {mounts: []string{"/home/u/sys/fs/cgroup"}},
	} {
		require.Equal(t, want.mounts, parseMountPoints(line+"\n"), line)
		require.Equal(t, want.cgroups, parseCgroupMounts(line+"\n"), line)
	}
}

func TestProcessesAreFoundBelowTheKeeper(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		want   string
	}{
		"none": {`echo ready; read -r _; true`, "it has 0"},
		"one":  {`sleep 100 & echo ready; read -r _; kill $!`, ""},
		"two":  {`sleep 100 & one=$!; sleep 100 & echo ready; read -r _; kill $! $one`, "it has 2"},
	} {
		t.Run(name, func(t *testing.T) {
			command := exec.CommandContext(t.Context(), "sh", "-c", test.script)
			in, err := command.StdinPipe()
			require.NoError(t, err)
			out, err := command.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, command.Start())
			_, err = out.Read(make([]byte, 6))
			require.NoError(t, err)
			keeper := process{PID: command.Process.Pid}
			child, err := keeper.nspawn()
			if test.want == "" {
				require.NoError(t, err)
				require.Positive(t, child)
				_, err = keeper.system()
				require.EqualError(t, err, "finding child of process "+itoa(child)+": it has 0")
			} else {
				require.EqualError(t, err, "finding child of process "+itoa(keeper.PID)+": "+test.want)
				_, err = keeper.system()
				require.ErrorContains(t, err, test.want)
			}
			require.NoError(t, in.Close())
			require.NoError(t, command.Wait())
			_, err = keeper.nspawn()
			require.ErrorIs(t, err, os.ErrNotExist)
		})
	}
}

// The worst a torn process file could do is to name process 1: as a group, that is everyone.
func TestProcessesThatAreNeverKilled(t *testing.T) {
	own, err := startTime(os.Getpid())
	require.NoError(t, err)
	first, _ := startTime(1)
	for _, p := range []process{{}, {PID: -1}, {PID: 1, Start: first}, {PID: os.Getpid(), Start: own + 1}, {PID: 1 << 30, Start: 1}} {
		require.False(t, p.alive(), "%+v", p)
		require.NoError(t, p.kill(), "%+v", p)
	}
}

func TestKillEndsTheWholeGroup(t *testing.T) {
	command := exec.CommandContext(t.Context(), "sh", "-c", "sleep 1000 & echo $!; wait")
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	child, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	start, err := startTime(command.Process.Pid)
	require.NoError(t, err)
	keeper := process{PID: command.Process.Pid, Start: start}
	require.True(t, keeper.alive())
	require.NoError(t, keeper.kill())
	require.Error(t, command.Wait())
	require.False(t, keeper.alive())
	requireGone(t, child)
	require.NoError(t, keeper.kill(), "killed already")
}

func TestGroupsOfThisMachineAreBesideEachOther(t *testing.T) {
	groups, err := findCgroups("d1")
	require.NoError(t, err)
	for _, group := range groups {
		require.Equal(t, filepath.Join(cgroupParent, "d1"), filepath.Join(filepath.Base(filepath.Dir(group)), filepath.Base(group)))
		require.True(t, strings.HasPrefix(group, "/sys/fs/cgroup/"), group)
	}
	require.False(t, isMounted("/no/such/mount"))
	require.True(t, isMounted("/proc"))
}

// unmountBelow must take a path for the directory, not for what its name begins with.
func TestUnmountBelowLeavesTheRestAlone(t *testing.T) {
	before, err := mountPoints()
	require.NoError(t, err)
	require.NoError(t, unmountBelow(t.TempDir()))
	require.NoError(t, unmountBelow("/pro"), "not /proc")
	after, err := mountPoints()
	require.NoError(t, err)
	require.Equal(t, before, after)
}
