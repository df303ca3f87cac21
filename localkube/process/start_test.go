package process_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/process"
)

func TestStart_names_what_cannot_start(t *testing.T) {
	dir := t.TempDir()
	sup := process.New()
	err := sup.Start(process.Spec{Name: "ghost", Path: filepath.Join(dir, "missing"), Log: filepath.Join(dir, "log")})
	require.ErrorContains(t, err, "starting ghost")
	require.ErrorIs(t, err, os.ErrNotExist)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	err = sup.Start(shell("mute", filepath.Join(dir, "file", "log"), "exit 0"))
	require.ErrorContains(t, err, "starting mute: making log directory")
	err = sup.Start(shell("mute", dir, "exit 0"))
	require.ErrorContains(t, err, "starting mute: opening log")

	require.Empty(t, sup.Processes())
	sup.StopAll(time.Minute)
	require.Empty(t, sup.Failed(), "Start has said so already")
}

func TestFailed_counts_success_as_an_end(t *testing.T) {
	sup := process.New()
	t.Cleanup(func() { sup.StopAll(0) })
	require.NoError(t, sup.Start(shell("early", filepath.Join(t.TempDir(), "log"), "exit 0")))
	require.ErrorContains(t, <-sup.Failed(), "early ended: exit status 0", "a component is to run for ever")
}

func TestFailed_keeps_the_first_end(t *testing.T) {
	dir := t.TempDir()
	sup := process.New()
	require.NoError(t, sup.Start(shell("first", filepath.Join(dir, "1"), "exit 1")))
	require.NoError(t, sup.Start(shell("patient", filepath.Join(dir, "2"), "sleep 600")))
	require.ErrorContains(t, <-sup.Failed(), "first ended")
	sup.StopAll(0)
	require.Empty(t, sup.Failed(), "the others end because they are stopped")
}

func TestStart_hands_over_arguments_and_environment(t *testing.T) {
	t.Setenv("LOCALKUBE_INHERITED", "yes")
	log := filepath.Join(t.TempDir(), "log")
	sup := process.New()
	require.NoError(t, sup.Start(process.Spec{
		Name: "args", Path: "/bin/sh", Args: []string{"-c", `echo "$1|$OWN|$LOCALKUBE_INHERITED"; exit 1`, "sh", "a b"},
		Env: []string{"OWN=1"}, Log: log,
	}))
	<-sup.Failed()
	sup.StopAll(0)
	raw, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, "a b|1|yes\n", string(raw))
}

func TestStop(t *testing.T) {
	dir := t.TempDir()
	sup := process.New()
	sup.Stop("never started", time.Minute)
	require.NoError(t, sup.Start(shell("a", filepath.Join(dir, "a"), "sleep 600")))
	require.NoError(t, sup.Start(shell("b", filepath.Join(dir, "b"), "sleep 600")))
	require.Len(t, sup.Processes(), 2)
	sup.Stop("a", time.Minute)
	sup.Stop("a", time.Minute)
	require.Contains(t, sup.Processes(), "b")
	require.NotContains(t, sup.Processes(), "a")

	require.NoError(t, sup.Start(shell("a", filepath.Join(dir, "a"), "sleep 600")), "it may be started again")
	pid := sup.Processes()["a"]
	require.Positive(t, pid)
	sup.StopAll(time.Minute)
	require.Empty(t, sup.Processes())
}

func TestStop_between_two_runs(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	sup := process.New()
	spec := shell("restless", log, "exit 1")
	spec.Restart = true
	require.NoError(t, sup.Start(spec))
	sup.Stop("restless", time.Minute)
	require.Empty(t, sup.Failed())
	require.Empty(t, sup.Processes())
}
