package access_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/cmd/drover/access"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/sshkeys/sshtest"
)

// copyWorld is a directory here, a home directory there, and how often each machine was connected to.
type copyWorld struct {
	here, home string
	connected  map[string]int
	connect    access.Connect
}

func newCopyWorld(t *testing.T) *copyWorld {
	t.Helper()
	w := &copyWorld{here: t.TempDir(), home: t.TempDir(), connected: map[string]int{}}
	pair, err := sshkeys.Generate("test")
	require.NoError(t, err)
	server := sshtest.Start(t, sshtest.Options{AuthorizedKey: pair.Public, Dir: w.home})
	w.connect = func(ctx context.Context, machine string) (*sshkeys.Client, error) {
		w.connected[machine]++
		return sshkeys.Dial(ctx, sshkeys.Access{Host: server.Host, Port: server.Port, User: "root", PrivateKey: pair.Private,
			KnownHosts: sshkeys.KnownHostsLine(server.Host, server.Port, server.HostKey)}, sshkeys.Options{})
	}
	t.Chdir(w.here)
	return w
}

// copy parses and runs arguments as a user types them.
func (w *copyWorld) copy(t *testing.T, recursive bool, args ...string) error {
	t.Helper()
	plan, err := access.ParseCopy(args, recursive)
	require.NoError(t, err)
	return plan.Run(t.Context(), w.connect)
}

func write(t *testing.T, content string, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	return name
}

func requireContent(t *testing.T, content string, path ...string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	require.Equal(t, content, string(got))
}

func TestUpload(t *testing.T) {
	w := newCopyWorld(t)
	write(t, "one", w.here, "one")
	write(t, "two", w.here, "two")
	write(t, "deep", w.here, "tree", "sub", "deep")
	require.NoError(t, os.MkdirAll(filepath.Join(w.home, "dir"), 0o700))

	require.NoError(t, w.copy(t, false, "one", "web-1:"))
	requireContent(t, "one", w.home, "one")
	require.NoError(t, w.copy(t, false, "one", "web-1:~/renamed"))
	requireContent(t, "one", w.home, "renamed")
	require.NoError(t, w.copy(t, false, "two", "web-1:renamed"))
	requireContent(t, "two", w.home, "renamed")
	require.NoError(t, w.copy(t, false, "one", filepath.Join(w.here, "two"), "web-1:dir"))
	requireContent(t, "one", w.home, "dir", "one")
	requireContent(t, "two", w.home, "dir", "two")
	require.NoError(t, w.copy(t, true, "tree", "web-1:dir/"))
	requireContent(t, "deep", w.home, "dir", "tree", "sub", "deep")
	require.NoError(t, w.copy(t, true, "tree", "web-1:fresh"))
	requireContent(t, "deep", w.home, "fresh", "sub", "deep")
	t.Chdir(filepath.Join(w.here, "tree"))
	require.NoError(t, w.copy(t, true, ".", "web-1:dot"))
	require.Equal(t, map[string]int{"web-1": 7}, w.connected, "once for each copy, however many files")
}

func TestUploadErrors(t *testing.T) {
	w := newCopyWorld(t)
	write(t, "one", w.here, "one")
	write(t, "x", w.here, "tree", "x")
	write(t, "file", w.home, "file")
	for name, c := range map[string]struct {
		args      []string
		recursive bool
		err       string
	}{
		"a directory without -r":       {args: []string{"tree", "web-1:"}, err: "tree is a directory: use -r"},
		"nothing there":                {args: []string{"none", "web-1:"}, err: "reading the source: stat none: no such file or directory"},
		"several into a file":          {args: []string{"one", "one", "web-1:file"}, err: "file is no directory on the server"},
		"several into nothing":         {args: []string{"one", "one", "web-1:none"}, err: "none is no directory on the server"},
		"into a directory that is not": {args: []string{"one", "web-1:none/one"}, err: "writing none/one on the server: file does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			require.EqualError(t, w.copy(t, c.recursive, c.args...), c.err)
		})
	}
	requireContent(t, "file", w.home, "file")
}

func TestDownload(t *testing.T) {
	w := newCopyWorld(t)
	write(t, "one", w.home, "one")
	write(t, "deep", w.home, "tree", "sub", "deep")
	require.NoError(t, os.Mkdir(filepath.Join(w.here, "dir"), 0o700))

	require.NoError(t, w.copy(t, false, "web-1:one", "."))
	requireContent(t, "one", w.here, "one")
	require.NoError(t, w.copy(t, false, "web-1:"+filepath.Join(w.home, "one"), "renamed"))
	requireContent(t, "one", w.here, "renamed")
	require.NoError(t, w.copy(t, false, "web-1:one", filepath.Join(w.here, "dir", "two")))
	requireContent(t, "one", w.here, "dir", "two")
	require.NoError(t, w.copy(t, true, "web-1:tree", "dir/"))
	requireContent(t, "deep", w.here, "dir", "tree", "sub", "deep")
	require.NoError(t, w.copy(t, true, "web-1:tree", "fresh"))
	requireContent(t, "deep", w.here, "fresh", "sub", "deep")
	require.NoError(t, w.copy(t, true, "web-1:", "dir"), "a home directory is called like its machine")
	requireContent(t, "deep", w.here, "dir", "web-1", "tree", "sub", "deep")
	require.NoError(t, w.copy(t, true, "dom/web-1:tree/..", "web-1:one", "dir"), "several go into a directory")
	requireContent(t, "one", w.here, "dir", "one")
	require.Equal(t, map[string]int{"web-1": 7, "dom/web-1": 1}, w.connected)
}

