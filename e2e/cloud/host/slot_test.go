package host

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRangesOfSlots(t *testing.T) {
	for slot, want := range map[int][2]string{
		0: {"198.18.0.0/20", "198.18.128.0/20"},
		1: {"198.18.16.0/20", "198.18.144.0/20"},
		7: {"198.18.112.0/20", "198.18.240.0/20"},
	} {
		require.Equal(t, want, [2]string{PublicRange(slot).String(), PrivateRange(slot).String()})
	}
}

// twoClouds returns two clouds that run beside each other, and their directory.
func twoClouds(t *testing.T) (first, second *Host, dir string) {
	t.Helper()
	dir = t.TempDir()
	first, second = &Host{runDir: dir}, &Host{runDir: dir}
	require.NoError(t, first.takeSlot("/nowhere/a"))
	require.NoError(t, second.takeSlot("/nowhere/b"))
	return first, second, dir
}

func TestCloseLeavesOtherCloudsAlone(t *testing.T) {
	first, second, dir := twoClouds(t)
	require.NoError(t, first.Close(t.Context()))
	require.NoFileExists(t, slotFile(dir, 0))
	require.FileExists(t, slotFile(dir, 1))
	require.NoError(t, first.Suspend(), "a lock let go twice is no error")

	third := &Host{runDir: dir}
	require.NoError(t, third.takeSlot("/nowhere/c"))
	require.Equal(t, 0, third.Slot())
	require.NotNil(t, second.lock)
}

func TestCloseOfASlotThatWasTidiedAway(t *testing.T) {
	first, _, dir := twoClouds(t)
	require.NoError(t, os.Remove(slotFile(dir, 0)))
	require.NoError(t, first.Close(t.Context()))
	require.Nil(t, first.lock)
}

func TestIsAbandoned(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "empty", "servers"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "used", "servers", "d1"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "odd"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "odd", "servers"), nil, 0o600))
	for owner, want := range map[string]bool{
		"":                          true,
		filepath.Join(dir, "gone"):  true,
		filepath.Join(dir, "empty"): true,
		filepath.Join(dir, "used"):  false,
		filepath.Join(dir, "odd"):   false, // what can not be read may be in use
	} {
		require.Equal(t, want, isAbandoned(owner), owner)
	}
}

func TestForgetSlotsKeepsThoseOfOthers(t *testing.T) {
	_, _, dir := twoClouds(t)
	require.NoError(t, forgetSlots(dir, "/nowhere/b"))
	require.FileExists(t, slotFile(dir, 0))
	require.NoFileExists(t, slotFile(dir, 1))
	require.NoError(t, forgetSlots(dir, "/nowhere"), "part of a path is nobody's")
	require.FileExists(t, slotFile(dir, 0))
}

func TestASlotThatIsClaimedByServersAloneIsInUse(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(state, "servers", "d1"), 0o755))
	h := &Host{runDir: dir}
	require.NoError(t, h.takeSlot(state))
	require.NoError(t, h.Suspend())
	used, err := slotsInUse(dir)
	require.NoError(t, err)
	require.True(t, used)
}

func TestSetupLockHandsTheErrorOn(t *testing.T) {
	told := errors.New("told to fail")
	dir := filepath.Join(t.TempDir(), "run")
	require.ErrorIs(t, withSetupLock(dir, func() error { return told }), told)
	require.NoError(t, withSetupLock(dir, func() error { return nil }), "the lock was let go")

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.ErrorContains(t, withSetupLock(file, func() error { return nil }), "locking host network: mkdir "+file+": not a directory")
}

func TestRunTellsCommandAndOutput(t *testing.T) {
	err := run(t.Context(), "sh", "-c", "echo no such bridge >&2; exit 3")
	require.EqualError(t, err, "running sh -c echo no such bridge >&2; exit 3: exit status 3: no such bridge")
	require.NoError(t, run(t.Context(), "true"))
}
