package operation

import (
	"os"
	"path/filepath"
	"strings"
)

// cgroups is where a container sees its own control groups.
const cgroups = "/sys/fs/cgroup"

// ranOutOfMemory tells whether the kernel ended a process of this container for the memory limit: the counter oom_kill of
// cgroup v2's memory.events or of cgroup v1's memory.oom_control (the kernel's admin-guide/cgroup-v2 and cgroup-v1/memory).
func ranOutOfMemory(root string) bool {
	for _, name := range []string{"memory.events", "memory/memory.oom_control"} {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(content)) {
			if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "oom_kill" {
				return fields[1] != "0"
			}
		}
	}
	return false
}
