package nspawn

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRealPath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	t.Chdir(dir)
	require.NoError(t, os.MkdirAll("real/deep", 0o700))
	require.NoError(t, os.Symlink("real", "link"))
	require.NoError(t, os.Symlink(filepath.Join(dir, "real"), "absolute"))
	require.NoError(t, os.Symlink("loop", "loop"))
	require.NoError(t, os.WriteFile("file", nil, 0o600))
	for path, want := range map[string]string{
		"":                 dir,
		"real":             dir + "/real",
		"link/deep":        dir + "/real/deep",
		"link/not/yet":     dir + "/real/not/yet",
		"absolute/../file": dir + "/file",
		"real/../new":      dir + "/new",
		dir + "//link/":    dir + "/real",
		"/no/such/thing":   "/no/such/thing",
	} {
		got, err := realPath(path)
		require.NoError(t, err)
		require.Equal(t, want, got, path)
	}
	for path, want := range map[string]string{"loop/x": "too many links", "file/x": "not a directory"} {
		_, err := realPath(path)
		require.ErrorContains(t, err, want)
	}
	_, err = New(Options{Dir: "loop/x"})
	require.ErrorContains(t, err, "resolving servers' directory: ")
	_, err = BuildImage(t.Context(), ImageOptions{Dir: "file/x"})
	require.ErrorContains(t, err, "resolving image directory: ")
}

func TestFilesHaveTheirModeWhateverTheUmask(t *testing.T) {
	for _, umask := range []int{0o000, 0o022, 0o027, 0o077} {
		old := syscall.Umask(umask)
		dir := filepath.Join(t.TempDir(), "a", "b")
		for name, mode := range map[string]fs.FileMode{"open": 0o644, "secret": 0o600, "fixed": 0o444} {
			require.NoError(t, writeFile(filepath.Join(dir, name), name, mode))
			info, err := os.Stat(filepath.Join(dir, name))
			require.NoError(t, err)
			require.Equal(t, mode, info.Mode().Perm(), "umask %o", umask)
		}
		for _, made := range []string{dir, filepath.Dir(dir)} {
			info, err := os.Stat(made)
			require.NoError(t, err)
			require.Equal(t, fs.FileMode(0o755), info.Mode().Perm(), "umask %o", umask)
		}
		syscall.Umask(old)
	}
}

func TestMakeDirLeavesWhatIsThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "private")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, makeDir(filepath.Join(dir, "in", "it")))
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.ErrorContains(t, makeDir(filepath.Join(file, "x")), "making directory: mkdir "+file+"/x: not a directory")
	require.ErrorContains(t, writeFile(filepath.Join(file, "x"), "", 0o600), "writing file: open ")
	require.ErrorContains(t, writeFile(dir, "", 0o600), "writing file: open "+dir+": is a directory")
}

func TestReplaceFileIsAllOrNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	for _, content := range []string{"first", "", strings.Repeat("long", 1<<16)} {
		require.NoError(t, replaceFile(path, content))
		found, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(found))
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	require.NoFileExists(t, path+".new")

	require.NoError(t, os.Mkdir(path+".new", 0o700))
	require.ErrorContains(t, replaceFile(path, "lost"), "writing file: open")
	found, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotEqual(t, "lost", string(found))
	taken := filepath.Join(t.TempDir(), "dir")
	require.NoError(t, os.MkdirAll(filepath.Join(taken, "full"), 0o700))
	require.ErrorContains(t, replaceFile(taken, "x"), "writing file: rename")
}

func TestOverlayOptionsAreEscaped(t *testing.T) {
	for name, test := range map[string]struct {
		image, dir, want string
	}{
		"plain": {"/cache/bookworm-1", "/state/servers/d1", "lowerdir=/cache/bookworm-1,upperdir=/state/servers/d1/upper,workdir=/state/servers/d1/work"},
		"blank": {"/my cache", "/my state/d1", "lowerdir=/my cache,upperdir=/my state/d1/upper,workdir=/my state/d1/work"},
		"comma": {"/a,b", "/c,d", `lowerdir=/a\,b,upperdir=/c\,d/upper,workdir=/c\,d/work`},
		"colon": {"/a:b", "/c:d", `lowerdir=/a\:b,upperdir=/c:d/upper,workdir=/c:d/work`},
		"slash": {`/a\b`, `/c\d`, `lowerdir=/a\\b,upperdir=/c\\d/upper,workdir=/c\\d/work`},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, overlayOptions(test.image, serverDir(test.dir)))
		})
	}
	require.Contains(t, nspawnCommand(`/st:ate/a\b/d1`), `--bind=/st\:ate/a\\b/d1/containerd:/var/lib/containerd`)
}

