package nspawn

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/server"
)

const (
	// standIn takes the place of systemd-nspawn: it has one child, tells it to end when it is told so
	// itself, and ends with the code of a reboot when the child was asked for one.
	standIn = `echo "$$" >> "$0"
trap 'kill $child; wait $child; exit 0' TERM
sleep 1000 & child=$!
wait $child
[ $? = 167 ] && exit 133
exit 1`
	// stubborn does not end when it is told to.
	stubborn = `echo "$$" >> "$0"; trap '' TERM; sleep 1000 & wait; wait`

	patience = time.Minute
	tick     = 5 * time.Millisecond
)

// bench is a backend whose servers are ordinary processes in ordinary directories.
type bench struct {
	*Backend
	starts string // one line per start of any server

	mu    sync.Mutex
	calls []string
}

func (b *bench) note(call string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, call)
}

func newBench(t *testing.T, script string) *bench {
	t.Helper()
	dir, image := t.TempDir(), filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.MkdirAll(filepath.Join(image, "usr"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(image, "usr", "file"), []byte("of the image"), 0o600))
	return openBench(t, filepath.Join(dir, "servers"), image, script)
}

// openBench opens the servers of a directory, as the next process does.
func openBench(t *testing.T, dir, image, script string) *bench {
	t.Helper()
	backend, err := New(Options{Dir: dir, Image: image, Gateway: netip.MustParseAddr("198.18.0.1")})
	require.NoError(t, err)
	b := &bench{Backend: backend, starts: filepath.Join(filepath.Dir(dir), "starts")}
	b.host.mountOverlay = func(target, _ string) error {
		b.note("mount " + filepath.Base(filepath.Dir(target)))
		return errors.New("no overlay here")
	}
	b.host.unmountBelow = func(path string) error { b.note("unmount " + filepath.Base(path)); return nil }
	b.host.cgroups = func(string) (cgroups, error) { return nil, nil }
	b.host.command = func(serverDir) []string { return []string{"sh", "-c", script, b.starts} }
	b.host.removeInterface = func(_ context.Context, name string) error { b.note("remove " + name); return nil }
	t.Cleanup(func() {
		b.host.unmountBelow = func(string) error { return nil }
		require.NoError(t, b.DestroyAll(context.WithoutCancel(t.Context())))
	})
	return b
}

func spec(name string) server.Spec {
	return server.Spec{Name: name, Hostname: "host-" + name, InstanceID: name, Public: netip.MustParseAddr("198.18.1.1")}
}

// started returns the process ids of all starts.
func (b *bench) started(t *testing.T) []int {
	t.Helper()
	content, err := os.ReadFile(b.starts)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	var pids []int
	for line := range strings.Lines(string(content)) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	return pids
}

// awaitSystem waits until the server's first process is there and returns it.
func (b *bench) awaitSystem(t *testing.T, name string) int {
	t.Helper()
	keeper, err := loadProcess(b.dir(name))
	require.NoError(t, err)
	system := 0
	require.Eventually(t, func() bool {
		system, err = keeper.system()
		return err == nil
	}, patience, tick)
	return system
}

func requireGone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := startTime(pid)
		return err != nil
	}, patience, tick, "process %d", pid)
}

func TestServerFollowsEveryPowerChange(t *testing.T) {
	b, ctx := newBench(t, standIn), t.Context()
	require.NoError(t, b.Create(ctx, spec("d1")))
	for i, act := range []struct {
		change server.Power
		on     bool
		starts int // how often it was started when the act is over
	}{
		{server.PowerOn, true, 1}, // it runs already
		{server.Reboot, true, 2},
		{server.PowerOff, false, 2},
		{server.PowerOff, false, 2},
		{server.Shutdown, false, 2},
		{server.Reboot, true, 3}, // of what is off: it comes on
		{server.Shutdown, false, 3},
		{server.PowerOn, true, 4},
		{server.Reboot, true, 5},
		{server.Reboot, true, 6},
		{server.Shutdown, false, 6},
	} {
		before := 0
		if b.Running("d1") {
			before = b.awaitSystem(t, "d1")
		}
		require.NoError(t, b.Power(ctx, "d1", act.change), "act %d", i)
		require.Equal(t, act.on, b.Running("d1"), "act %d, %s", i, act.change)
		if before != 0 && act.change != server.PowerOn {
			requireGone(t, before)
		}
		require.Eventually(t, func() bool { return len(b.started(t)) == act.starts }, patience, tick, "act %d", i)
	}
}

