package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/admin"
)

// walk visits the command and all below, with their names as they are typed.
func walk(command *cobra.Command, visit func(path []string, command *cobra.Command)) {
	visit(strings.Fields(command.CommandPath())[1:], command)
	for _, below := range command.Commands() {
		walk(below, visit)
	}
}

func TestHelp(t *testing.T) {
	walk(newRootCommand(), func(path []string, command *cobra.Command) {
		require.NotEmpty(t, command.Short, path)
		require.False(t, strings.HasSuffix(command.Short, "."), path)
		command.LocalFlags().VisitAll(func(flag *pflag.Flag) { require.NotEmpty(t, flag.Usage, "%s --%s", path, flag.Name) })
		out, err := run(t.Context(), append(path, "--help")...)
		require.NoError(t, err)
		require.Contains(t, out, "Usage:\n  localcloud")
	})
}

func TestGroupsPrintTheirHelp(t *testing.T) {
	for _, name := range []string{"fault", "file", "server", "token", "rootfs"} {
		out, err := run(t.Context(), name)
		require.NoError(t, err)
		require.Contains(t, out, "Usage:\n  localcloud "+name)
		// One that is misspelt must not pass for one that worked.
		_, err = run(t.Context(), name, "revok", "demo")
		require.EqualError(t, err, `unknown command "revok" for "localcloud `+name+`"`)
	}
	_, err := run(t.Context(), "lss")
	require.ErrorContains(t, err, `unknown command "lss" for "localcloud"`)
}

// steering are the commands that need a cloud that runs.
func steering() [][]string {
	return [][]string{
		{"ls"}, {"ledger"}, {"ledger", "--live"}, {"leftovers"}, {"env"}, {"vanish", "1"}, {"limit", "1"},
		{"fault", "add", "quota"}, {"fault", "clear"}, {"fault", "clear", "x"}, {"fault", "ls"}, {"fault", "hits"},
		{"server", "add", "x"}, {"server", "rm", "x"}, {"server", "ls"},
		{"token", "add", "x"}, {"token", "ls"}, {"token", "expire", "x"}, {"token", "revoke", "x"}, {"token", "restore", "x"},
		{"file", "put", "x", "main.go"}, {"file", "fault", "x", "html"},
	}
}

func TestWithoutACloud(t *testing.T) {
	dir := t.TempDir()
	for _, args := range steering() {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			out, err := run(t.Context(), append(args, "--state-dir", dir)...)
			require.EqualError(t, err, "finding local cloud in "+dir+": no local cloud is running here")
			require.Empty(t, out)
		})
	}
}

// Every command that is no group is either tested above or works without a cloud.
func TestNoCommandIsForgotten(t *testing.T) {
	known := map[string]bool{"": true, "serve": true, "clean": true, "rootfs build": true}
	for _, args := range steering() {
		known[args[0]] = true
		if len(args) > 1 {
			known[args[0]+" "+args[1]] = true
		}
	}
	walk(newRootCommand(), func(path []string, command *cobra.Command) {
		if command.HasSubCommands() {
			return
		}
		require.True(t, known[strings.Join(path, " ")], path)
	})
}

func TestAfterACrashNothingListens(t *testing.T) {
	dir := t.TempDir()
	writeEndpoints(t, dir, admin.Endpoints{Admin: "http://127.0.0.1:1", AdminSecret: "marker-secret"})
	for _, args := range steering() {
		_, err := run(t.Context(), append(args, "--state-dir", dir)...)
		require.EqualError(t, err, "asking local cloud: nothing listens at http://127.0.0.1:1: no local cloud is running here", args)
	}
}

func TestArgumentsThatAreRefused(t *testing.T) {
	b := newBench(t)
	missing := filepath.Join(b.dir, "missing")
	for line, want := range map[string]string{
		"ls extra":                            `unknown command "extra" for "localcloud ls"`,
		"vanish":                              "accepts 1 arg(s), received 0",
		"vanish one":                          `"one" is no number`,
		"vanish 1.5":                          `"1.5" is no number`,
		"vanish 99999999999999999999":         `"99999999999999999999" is no number`,
		"vanish 7":                            "asking local cloud: 404 not_found: The resource you were accessing could not be found.",
		"limit many":                          `"many" is no number`,
		"limit -- -1":                         "asking local cloud: ",
		"ledger -o yaml":                      `there is no output "yaml": leave it out for a table, or ask for json`,
		"ledger --live --output JSON":         `there is no output "JSON": leave it out for a table, or ask for json`,
		"server add":                          "accepts 1 arg(s), received 0",
		"server add Bad_Name":                 `asking local cloud: starting server: "Bad_Name" is no host name`,
		"server add ok --user 0ops":           `asking local cloud: starting server: "0ops" is no user name`,
		"server add ok --key-file " + missing: "reading public key: open " + missing + ": no such file or directory",
		"server add ok --user-data-file " + missing: "reading user data: open " + missing + ": no such file or directory",
		"server rm nobody":                          "asking local cloud: stopping server nobody: server not found",
		"token add":                                 "accepts 1 arg(s), received 0",
		"token revoke nobody":                       `no token is named "nobody"`,
		"token restore nobody":                      `no token is named "nobody"`,
		"token expire nobody --in 1h":               `no token is named "nobody"`,
		"token expire demo --in soon":               `invalid argument "soon" for "--in" flag`,
		"file put x":                                "accepts 2 arg(s), received 1",
		"file put x " + missing:                     "opening file: open " + missing + ": no such file or directory",
		"file fault":                                "accepts between 1 and 2 arg(s), received 0",
		"file fault x explode":                      "asking local cloud: ",
		"fault add":                                 "accepts 1 arg(s), received 0",
		"fault clear a b":                           "accepts at most 1 arg(s), received 2",
		"fault clear nothing-of-that-name":          "asking local cloud: ",
	} {
		t.Run(line, func(t *testing.T) {
			args := strings.Split(strings.ReplaceAll(line, missing, "MISSING"), " ")
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "MISSING", missing)
			}
			out, err := run(t.Context(), append([]string{"--state-dir", b.dir}, args...)...)
			require.ErrorContains(t, err, want)
			require.Empty(t, out)
		})
	}
}
