package nspawn

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/server"
)

func TestAdoptGoesOnWhereTheLastProcessEnded(t *testing.T) {
	for name, test := range map[string]struct {
		before func(t *testing.T, b *bench)
		on     bool
		starts int
	}{
		"runs, shall run":      {func(*testing.T, *bench) {}, true, 1},
		"runs, shall be off":   {func(*testing.T, *bench) {}, false, 1},
		"is off, shall run":    {powerOff, true, 2},
		"is off, shall be off": {powerOff, false, 1},
		"its process file is torn": {func(t *testing.T, b *bench) {
			t.Helper()
			powerOff(t, b)
			require.NoError(t, os.WriteFile(b.dir("d1").processFile(), []byte(`{"pid":`), 0o600))
		}, true, 2},
		"its process is another's now": {func(t *testing.T, b *bench) {
			t.Helper()
			powerOff(t, b)
			own, err := startTime(os.Getpid())
			require.NoError(t, err)
			require.NoError(t, process{PID: os.Getpid(), Start: own - 1}.save(b.dir("d1")))
		}, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			first := newBench(t, standIn)
			require.NoError(t, first.Create(t.Context(), spec("d1")))
			first.awaitSystem(t, "d1")
			key := first.HostKey("d1")
			test.before(t, first)

			second := openBench(t, first.opts.Dir, "/another/image", standIn)
			require.NoError(t, second.Adopt(t.Context(), spec("d1"), test.on))
			require.Equal(t, test.on, second.Running("d1"))
			if test.on {
				second.awaitSystem(t, "d1")
			}
			require.Len(t, second.started(t), test.starts)
			require.Equal(t, key, second.HostKey("d1"))
			require.NoError(t, second.Destroy(t.Context(), "d1"))
			require.Empty(t, first.Leftovers())
		})
	}
}

func powerOff(t *testing.T, b *bench) {
	t.Helper()
	require.NoError(t, b.Power(t.Context(), "d1", server.PowerOff))
}

func TestShutdownOfWhatNeverStarted(t *testing.T) {
	b := newBench(t, standIn)
	require.NoError(t, b.dir("d1").prepare(spec("d1"), b.opts))
	require.NoError(t, b.Power(t.Context(), "d1", server.Shutdown))
	require.NoError(t, b.Power(t.Context(), "d1", server.PowerOff))
	require.Empty(t, b.started(t))
	require.NoError(t, b.Power(t.Context(), "d1", server.Reboot))
	b.awaitSystem(t, "d1")
}

// A server that runs without being known is killed before it is started again, not run twice.
func TestStartEndsAServerThatACrashMadeUnknown(t *testing.T) {
	b := newBench(t, standIn)
	require.NoError(t, b.Create(t.Context(), spec("d1")))
	b.awaitSystem(t, "d1")
	unknown := b.started(t)[0]
	require.NoError(t, os.Remove(b.dir("d1").processFile()))
	group := t.TempDir()
	// The file of a real group loses the process by itself; this one keeps it, so that the start gives up.
	writePid(t, group, unknown)
	whole := b.host
	defer func() { b.host = whole }()
	b.host.cgroups = func(string) (cgroups, error) { return cgroups{group}, nil }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.EqualError(t, b.Adopt(ctx, spec("d1"), true), "starting d1: waiting for its processes to go: context canceled")
	requireGone(t, unknown)
	require.Len(t, b.started(t), 1)
}

func writePid(t *testing.T, group string, pid int) {
	t.Helper()
	text := strings.Join([]string{itoa(pid), ""}, "\n")
	require.NoError(t, os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(text), 0o600))
}

func TestKeeperThatCannotBeWrittenDownIsNotKept(t *testing.T) {
	b := newBench(t, standIn)
	require.NoError(t, b.dir("d1").prepare(spec("d1"), b.opts))
	obstacle := b.dir("d1").processFile() + ".new"
	require.NoError(t, os.Mkdir(obstacle, 0o700))
	require.ErrorContains(t, b.Power(t.Context(), "d1", server.PowerOn), "writing file: ")
	require.False(t, b.Running("d1"))
	for _, pid := range b.started(t) { // it may have been killed before it could tell
		requireGone(t, pid)
	}
}