func TestServerIsMadeAndRemoved(t *testing.T) {
	b, ctx := newBench(t, standIn), t.Context()
	require.Empty(t, b.Leftovers())
	require.NoError(t, b.Create(ctx, spec("d1")))
	require.True(t, b.Running("d1"))
	names, err := b.Names()
	require.NoError(t, err)
	require.Equal(t, []string{"d1"}, names)
	require.Equal(t, []string{"directory " + filepath.Join(b.opts.Dir, "d1")}, b.Leftovers())

	root := b.dir("d1").root()
	content, err := os.ReadFile(filepath.Join(root, "usr", "file"))
	require.NoError(t, err)
	require.Equal(t, "of the image", string(content))
	key, err := os.ReadFile(filepath.Join(root, hostKeyFile+".pub"))
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(key)), b.HostKey("d1"))
	require.Empty(t, b.HostKey("d2"))
	require.False(t, b.Running("d2"))

	system := b.awaitSystem(t, "d1")
	require.NoError(t, b.Destroy(ctx, "d1"))
	requireGone(t, system)
	requireGone(t, b.started(t)[0])
	require.False(t, b.Running("d1"))
	require.Empty(t, b.Leftovers())
	require.NoError(t, b.Destroy(ctx, "d1"), "an unknown server is no error")
	require.Equal(t, []string{"mount d1", "remove vb-d1", "unmount d1", "remove vb-d1", "unmount d1"}, b.calls)
}

func TestNamesThatLeadElsewhereAreRefused(t *testing.T) {
	b, ctx := newBench(t, standIn), t.Context()
	outside := filepath.Join(filepath.Dir(b.opts.Dir), "precious")
	require.NoError(t, os.MkdirAll(outside, 0o700))
	for _, name := range []string{
		"", ".", "..", "../precious", "/etc", "a/b", "D1", "d 1", "d1\n", "1d", "-d", "d.1", "ä", "d123456789012",
	} {
		t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
			want := fmt.Sprintf(": %q is no name of a server", name)
			require.EqualError(t, b.Create(ctx, spec(name)), "making server"+want)
			require.EqualError(t, b.Adopt(ctx, spec(name), true), "adopting server"+want)
			require.EqualError(t, b.Power(ctx, name, server.PowerOff), "changing power"+want)
			require.EqualError(t, b.Destroy(ctx, name), "removing server"+want)
			require.False(t, b.Running(name))
			require.Empty(t, b.HostKey(name))
		})
	}
	require.DirExists(t, outside)
	require.NoDirExists(t, b.opts.Dir)
	require.Empty(t, b.calls)
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	b, ctx := newBench(t, standIn), t.Context()
	require.NoError(t, os.MkdirAll(filepath.Join(string(b.dir("d2")), "upper"), 0o700)) // a crash before it was complete
	for _, name := range []string{"d1", "d2"} {
		for _, change := range []server.Power{server.PowerOn, server.PowerOff, server.Shutdown, server.Reboot} {
			err := b.Power(ctx, name, change)
			require.ErrorIs(t, err, server.ErrNotFound)
			require.EqualError(t, err, "changing power of "+name+": server not found")
		}
		err := b.Adopt(ctx, spec(name), true)
		require.ErrorIs(t, err, server.ErrNotFound)
		require.EqualError(t, err, "adopting "+name+": server not found")
	}
	require.NoError(t, b.Create(ctx, spec("d1")))
	require.EqualError(t, b.Power(ctx, "d1", "explode"), `changing power of d1: there is no change "explode"`)
	require.True(t, b.Running("d1"))
}

func TestCreateTakesOverNothing(t *testing.T) {
	b, ctx := newBench(t, standIn), t.Context()
	old := b.dir("d1").file("etc/ssh/authorized_keys")
	require.NoError(t, os.MkdirAll(filepath.Dir(old), 0o700))
	require.NoError(t, os.WriteFile(old, []byte("of another server"), 0o600))
	require.NoError(t, b.Create(ctx, spec("d1")), "over what a crash left")
	require.NoFileExists(t, old)

	key, system := b.HostKey("d1"), b.awaitSystem(t, "d1")
	require.EqualError(t, b.Create(ctx, spec("d1")), "making server: d1 exists already")
	require.Equal(t, key, b.HostKey("d1"))
	require.Equal(t, system, b.awaitSystem(t, "d1"), "it was not disturbed")
}

