package nspawn

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// installed is a debootstrap that installs next to nothing, and tells its arguments.
const installed = `echo "$@" >> "$LOG"
mkdir -p "$4/etc/systemd/system" "$4/etc/ssh"
echo 12.11 > "$4/etc/debian_version"
echo "from the package" > "$4/etc/systemd/system/getty.target"
echo "from the package" > "$4/etc/hostname"
`

// tools puts stand-ins for debootstrap and chroot on the path and returns how the first was called.
func tools(t *testing.T, debootstrap, chroot string) (calls func() []string) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	for name, script := range map[string]string{"debootstrap": debootstrap, "chroot": chroot} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o700))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("LOG", log)
	return func() []string {
		content, err := os.ReadFile(log)
		if err != nil {
			return nil
		}
		return strings.Split(strings.TrimSpace(string(content)), "\n")
	}
}

func TestImageIsBuiltOnceAndKept(t *testing.T) {
	calls := tools(t, installed, `test "$DEBIAN_FRONTEND" = noninteractive && test -f "$1/etc/sudoers.d/90-ubuntu"`)
	dir := filepath.Join(t.TempDir(), "deep", "cache")
	require.False(t, ImageExists(dir))
	var said strings.Builder
	opts := ImageOptions{Dir: dir, Mirror: "http://me:marker-password@mirror.test/debian", Progress: &said}
	path, err := BuildImage(t.Context(), opts)
	require.NoError(t, err)
	require.Equal(t, ImagePath(dir), path)
	require.Regexp(t, `/bookworm-[0-9a-f]{12}$`, path)
	require.True(t, ImageExists(dir))
	require.Equal(t, []string{"--variant=minbase --include=" + strings.Join(packages(), ",") + " bookworm " + path + ".building " + opts.Mirror}, calls())

	again, err := BuildImage(t.Context(), opts)
	require.NoError(t, err)
	require.Equal(t, path, again)
	require.Len(t, calls(), 1)
	require.NoDirExists(t, path+".building")
	require.Regexp(t, `^ +\d+s  installing `+strconv.Itoa(len(packages()))+` packages and what they need from http://me:xxxxx@mirror.test/debian; this takes a minute or two
 +\d+s  configuring
 +\d+s  image bookworm-[0-9a-f]{12} is ready
 +\d+s  image bookworm-[0-9a-f]{12} is there
$`, said.String())
	require.NotContains(t, said.String(), "marker-password")
}

func TestImageIsFurnished(t *testing.T) {
	tools(t, installed, "exit 0")
	oldMask := syscall.Umask(0o077) // as careful administrators have it; the image must not inherit it
	defer syscall.Umask(oldMask)
	path, err := BuildImage(t.Context(), ImageOptions{Dir: t.TempDir()})
	require.NoError(t, err)
	for name, want := range imageFiles() {
		content, err := os.ReadFile(filepath.Join(path, name))
		require.NoError(t, err)
		require.Equal(t, want, string(content))
		info, err := os.Stat(filepath.Join(path, name))
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o644), info.Mode().Perm(), name)
	}
	for _, unit := range maskedUnits() {
		target, err := os.Readlink(filepath.Join(path, "etc/systemd/system", unit))
		require.NoError(t, err, "what the package installed is replaced, too")
		require.Equal(t, "/dev/null", target)
	}
	for _, dir := range []string{"etc/sudoers.d", "etc/cloud/cloud.cfg.d", "etc/network", "etc/dpkg/dpkg.cfg.d"} {
		info, err := os.Stat(filepath.Join(path, dir))
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(rootMode), info.Mode().Perm(), dir)
	}
	require.NoError(t, furnish(path), "again")
}

func TestImageThatFailsLeavesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		debootstrap, chroot string
		want                string
	}{
		"no package":    {"echo I: Retrieving; echo E: no such package >&2; exit 7", "", "building image: running debootstrap: exit status 7: I: Retrieving; E: no such package"},
		"killed":        {"kill -9 $$", "", "building image: running debootstrap: signal: killed: "},
		"configuration": {installed, "echo no useradd; exit 2", "building image: running chroot: exit status 2: no useradd"},
		"odd root":      {installed + `rm -r "$4/etc/ssh"; echo > "$4/etc/ssh"`, "", "building image: making directory: mkdir "},
		"masked folder": {installed + `mkdir -p "$4/etc/systemd/system/fstrim.timer/x"`, "", "building image: masking fstrim.timer: remove "},
	} {
		t.Run(name, func(t *testing.T) {
			tools(t, test.debootstrap, test.chroot)
			dir := t.TempDir()
			_, err := BuildImage(t.Context(), ImageOptions{Dir: dir})
			require.ErrorContains(t, err, test.want)
			require.False(t, ImageExists(dir))
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, entries, 1, "the lock")
		})
	}
}

func TestImageOfACrashIsMadeAnew(t *testing.T) {
	tools(t, installed, "")
	dir := t.TempDir()
	half := ImagePath(dir) + ".building"
	require.NoError(t, os.MkdirAll(filepath.Join(half, "etc"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(half, "etc", "half"), nil, 0o600))
	path, err := BuildImage(t.Context(), ImageOptions{Dir: dir})
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(path, "etc", "half"))
}

