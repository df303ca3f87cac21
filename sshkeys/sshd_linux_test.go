package sshkeys_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/sshkeys/sshtest"
)

// sshd starts OpenSSH's server, and returns the way in.
func sshd(t *testing.T) sshkeys.Access {
	t.Helper()
	pair, err := sshkeys.Generate("test")
	require.NoError(t, err)
	server := sshtest.StartOpenSSH(t, pair.Public)
	return sshkeys.Access{User: server.User, Host: server.Host, Port: server.Port, PrivateKey: pair.Private, PublicKey: pair.Public,
		KnownHosts: sshkeys.KnownHostsLine(server.Host, server.Port, server.HostKey)}
}

// TestRun_ends_a_command_that_sleeps: sshd ends a session only when its command ends, and a command may not heed a signal.
func TestRun_ends_a_command_that_sleeps(t *testing.T) {
	_, ours := serverWithAccess(t)
	for server, access := range map[string]func(t *testing.T) sshkeys.Access{"ours": func(*testing.T) sshkeys.Access { return ours }, "sshd": sshd} {
		t.Run(server, func(t *testing.T) {
			access := access(t)
			for name, c := range map[string]struct {
				line, said string
				signal     os.Signal
			}{
				"Ctrl-C":           {line: "trap 'echo INT; exit 3' INT; echo ready; sleep 60 & wait", said: "INT\n", signal: os.Interrupt},
				"SIGTERM":          {line: "trap 'echo TERM; exit 3' TERM; echo ready; sleep 60 & wait", said: "TERM\n", signal: syscall.SIGTERM},
				"one that is deaf": {line: "trap '' INT TERM; echo ready; sleep 5", signal: os.Interrupt},
			} {
				t.Run(name, func(t *testing.T) {
					client := dial(t, access)
					ctx, cancel := context.WithCancelCause(t.Context())
					var out bytes.Buffer
					started := time.Now()
					_, err := client.Run(ctx, sshkeys.Command{Line: c.line, Stdout: writer(func(p []byte) (int, error) {
						if bytes.Contains(p, []byte("ready")) {
							cancel(sshkeys.Interrupted{Signal: c.signal})
						}
						return out.Write(p)
					})})
					require.ErrorIs(t, err, sshkeys.Interrupted{Signal: c.signal})
					require.Less(t, time.Since(started), 4*time.Second)
					if server == "ours" { // sshd hands signals on to no command of root's
						require.Equal(t, "ready\n"+c.said, out.String())
					}
				})
			}
		})
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestCopy_as_scp copies trees with odd things in them by OpenSSH's own scp -r and by us, up and down: both leave the same.
func TestCopy_as_scp(t *testing.T) {
	access := sshd(t)
	client, dir := dial(t, access), t.TempDir()
	for name, mode := range map[string]fs.FileMode{"tree/plain": 0o644, "tree/run.sh": 0o755, "tree/secret": 0o600, "tree/read-only": 0o400, "tree/dir/deep": 0o640, "other/target": 0o644} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(name), mode))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "tree", "empty"), 0o700))
	require.NoError(t, os.Chmod(filepath.Join(dir, "tree", "dir"), 0o500))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "tree", "dir"), 0o700) })
	for link, target := range map[string]string{"to-file": "plain", "to-dir": "../other", "dangling": "nowhere", "absolute": filepath.Join(dir, "other", "target")} {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, "tree", link)))
	}
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "tree", "fifo"), 0o600))
	const left = "leaving out .*dangling|leaving out .*fifo"

	files := filepath.Join(t.TempDir(), "key")
	writeFile(t, files, string(access.PrivateKey))
	scp := func(from, to string) {
		out, err := exec.Command("scp", "-r", "-q", "-i", files, "-P", fmt.Sprint(access.Port), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", from, to).CombinedOutput()
		require.Error(t, err, "what is left out is an error: %s", out)
	}
	remote := access.User + "@127.0.0.1:"
	theirs, ours := t.TempDir(), t.TempDir()
	var told []string
	tell := func(err error) { told = append(told, err.Error()) }
	require.NoError(t, os.Mkdir(filepath.Join(ours, "up"), 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(theirs, "up"), 0o755))

	scp(filepath.Join(dir, "tree"), remote+filepath.Join(theirs, "up"))
	err := client.Upload(t.Context(), os.DirFS(dir), "tree", filepath.Join(ours, "up"), tell)
	require.EqualError(t, err, "2 entries were not copied")
	scp(remote+filepath.Join(dir, "tree"), filepath.Join(theirs, "down"))
	root, err := os.OpenRoot(ours)
	require.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	err = client.Download(t.Context(), filepath.Join(dir, "tree"), root, "down", tell)
	require.EqualError(t, err, "2 entries were not copied")
	mine := listTree(t, ours)
	require.Contains(t, mine, "up/tree/to-dir/target -rw-r--r-- other/target")
	require.Contains(t, mine, "down/to-dir/target -rw-r--r-- other/target")
	toDir := func(line string) bool { return strings.Contains(line, "/to-dir") } // scp before OpenSSH 9.6 leaves it out
	require.Equal(t, slices.DeleteFunc(listTree(t, theirs), toDir), slices.DeleteFunc(mine, toDir))
	require.Len(t, told, 4)
	for _, text := range told {
		require.Regexp(t, left, text)
	}
}

// listTree lists what is in a directory: names, modes, contents.
func listTree(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	require.NoError(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		require.NoError(t, err)
		if name == dir {
			return nil
		}
		info, err := entry.Info()
		require.NoError(t, err)
		line := strings.TrimPrefix(name, dir+"/") + " " + info.Mode().String()
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(name)
			require.NoError(t, err)
			line += " " + string(content)
		}
		list = append(list, line)
		return nil
	}))
	for _, name := range []string{"up/tree/dir", "down/dir"} {
		t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, name), 0o700) })
	}
	return list
}
