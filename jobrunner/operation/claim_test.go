package operation

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// claim runs the script as a Job does over SSH.
func (s *server) claim(arguments ...string) string {
	command := exec.CommandContext(s.t.Context(), "/bin/sh", append([]string{"-s", "--"}, arguments...)...)
	command.Stdin = strings.NewReader(claimScript)
	command.Env = []string{"PATH=" + s.path("bin") + ":/usr/sbin:/usr/bin:/sbin:/bin"}
	out, err := command.CombinedOutput()
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// Of machines that come at the same moment one gets the host, and all are told which.
func TestClaim_oneOfManyGetsTheHost(t *testing.T) {
	s := newServer(t)
	s.program("id", "echo 0")
	file := s.path("lib/claim")
	told := make([]string, 8)
	var group sync.WaitGroup
	for i := range told {
		group.Go(func() { told[i] = s.claim("take", file, fmt.Sprint("uid-", i), fmt.Sprint("team/m", i), "c1 c-uid") })
	}
	group.Wait()
	owner, _, _ := strings.Cut(told[0], "\n")
	require.Regexp(t, `^uid-\d\nteam/m\d\nc1 c-uid\n$`, told[0])
	for _, one := range told {
		require.Equal(t, told[0], one)
	}
	require.Empty(t, s.claim("release", file, "uid-9"))
	require.Equal(t, told[0], s.read("lib/claim"), "only its own machine releases it")
	require.Empty(t, s.claim("release", file, owner))
	require.Empty(t, s.claim("release", file, owner), "twice is no error")
	require.Equal(t, "uid-9\nteam/m9\n\n", s.claim("take", file, "uid-9", "team/m9", ""))
	s.program("id", "echo 1000")
	require.Equal(t, "exit status 124", s.claim("take", file, "x", "y", "z"))
}