func TestDownloadErrors(t *testing.T) {
	w := newCopyWorld(t)
	write(t, "one", w.home, "one")
	write(t, "x", w.home, "tree", "x")
	write(t, "mine", w.here, "mine")
	for name, c := range map[string]struct {
		args []string
		err  string
	}{
		"a directory without -r":         {[]string{"web-1:tree", "."}, "web-1:tree is a directory: use -r"},
		"nothing there":                  {[]string{"web-1:none", "."}, "looking at none on the server: file does not exist"},
		"several into a file":            {[]string{"web-1:one", "web-2:one", "mine"}, "mine is no directory"},
		"into a directory that is not":   {[]string{"web-1:one", "none/"}, "none/ is no directory"},
		"below a directory that is not":  {[]string{"web-1:one", "none/one"}, "opening the destination: open none: no such file or directory"},
		"below a file":                   {[]string{"web-1:one", "mine/one"}, "looking at the destination: stat mine/one: not a directory"},
		"a directory below a file there": {[]string{"web-1:one/x", "."}, "looking at one/x on the server: "},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, w.copy(t, false, c.args...), c.err)
		})
	}
	requireContent(t, "mine", w.here, "mine")
}

// TestCopyOfOddNames: names go through a shell on the server, and must mean themselves there.
func TestCopyOfOddNames(t *testing.T) {
	w := newCopyWorld(t)
	marker := filepath.Join(w.home, "marker")
	for _, name := range []string{
		"-rf", "--help", "a b", "it's", `"quoted"`, "$HOME", "$(touch marker)", "`touch marker`", "a;touch marker", "a&b", "a|b", "*", "?", "~", "\\",
		"new\nline", "ünï", "#", "!", "{a,b}", "(x)", "<in", ">out", "=", "-",
	} {
		t.Run(name, func(t *testing.T) {
			write(t, name, w.here, "from", name)
			require.NoError(t, w.copy(t, false, filepath.Join(w.here, "from", name), "web-1:./"+name))
			requireContent(t, name, w.home, name)
			require.NoError(t, os.MkdirAll(filepath.Join(w.here, "back"), 0o700))
			require.NoError(t, w.copy(t, false, "web-1:./"+name, filepath.Join(w.here, "back")))
			requireContent(t, name, w.here, "back", name)
			err := w.copy(t, false, filepath.Join(w.here, "from", name), filepath.Join(w.here, "from", name), "web-1:./"+name)
			require.ErrorContains(t, err, "is no directory on the server")
			require.NoFileExists(t, marker)
		})
	}
}

// TestDownloadStaysInside: what a server calls its files, and where its links point, leads nowhere else here.
func TestDownloadStaysInside(t *testing.T) {
	w := newCopyWorld(t)
	outside := write(t, "precious", t.TempDir(), "outside")
	write(t, "content", w.home, "tree", "file")
	require.NoError(t, os.Symlink(outside, filepath.Join(w.home, "tree", "link")))
	require.NoError(t, os.MkdirAll(filepath.Join(w.here, "into", "tree"), 0o700))
	require.NoError(t, os.Symlink(outside, filepath.Join(w.here, "into", "tree", "file")))
	require.Error(t, w.copy(t, true, "web-1:tree", "into"), "a link that was here already is not followed out of the destination")
	requireContent(t, "precious", outside)

	require.NoError(t, w.copy(t, true, "web-1:tree", "clean"))
	requireContent(t, "content", w.here, "clean", "file")
	info, err := os.Lstat(filepath.Join(w.here, "clean", "link"))
	require.NoError(t, err)
	require.True(t, info.Mode().IsRegular(), "what a link there means is copied, and no link is made here")
}

func TestCopyWithoutConnection(t *testing.T) {
	refused := errors.New("refused")
	plan, err := access.ParseCopy([]string{"web-1:a", "web-2:b", "."}, false)
	require.NoError(t, err)
	var asked []string
	err = plan.Run(t.Context(), func(_ context.Context, machine string) (*sshkeys.Client, error) {
		asked = append(asked, machine)
		return nil, refused
	})
	require.Equal(t, refused, err)
	require.Equal(t, []string{"web-1"}, asked, "what comes after an error is not tried")
}

func TestCopyEndsWithItsContext(t *testing.T) {
	w := newCopyWorld(t)
	write(t, "one", w.here, "one")
	plan, err := access.ParseCopy([]string{"one", "web-1:"}, false)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	err = plan.Run(ctx, func(_ context.Context, machine string) (*sshkeys.Client, error) {
		client, err := w.connect(t.Context(), machine)
		cancel()
		return client, err
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NoFileExists(t, filepath.Join(w.home, "one"))
}
