package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSlotsHaveTheirOwnAddresses(t *testing.T) {
	for slot := range Slots {
		require.Equal(t, slot, slotOf(t, PublicRange(slot).Addr().As4()[2]))
		for other := range Slots {
			require.Equal(t, slot == other, PublicRange(slot).Overlaps(PublicRange(other)))
			require.False(t, PublicRange(slot).Overlaps(PrivateRange(other)))
		}
	}
}

func slotOf(t *testing.T, third byte) int {
	t.Helper()
	require.Less(t, third, byte(128))
	return int(third / 16)
}

func TestSlotsGoToOneCloudEach(t *testing.T) {
	dir := t.TempDir()
	owner := func(name string) string {
		state := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Join(state, "servers", "d1"), 0o755))
		return state
	}
	take := func(state string) *Host {
		h := &Host{runDir: dir}
		require.NoError(t, h.takeSlot(state))
		return h
	}
	first, second := take(owner("a")), take(owner("b"))
	require.Equal(t, []int{0, 1}, []int{first.Slot(), second.Slot()})

	require.NoError(t, first.Suspend())
	require.Equal(t, 2, take(owner("c")).Slot(), "servers of the first are still there")
	require.Equal(t, 0, take(owner("a")).Slot(), "the first gets its slot again")

	require.NoError(t, second.Suspend())
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "b")))
	require.Equal(t, 1, take(owner("d")).Slot(), "nothing of the second is left")
}

func TestSlotsRunOut(t *testing.T) {
	dir := t.TempDir()
	for range Slots {
		require.NoError(t, (&Host{runDir: dir}).takeSlot("/nowhere"))
	}
	used, err := slotsInUse(dir)
	require.NoError(t, err)
	require.True(t, used)
	require.ErrorContains(t, (&Host{runDir: dir}).takeSlot("/nowhere"), "are used by other local clouds")
}

func TestForgetSlots(t *testing.T) {
	dir := t.TempDir()
	h := &Host{runDir: dir}
	require.NoError(t, h.takeSlot("/nowhere"))
	require.NoError(t, h.Suspend())
	require.NoError(t, forgetSlots(dir, "/nowhere"))
	require.NoFileExists(t, slotFile(dir, 0))
	used, err := slotsInUse(dir)
	require.NoError(t, err)
	require.False(t, used)
}