func TestFindMirror(t *testing.T) {
	for name, test := range map[string]struct{ sources, want string }{
		"empty": {"", ""},
		"debian 12 image": {"Types: deb\n# http://snapshot.test/archive/debian/20250101T000000Z\nURIs: http://mirror.test/debian\nSuites: bookworm bookworm-updates\n" +
			"\nTypes: deb\nURIs: http://security.test/debian-security\n", "http://mirror.test/debian"},
		"security first":   {"URIs: http://security.test/debian-security\nURIs: http://ftp.test/debian\n", "http://ftp.test/debian"},
		"security alone":   {"URIs: http://security.test/debian-security\n", ""},
		"two on a line":    {"URIs: http://security.test/debian-security https://ftp.test/mirrors/debian/\n", "https://ftp.test/mirrors/debian/"},
		"any case":         {"uris:\thttp://ftp.test/debian\n", "http://ftp.test/debian"},
		"no value":         {"URIs:\nURIs: \n", ""},
		"a file":           {"URIs: file:/srv/debian\n", ""},
		"no host":          {"URIs: http:///debian\n", ""},
		"a comment":        {"# URIs: http://ftp.test/debian\n", ""},
		"of another":       {"URIs: http://archive.test/ubuntu\n", ""},
		"no end of line":   {"URIs: http://ftp.test/debian", "http://ftp.test/debian"},
		"one-line format":  {"deb http://ftp.test/debian bookworm main\n", "http://ftp.test/debian"},
		"with options":     {"# a note\n\ndeb [signed-by=/usr/share/keyrings/x.gpg arch=amd64] https://ftp.test/debian bookworm main\n", "https://ftp.test/debian"},
		"sources of it":    {"deb-src http://ftp.test/debian bookworm main\n", ""},
		"not a url at all": {"URIs: http://[::1/debian %zz/debian\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, findMirror(test.sources))
		})
	}
}

func TestHostMirrorLooksInBothPlaces(t *testing.T) {
	dir := t.TempDir()
	require.Empty(t, hostMirror(dir))
	write := func(name, content string) {
		require.NoError(t, writeFile(filepath.Join(dir, name), content, 0o644))
	}
	write("sources.list", "deb http://old.test/debian bookworm main\n")
	require.Equal(t, "http://old.test/debian", hostMirror(dir))
	write("sources.list.d/debian.sources", "URIs: http://security.test/debian-security\n")
	require.Equal(t, "http://old.test/debian", hostMirror(dir))
	write("sources.list.d/debian.sources", "URIs: http://new.test/debian\n")
	require.Equal(t, "http://new.test/debian", hostMirror(dir))
}

func TestMirrorIsShownWithoutItsPassword(t *testing.T) {
	for address, want := range map[string]string{
		"":                                       "debootstrap's own mirror",
		"http://ftp.test/debian":                 "http://ftp.test/debian",
		"https://me:marker@ftp.test/debian":      "https://me:xxxxx@ftp.test/debian",
		"https://me:mar%zzker@ftp.test/debian":   "the given mirror",
		"https://me:marker@ftp.test:port/debian": "the given mirror",
	} {
		require.Equal(t, want, withoutPassword(address))
	}
}

func TestInstallCommandLeavesTheMirrorToDebootstrap(t *testing.T) {
	given := installCommand("/r", "http://ftp.test/debian")
	require.Equal(t, []string{suite, "/r", "http://ftp.test/debian"}, given[len(given)-3:])
	require.Equal(t, given[:len(given)-1], installCommand("/r", ""))
}

func TestFindMirrorFindsWhatIsThere(t *testing.T) {
	check := func(sources string) {
		mirror := findMirror(sources)
		if mirror == "" {
			return
		}
		require.Contains(t, sources, mirror)
		require.NotContains(t, mirror, " ")
		require.False(t, strings.HasPrefix(mirror, "-"), "it becomes an argument")
	}
	check("URIs: http://mirror.test/debian\n")
	check("deb [a=b] https://ftp.test/debian bookworm\n")
}