func TestAServerIsStartedOnceHoweverManyAsk(t *testing.T) {
	b, ctx := newBench(t, standIn), t.Context()
	require.NoError(t, b.Create(ctx, spec("d1")))
	b.awaitSystem(t, "d1")
	require.NoError(t, b.Power(ctx, "d1", server.PowerOff))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() { require.NoError(t, b.Power(ctx, "d1", server.PowerOn)) })
	}
	group.Wait()
	b.awaitSystem(t, "d1")
	require.Len(t, b.started(t), 2)
}

func TestManyServersLiveBesideEachOther(t *testing.T) {
	b, ctx := newBench(t, standIn), t.Context()
	var group sync.WaitGroup
	for i := range 6 {
		group.Go(func() {
			name := fmt.Sprintf("d%d", i)
			require.NoError(t, b.Create(ctx, spec(name)))
			require.NoError(t, b.Power(ctx, name, server.PowerOff))
			require.NoError(t, b.Power(ctx, name, server.PowerOn))
			if i%2 == 0 {
				require.NoError(t, b.Destroy(ctx, name))
			}
		})
	}
	group.Wait()
	names, err := b.Names()
	require.NoError(t, err)
	require.Equal(t, []string{"d1", "d3", "d5"}, names)
	keys := map[string]bool{}
	for _, name := range names {
		require.True(t, b.Running(name))
		keys[b.HostKey(name)] = true
	}
	require.Len(t, keys, 3)
}

func TestStubbornServerLosesItsPlug(t *testing.T) {
	b := newBench(t, stubborn)
	require.NoError(t, b.Create(t.Context(), spec("d1")))
	system := b.awaitSystem(t, "d1")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // the half minute it has, cut short
	defer cancel()
	require.NoError(t, b.Power(ctx, "d1", server.Shutdown))
	requireGone(t, system)
	require.Eventually(t, func() bool { return !b.Running("d1") }, patience, tick)
}

func TestDestroyAllRemovesAllButWhatItCannot(t *testing.T) {
	b, ctx := newBench(t, standIn), t.Context()
	require.NoError(t, b.DestroyAll(ctx), "there is nothing")
	for _, name := range []string{"d1", "d2", "d3"} {
		require.NoError(t, b.Create(ctx, spec(name)))
	}
	stranger := filepath.Join(b.opts.Dir, "Notes")
	require.NoError(t, os.WriteFile(stranger, []byte("mine"), 0o600))
	busy := errors.New("device or resource busy")
	b.host.unmountBelow = func(path string) error {
		if filepath.Base(path) == "d2" {
			return busy
		}
		return nil
	}
	err := b.DestroyAll(ctx)
	require.ErrorIs(t, err, busy)
	require.ErrorContains(t, err, "removing servers: "+stranger+" is none")
	require.Equal(t, []string{"directory " + filepath.Join(b.opts.Dir, "d2"), "stranger " + stranger}, b.Leftovers())
	require.FileExists(t, b.dir("d2").processFile(), "the next try must find it")

	b.host.unmountBelow = func(string) error { return nil }
	require.EqualError(t, b.DestroyAll(ctx), "removing servers: "+stranger+" is none")
	require.NoError(t, os.Remove(stranger))
	require.NoError(t, b.DestroyAll(ctx))
	require.NoDirExists(t, b.opts.Dir)
}

func TestDestroyTellsWhatStandsInItsWay(t *testing.T) {
	denied := errors.New("operation not permitted")
	for name, test := range map[string]struct {
		breakIt func(b *bench)
		want    string
	}{
		"mounts":    {func(b *bench) { b.host.unmountBelow = func(string) error { return denied } }, "operation not permitted"},
		"interface": {func(b *bench) { b.host.removeInterface = func(context.Context, string) error { return denied } }, "operation not permitted"},
		"groups":    {func(b *bench) { b.host.cgroups = func(string) (cgroups, error) { return nil, denied } }, "operation not permitted"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, standIn)
			require.NoError(t, b.Create(t.Context(), spec("d1")))
			whole := b.host
			test.breakIt(b)
			require.EqualError(t, b.Destroy(t.Context(), "d1"), test.want)
			require.FileExists(t, b.dir("d1").complete(), "it is still known")
			b.host = whole
			require.NoError(t, b.Destroy(t.Context(), "d1"))
		})
	}
}