func TestImageIsBuiltOnceByAllWhoAsk(t *testing.T) {
	calls := tools(t, installed, "")
	dir := t.TempDir()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			_, err := BuildImage(t.Context(), ImageOptions{Dir: dir})
			require.NoError(t, err)
		})
	}
	group.Wait()
	require.Len(t, calls(), 1)
}

// What the installation started ends with it: otherwise it would write into what is being removed.
func TestInterruptedInstallationEnds(t *testing.T) {
	child := filepath.Join(t.TempDir(), "child")
	t.Setenv("CHILD", child)
	tools(t, `sleep 1000 & echo $! > "$CHILD.new"; mv "$CHILD.new" "$CHILD"; wait`, "")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	dir := t.TempDir()
	go func() {
		_, err := BuildImage(ctx, ImageOptions{Dir: dir})
		ended <- err
	}()
	require.Eventually(t, func() bool { return exists(child) }, patience, tick)
	cancel()
	require.ErrorContains(t, <-ended, "building image: running debootstrap: signal: killed")
	content, err := os.ReadFile(child)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	require.NoError(t, err)
	requireGone(t, pid)
}

func TestLockWaitsForItsHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	waits := make(chan struct{}, 2)
	unlock, err := lockFile(t.Context(), path, func() { t.Error("nobody has it") })
	require.NoError(t, err)
	taken := make(chan error, 1)
	go func() {
		second, err := lockFile(t.Context(), path, func() { waits <- struct{}{} })
		if err == nil {
			second()
		}
		taken <- err
	}()
	<-waits
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = lockFile(ctx, path, func() {})
	require.EqualError(t, err, "waiting for "+path+": context canceled")
	require.ErrorIs(t, err, context.Canceled)
	unlock()
	require.NoError(t, <-taken)
	require.Empty(t, waits, "it is told once")
	_, err = lockFile(t.Context(), t.TempDir(), func() {})
	require.ErrorContains(t, err, "opening lock: open ")
}

func TestProgressTellsSomeLinesAndTheLastOnes(t *testing.T) {
	var said strings.Builder
	p := newProgress(&said)
	require.NoError(t, p.run(exec.CommandContext(t.Context(), "sh", "-c", "seq 1 120")))
	require.Regexp(t, `^ +\d+s  50\n +\d+s  100\n$`, said.String())

	for script, want := range map[string]string{
		"exit 3":                         "exit status 3: ",
		"seq 1 30; exit 3":               "exit status 3: 21; 22; 23; 24; 25; 26; 27; 28; 29; 30",
		"printf 'a\\r\\n\\nb'; exit 1":   "exit status 1: a; ; b",
		"echo out; echo err >&2; exit 1": "exit status 1: out; err",
		// A line without an end, as of a download's progress, is longer than any buffer.
		"head -c 300000 /dev/zero | tr '\\0' x; echo; echo last; exit 4": "exit status 4: " + strings.Repeat("x", maxLine) + "; last",
	} {
		err := newProgress(nil).run(exec.CommandContext(t.Context(), "sh", "-c", script))
		require.EqualError(t, err, "running sh: "+want)
	}
	require.ErrorContains(t, p.run(exec.CommandContext(t.Context(), "/no/such/program")), "running program: fork/exec /no/such/program")
	busy := exec.CommandContext(t.Context(), "true")
	busy.Stdout = &said
	require.EqualError(t, p.run(busy), "running true: exec: Stdout already set")
}

func TestRecipeIsSound(t *testing.T) {
	digest := recipeDigest()
	for range 20 { // maps have no order
		require.Equal(t, digest, recipeDigest())
	}
	var config map[string]any
	require.NoError(t, yaml.UnmarshalStrict([]byte(cloudConfig), &config))
	require.Equal(t, []any{"NoCloud", "None"}, config["datasource_list"])
	require.Equal(t, false, config["ssh_deletekeys"], "the host key is ours")
	for _, list := range [][]string{packages(), maskedUnits()} {
		seen := map[string]bool{}
		for _, name := range list {
			require.False(t, seen[name], "%s is listed twice", name)
			require.Regexp(t, `^[a-z0-9][a-zA-Z0-9@._-]+$`, name)
			seen[name] = true
		}
	}
	for _, unit := range []string{"ssh.service", "cloud-init.service", "cloud-init-local.service", "cloud-final.service", "networking.service", "dbus.service"} {
		require.NotContains(t, maskedUnits(), unit, "a server needs it")
	}
	require.NoError(t, exec.CommandContext(t.Context(), "sh", "-n", "-c", configureScript).Run(), "it is shell")
	require.NoError(t, exec.CommandContext(t.Context(), "sh", "-n", "-c", keeperScript).Run(), "it is shell")
	require.Equal(t, fmt.Sprintf("/c/bookworm-%s", digest), ImagePath("/c"))
}
