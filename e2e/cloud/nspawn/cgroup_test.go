package nspawn

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// hierarchy returns a directory that looks like a mounted hierarchy.
func hierarchy(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return dir
}

func TestGroupsInheritCPUsAndMemory(t *testing.T) {
	cpuset := hierarchy(t, map[string]string{"cpuset.cpus": "0-1\n", "cpuset.mems": "0\n"})
	unified := hierarchy(t, map[string]string{"cpuset.cpus": "\n", "cpuset.mems": "\n"}) // version 2: nothing set
	memory := hierarchy(t, nil)
	limited := filepath.Join(memory, "drover", "d1", "memory.max") // as a hierarchy with that controller has it
	require.NoError(t, os.MkdirAll(filepath.Dir(limited), 0o750))
	require.NoError(t, os.WriteFile(limited, []byte("max\n"), 0o600))
	groups := cgroups{filepath.Join(cpuset, "drover", "d1"), filepath.Join(unified, "drover", "d1"), filepath.Join(memory, "drover", "d1")}
	require.NoError(t, groups.create())
	require.NoError(t, groups.create(), "made already")
	for file, want := range map[string]string{"cpuset.cpus": "0-1\n", "cpuset.mems": "0\n"} {
		content, err := os.ReadFile(filepath.Join(cpuset, "drover", "d1", file))
		require.NoError(t, err)
		require.Equal(t, want, string(content))
	}
	content, err := os.ReadFile(limited)
	require.NoError(t, err)
	require.Equal(t, "4294967296", string(content))
	require.NoFileExists(t, filepath.Join(unified, "drover", "d1", "cpuset.cpus"))
	require.NoFileExists(t, filepath.Join(memory, "drover", "d1", "cpuset.cpus"))
}

func TestGroupsAreRemovedInnermostFirst(t *testing.T) {
	dir := hierarchy(t, nil)
	first, second := cgroups{filepath.Join(dir, "drover", "d1")}, cgroups{filepath.Join(dir, "drover", "d2")}
	require.NoError(t, first.create())
	require.NoError(t, second.create())
	require.NoError(t, os.MkdirAll(filepath.Join(first[0], "system.slice", "ssh.service"), 0o750))
	require.NoError(t, first.remove())
	require.NoDirExists(t, first[0])
	require.DirExists(t, second[0])
	require.NoError(t, first.remove(), "removed already")
	require.NoError(t, second.remove())
	require.NoDirExists(t, filepath.Join(dir, "drover"))
}

func TestProcessesOfNestedGroupsAreCountedOnce(t *testing.T) {
	group := filepath.Join(hierarchy(t, nil), "d1")
	require.Empty(t, cgroups{group}.processes(), "not made")
	require.NoError(t, os.MkdirAll(filepath.Join(group, "init.scope"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("12\n0\n-1\nodd\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(group, "init.scope", "cgroup.procs"), []byte("12\n13\n"), 0o600))
	require.Equal(t, []int{12, 13}, cgroups{group}.processes())
}
