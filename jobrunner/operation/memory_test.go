package operation

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRanOutOfMemory(t *testing.T) {
	for name, c := range map[string]struct {
		file, content string
		want          bool
	}{
		"v2, nothing happened":       {"memory.events", "low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\noom_group_kill 0\n", false},
		"v2, a process was ended":    {"memory.events", "low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\noom_group_kill 0\n", true},
		"v1, nothing happened":       {"memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n", false},
		"v1, processes were ended":   {"memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 1\noom_kill 17\n", true},
		"v1 of a kernel before 4.13": {"memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 1\n", false},
		"something else":             {"memory.events", "oom_kill\n\x00\n", false},
		"no control groups":          {"other", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			require.NoError(t, os.MkdirAll(filepath.Join(root, "memory"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(root, c.file), []byte(c.content), 0o600))
			require.Equal(t, c.want, ranOutOfMemory(root))
		})
	}
}
