package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/testkit/golden"
)

// run runs the command and returns what it prints, on either way out.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root := command()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestHelp(t *testing.T) {
	var text strings.Builder
	for _, args := range [][]string{{}, {"up", "--help"}, {"down", "--help"}, {"demo", "--help"}} {
		out, err := run(t, args...)
		require.NoError(t, err)
		text.WriteString("==== testbed " + strings.Join(args, " ") + "\n" + out)
	}
	golden.Require(t, "testdata/help.txt", text.String())
}

func TestErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	noBinaries := "localcloud is not in " + filepath.Join(mustGetwd(t), "bin") + ": run make build"
	if os.Geteuid() != 0 {
		noBinaries = "containers and servers need root: run as root"
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"unknown":       {[]string{"updown"}, `unknown command "updown" for "testbed"`},
		"further words": {[]string{"up", "now"}, `unknown command "now" for "testbed up"`},
		"unknown flag":  {[]string{"up", "--force"}, "unknown flag: --force"},
		"not built":     {[]string{"up"}, noBinaries},
		"nor for demo":  {[]string{"demo"}, noBinaries},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := run(t, test.args...)
			require.ErrorContains(t, err, test.want)
		})
	}
}

func mustGetwd(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	return dir
}

func TestDownLeavesAStrangersDirectoryAsItIs(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.MkdirAll("home/thesis", 0o700))
	out, err := run(t, "down", "--state-dir", "home", "--cache-dir", "home/cache")
	require.NoError(t, err)
	require.Equal(t, "  left in place, because it is not the testbed's: home/thesis\n", out)
	require.DirExists(t, "home/thesis")
	out, err = run(t, "down")
	require.NoError(t, err, "there is nothing")
	require.Empty(t, out)
}
