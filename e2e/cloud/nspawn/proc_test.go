package nspawn

import (
	"os"
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

func FuzzParseMounts(f *testing.F) {
	f.Add(mountinfo)
	f.Fuzz(func(_ *testing.T, text string) {
		parseMountPoints(text)
		parseCgroupMounts(text)
	})
}

func FuzzParseStartTime(f *testing.F) {
	f.Add("7 (a) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 0 0")
	f.Fuzz(func(_ *testing.T, stat string) {
		_, _ = parseStartTime(stat)
	})
}
