package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBridgeCommands(t *testing.T) {
	mend := [][]string{
		{"ip", "address", "replace", "198.18.0.1/16", "dev", "drover0"},
		{"ip", "link", "set", "drover0", "up"},
	}
	require.Equal(t, mend, bridgeCommands(true))
	require.Equal(t, append([][]string{{"ip", "link", "add", "drover0", "type", "bridge"}}, mend...), bridgeCommands(false))
}

// iptables puts a stand-in on the path, alone, and returns how it was called.
func iptables(t *testing.T, script string) (calls func() []string) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	if script != "" {
		text := fmt.Sprintf("#!/bin/sh\necho \"$@\" >> '%s'\n%s\n", log, script)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "iptables"), []byte(text), 0o700))
	}
	t.Setenv("PATH", dir)
	return func() []string {
		content, err := os.ReadFile(log)
		if err != nil {
			return nil
		}
		return strings.Split(strings.TrimSpace(string(content)), "\n")
	}
}

const (
	checkIn  = "-w -C FORWARD -i drover0 -j ACCEPT"
	checkOut = "-w -C FORWARD -o drover0 -j ACCEPT"
)

func TestForwardingIsAllowedWhereItIsNot(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		want   []string
		err    string
	}{
		"no iptables":     {"", nil, ""},
		"all forwarded":   {`echo "-P FORWARD ACCEPT"`, []string{"-w -S FORWARD"}, ""},
		"not to be asked": {`exit 4`, []string{"-w -S FORWARD"}, ""},
		"dropped": {`case "$2" in -S) echo "-P FORWARD DROP";; -C) exit 1;; esac`, []string{
			"-w -S FORWARD", checkIn, "-w -I FORWARD -i drover0 -j ACCEPT", checkOut, "-w -I FORWARD -o drover0 -j ACCEPT",
		}, ""},
		"allowed already": {`case "$2" in -S) echo "-P FORWARD DROP";; esac`, []string{"-w -S FORWARD", checkIn, checkOut}, ""},
		"not permitted": {`case "$2" in -S) echo "-P FORWARD DROP";; *) echo "Permission denied (you must be root)" >&2; exit 4;; esac`, []string{
			"-w -S FORWARD", checkIn, "-w -I FORWARD -i drover0 -j ACCEPT",
		}, "running iptables -w -I FORWARD -i drover0 -j ACCEPT: exit status 4: Permission denied (you must be root)"},
	} {
		t.Run(name, func(t *testing.T) {
			calls := iptables(t, test.script)
			err := allowForwarding(t.Context())
			if test.err != "" {
				require.EqualError(t, err, test.err)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, test.want, calls())
		})
	}
}

func TestForwardingRulesAreTakenAway(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		want   []string
		err    string
	}{
		"no iptables": {"", nil, ""},
		"none there":  {`exit 1`, []string{checkIn, checkOut}, ""},
		"both":        {`exit 0`, []string{checkIn, "-w -D FORWARD -i drover0 -j ACCEPT", checkOut, "-w -D FORWARD -o drover0 -j ACCEPT"}, ""},
		"one":         {`[ "$4" = -o ]`, []string{checkIn, checkOut, "-w -D FORWARD -o drover0 -j ACCEPT"}, ""},
		"neither goes": {`[ "$2" = -C ] || { echo busy; exit 1; }`, []string{checkIn, "-w -D FORWARD -i drover0 -j ACCEPT", checkOut, "-w -D FORWARD -o drover0 -j ACCEPT"},
			"running iptables -w -D FORWARD -i drover0 -j ACCEPT: exit status 1: busy\nrunning iptables -w -D FORWARD -o drover0 -j ACCEPT: exit status 1: busy"},
	} {
		t.Run(name, func(t *testing.T) {
			calls := iptables(t, test.script)
			err := disallowForwarding(t.Context())
			if test.err != "" {
				require.EqualError(t, err, test.err)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, test.want, calls())
		})
	}
}

func TestAnInterfaceThatIsNotThereIsRemovedAlready(t *testing.T) {
	t.Setenv("PATH", "") // no command is run
	require.NoError(t, RemoveInterface(t.Context(), "vb-no-such-one"))
}

// The lock excludes also those who waited while its holder removed the directory.
func TestSetupLockExcludesEvenWhenTheDirectoryGoes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	var inside, most atomic.Int32
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for round := range 25 {
				require.NoError(t, withSetupLock(dir, func() error {
					most.Store(max(most.Load(), inside.Add(1)))
					defer inside.Add(-1)
					if err := os.WriteFile(slotFile(dir, worker), nil, 0o600); err != nil {
						return err // the directory is there while the lock is held
					}
					if (round+worker)%3 == 0 {
						return os.RemoveAll(dir)
					}
					return nil
				}))
			}
		})
	}
	group.Wait()
	require.Equal(t, int32(1), most.Load())
}

func TestCloudsComeAndGoBesideEachOther(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	var mu sync.Mutex
	taken := map[int]string{}
	var group sync.WaitGroup
	for worker := range Slots {
		group.Go(func() {
			owner := fmt.Sprintf("/nowhere/%d", worker)
			for range 10 {
				h := &Host{runDir: dir}
				require.NoError(t, withSetupLock(dir, func() error { return h.takeSlot(owner) }))
				mu.Lock()
				require.Empty(t, taken[h.Slot()], "slot %d", h.Slot())
				taken[h.Slot()] = owner
				mu.Unlock()
				mu.Lock()
				delete(taken, h.Slot())
				mu.Unlock()
				require.NoError(t, h.Suspend())
				require.NoError(t, withSetupLock(dir, func() error { return forgetSlots(dir, owner) }))
			}
		})
	}
	group.Wait()
}

// A claim that is there already is not written again: a crash in between would leave it nobody's.
func TestAClaimIsKeptAsItIs(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	h := &Host{runDir: dir}
	require.NoError(t, h.takeSlot(state))
	require.NoError(t, h.Suspend())
	require.NoError(t, os.Chmod(slotFile(dir, 0), 0o600))
	before, err := os.Stat(slotFile(dir, 0))
	require.NoError(t, err)
	again := &Host{runDir: dir}
	require.NoError(t, again.takeSlot(state))
	require.Equal(t, 0, again.Slot())
	after, err := os.Stat(slotFile(dir, 0))
	require.NoError(t, err)
	require.Equal(t, before.ModTime(), after.ModTime())
	content, err := os.ReadFile(slotFile(dir, 0))
	require.NoError(t, err)
	require.Equal(t, state+"\n", string(content))
}

func TestSlotsThatCannotBeOpenedAreTold(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(slotFile(dir, 0), 0o700))
	require.ErrorContains(t, (&Host{runDir: dir}).takeSlot("/nowhere"), "opening slot: open "+slotFile(dir, 0))
	_, err := slotsInUse(dir)
	require.ErrorContains(t, err, "opening slot: open "+slotFile(dir, 0))
	require.ErrorContains(t, (&Host{runDir: filepath.Join(dir, "missing")}).takeSlot("/nowhere"), "opening slot: ")
	used, err := slotsInUse(filepath.Join(dir, "missing"))
	require.NoError(t, err)
	require.False(t, used)
	require.NoError(t, forgetSlots(dir, "/nowhere"), "what cannot be read is not ours")
}