func TestStartTellsWhyItDidNot(t *testing.T) {
	for name, test := range map[string]struct {
		breakIt func(t *testing.T, b *bench)
		want    string
	}{
		"image gone": {func(t *testing.T, b *bench) {
			t.Helper()
			require.NoError(t, os.RemoveAll(b.opts.Image))
		}, "reading image of d1: IMAGE, which it was made from, is gone"},
		"image torn": {func(t *testing.T, b *bench) {
			t.Helper()
			require.NoError(t, os.WriteFile(b.dir("d1").complete(), nil, 0o600))
		}, `reading image of d1: "" is no path of one`},
		"no cgroups": {func(_ *testing.T, b *bench) {
			b.host.cgroups = func(string) (cgroups, error) { return nil, errors.New("reading mounts: no /proc") }
		}, "reading mounts: no /proc"},
		"group not to be made": {func(t *testing.T, b *bench) {
			t.Helper()
			file := filepath.Join(t.TempDir(), "file")
			require.NoError(t, os.WriteFile(file, nil, 0o600))
			b.host.cgroups = func(string) (cgroups, error) { return cgroups{filepath.Join(file, "drover", "d1")}, nil }
		}, "making control group: mkdir"},
		"not installed": {func(_ *testing.T, b *bench) {
			b.host.command = func(serverDir) []string { return []string{"drover-no-such-program", "--boot"} }
		}, `starting d1: exec: "drover-no-such-program": executable file not found in $PATH; Debian has it in systemd-container`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, standIn)
			require.NoError(t, b.dir("d1").prepare(spec("d1"), b.opts))
			image, whole := b.opts.Image, b.host
			test.breakIt(t, b)
			err := b.Power(t.Context(), "d1", server.PowerOn)
			require.ErrorContains(t, err, strings.ReplaceAll(test.want, "IMAGE", image))
			require.False(t, b.Running("d1"))
			require.Empty(t, b.started(t))
			b.host = whole
		})
	}
}

// Half a copy of the image is no root to boot from.
func TestCopyThatACrashCutShortIsMadeAgain(t *testing.T) {
	b := newBench(t, standIn)
	dir := b.dir("d1")
	require.NoError(t, dir.prepare(spec("d1"), b.opts))
	require.NoError(t, os.MkdirAll(filepath.Join(dir.root(), "usr"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir.root(), "usr", "half"), nil, 0o600))
	require.NoError(t, b.Power(t.Context(), "d1", server.PowerOn))
	require.NoFileExists(t, filepath.Join(dir.root(), "usr", "half"))
	require.FileExists(t, filepath.Join(dir.root(), "usr", "file"))

	require.NoError(t, b.Power(t.Context(), "d1", server.PowerOff))
	kept := filepath.Join(dir.root(), "written-by-the-server")
	require.NoError(t, os.WriteFile(kept, nil, 0o600))
	require.NoError(t, b.Power(t.Context(), "d1", server.PowerOn))
	require.FileExists(t, kept, "a whole copy stays")
}

func TestCopyTellsBothReasons(t *testing.T) {
	b := newBench(t, standIn)
	dir := b.dir("d1")
	require.NoError(t, dir.prepare(spec("d1"), b.opts))
	require.NoError(t, os.RemoveAll(dir.upper()))
	err := b.Power(t.Context(), "d1", server.PowerOn)
	require.ErrorContains(t, err, "making root of d1: overlay: no overlay here; copy: exit status 1: cp: ")
	require.NoFileExists(t, dir.copied())
}

func TestOverlayIsPreferred(t *testing.T) {
	b := newBench(t, standIn)
	var target, options string
	b.host.mountOverlay = func(to, with string) error { target, options = to, with; return nil }
	require.NoError(t, b.Create(t.Context(), spec("d1")))
	dir := b.dir("d1")
	require.Equal(t, dir.root(), target)
	require.Equal(t, "lowerdir="+b.opts.Image+",upperdir="+dir.upper()+",workdir="+dir.work(), options)
	require.NoFileExists(t, dir.copied())
	require.NoDirExists(t, filepath.Join(dir.root(), "usr"))
}

func TestServerReachedThroughALinkIsTheSame(t *testing.T) {
	b := newBench(t, standIn)
	require.NoError(t, b.Create(t.Context(), spec("d1")))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(filepath.Dir(b.opts.Dir), link))
	other := openBench(t, filepath.Join(link, "servers"), b.opts.Image, standIn)
	require.Equal(t, b.opts.Dir, other.opts.Dir, "mounts are found by the path the kernel tells")
	require.True(t, other.Running("d1"))
}
