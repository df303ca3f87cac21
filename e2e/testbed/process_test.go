package testbed

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProgramsAreFoundWhereTheyAre(t *testing.T) {
	b := newBench(t)
	b.programs(t, nil)
	write := func(path string, mode os.FileMode) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"), mode))
	}
	write(filepath.Join(b.in(shimsDir), "both"), 0o700)
	write(filepath.Join(b.BinDir, "both"), 0o700)
	write(filepath.Join(b.in(shimsDir), "plain"), 0o600)
	require.NoError(t, os.Mkdir(filepath.Join(b.BinDir, "folder"), 0o700))
	for name, want := range map[string]string{
		"kubectl": filepath.Join(b.in(shimsDir), "kubectl"),
		"drover":  filepath.Join(b.BinDir, "drover"),
		"both":    filepath.Join(b.BinDir, "both"),
		"plain":   "", "folder": "", "sh": "", // the machine's own are not ours
	} {
		path, err := b.lookup(name)
		if want == "" {
			require.EqualError(t, err, name+" is not in "+b.BinDir+": run make build")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, path)
	}
}

func TestRunTellsTheEndOfALongStory(t *testing.T) {
	b := newBench(t)
	b.programs(t, map[string]string{"drover": `echo out; i=0; while [ $i -lt 500 ]; do echo "line $i" >&2; i=$((i+1)); done; echo last; exit 9`})
	out, err := b.run(t.Context(), "drover", "get")
	require.Equal(t, "out\nlast\n", out)
	require.ErrorContains(t, err, "running drover get: exit status 9\n…")
	require.True(t, strings.HasSuffix(err.Error(), "line 499\nout\nlast"), err)
	require.Less(t, len(err.Error()), 2100)
}

func TestPipeHandsOverAllOfItsInput(t *testing.T) {
	b := newBench(t)
	b.programs(t, map[string]string{"manager": "wc -c"})
	out, err := b.pipe(t.Context(), strings.NewReader(strings.Repeat("x", 1<<20)), "manager")
	require.NoError(t, err)
	require.Equal(t, "1048576", strings.TrimSpace(out))
	out, err = b.run(t.Context(), "manager")
	require.NoError(t, err)
	require.Equal(t, "0", strings.TrimSpace(out), "without input there is none, not ours")
}

// A demo that is interrupted takes everything away all the same.
func TestInterruptedDemoRemovesEveryTrace(t *testing.T) {
	b := startUp(t)
	scripts := story()
	scripts["drover"] = `[ "$1" = get ] && { touch reached; exec sleep 1000; }; exit 1`
	b.programs(t, scripts)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- b.DemoServers(ctx) }()
	require.Eventually(t, func() bool { return exists(filepath.Join(b.dir, "reached")) }, time.Minute, 5*time.Millisecond)
	cancel()
	err := <-ended
	require.ErrorIs(t, err, context.Canceled)
	require.Contains(t, b.calls(t), "localcloud [clean] [--state-dir] [DIR/.drover/cloud]\n")
	require.NotContains(t, b.screen.String(), "Done in")
	require.NotContains(t, b.entries(t), "cloud")
}

func TestDaemonGetsTheEnvironmentAndOutlivesItsLog(t *testing.T) {
	b := newBench(t)
	b.programs(t, map[string]string{"localkube": `echo "$KUBECONFIG"; echo told >&2; ` + strings.ReplaceAll(daemonScript, "%s", "")})
	process, err := b.daemon("some.log", "localkube", "server", "a b")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return exists(filepath.Join(b.dir, "pid")) }, time.Minute, 5*time.Millisecond)
	require.Equal(t, "localkube [server] [a b]\n", b.calls(t))
	exited := make(chan struct{})
	go func() { _, _ = process.Wait(); close(exited) }()
	select {
	case <-exited:
		require.Fail(t, "it is to stay")
	default:
	}
	b.endDaemon(t)
	<-exited
	content, err := os.ReadFile(b.log("some.log"))
	require.NoError(t, err)
	require.Equal(t, b.Kubeconfig()+"\ntold\n", string(content))

	second, err := b.daemon("some.log", "localkube", "server")
	require.NoError(t, err)
	defer func() { _ = second.Kill() }()
	require.Eventually(t, func() bool { return strings.Count(b.lastLines("some.log"), "told") == 2 }, time.Minute, 5*time.Millisecond, "a log is kept")
	require.Empty(t, b.lastLines("another.log"))
	require.Empty(t, b.lastLines(""), "a folder is no log")
}
