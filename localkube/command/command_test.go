package command_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/command"
	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/pki"
	"github.com/drover-project/drover/localkube/server"
)

var update = flag.Bool("update", false, "write the golden files anew")

// execute runs a command line in this process.
func execute(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, log bytes.Buffer
	cmd := command.New()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&log)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), log.String(), err
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o700))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// commands lists every command of ours with the words that lead to it.
func commands(cmd *cobra.Command, path ...string) map[string]*cobra.Command {
	all := map[string]*cobra.Command{strings.Join(path, " "): cmd}
	for _, child := range cmd.Commands() {
		maps.Copy(all, commands(child, append(append([]string{}, path...), child.Name())...))
	}
	return all
}

func TestHelp_golden(t *testing.T) {
	for words := range commands(command.New()) {
		t.Run("localkube "+words, func(t *testing.T) {
			out, log, err := execute(t, append(strings.Fields(words), "--help")...)
			require.NoError(t, err)
			require.Empty(t, log)
			golden(t, strings.TrimSuffix("help-"+strings.ReplaceAll(words, " ", "-"), "-"), out)
		})
	}
}

func TestHelp_is_complete(t *testing.T) {
	for words, cmd := range commands(command.New()) {
		require.NotEmpty(t, cmd.Short, words)
		require.False(t, strings.HasSuffix(cmd.Short, "."), words)
		require.LessOrEqual(t, len(cmd.Short), 75, words)
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			require.NotEmpty(t, f.Usage, "%s --%s", words, f.Name)
			require.False(t, strings.HasSuffix(f.Usage, "."), "%s --%s", words, f.Name)
		})
		if cmd.RunE != nil && cmd.Flags().Lookup("data-dir") != nil {
			require.Contains(t, cmd.UseLine(), "--data-dir DIR", "what is required is in the usage")
		}
	}
}

// refused are command lines and what the user reads; DIR is a directory of the test's own.
func refused() map[string]struct {
	args []string
	want string
} {
	return map[string]struct {
		args []string
		want string
	}{
		"unknown command":           {[]string{"serve"}, "unknown command \"serve\" for \"localkube\"\n\nDid you mean this?\n\tserver\n"},
		"unknown flag":              {[]string{"server", "--port", "1"}, "unknown flag: --port"},
		"a word too much":           {[]string{"server", "now"}, `unknown command "now" for "localkube server"`},
		"server without directory":  {[]string{"server"}, "no data directory given: set --data-dir"},
		"agent without directory":   {[]string{"agent"}, "no data directory given: set --data-dir"},
		"status without directory":  {[]string{"status"}, "no data directory given: set --data-dir"},
		"down without directory":    {[]string{"down"}, "no data directory given: set --data-dir"},
		"token without directory":   {[]string{"token"}, "no data directory given: set --data-dir"},
		"images without directory":  {[]string{"images", "import", "x.tar"}, "no data directory given: set --data-dir"},
		"images without archive":    {[]string{"images", "import", "--data-dir", "DIR"}, "no image archive given: localkube images import FILE... --data-dir DIR"},
		"images of nothing":         {[]string{"images", "import", "x.tar", "--data-dir", "DIR/none"}, "nothing runs on this data directory: it does not exist"},
		"directory that is long":    {[]string{"status", "--data-dir", "/" + strings.Repeat("x", 80)}, "data directory /" + strings.Repeat("x", 80) + " is 81 bytes long: unix sockets below it allow at most 72"},
		"port that is none":         {[]string{"server", "--data-dir", "DIR", "--https-port", "https"}, `invalid argument "https" for "--https-port" flag: strconv.ParseInt: parsing "https": invalid syntax`},
		"port out of range":         {[]string{"server", "--data-dir", "DIR", "--https-port", "70000"}, "--https-port 70000 is not a port: give one from 1 to 65535, or 0 to pick one"},
		"two tokens":                {[]string{"agent", "--data-dir", "DIR", "--token", "a", "--token-file", "b"}, "if any flags in the group [token token-file] are set none of the others can be; [token token-file] were all set"},
		"token file that is none":   {[]string{"agent", "--data-dir", "DIR", "--token-file", "DIR/none"}, "reading join token: open DIR/none: no such file or directory"},
		"token file, as a server":   {[]string{"server", "--data-dir", "DIR", "--join", "https://x", "--token-file", "DIR"}, "reading join token: read DIR: is a directory"},
		"agent without server":      {[]string{"agent", "--data-dir", "DIR", "--token", "hush"}, "no server to join given: set --server to the URL at which the server says machines can join"},
		"agent without token":       {[]string{"agent", "--data-dir", "DIR", "--server", "https://x"}, "no join token given: set --token-file to a copy of the server's DATA/pki/token-agent, or token-server for a further server"},
		"agent with half a token":   {[]string{"agent", "--data-dir", "DIR", "--server", "https://x", "--token", "hush"}, "reading join token: not of the form lk1.<fingerprint>.<secret>"},
		"status in another form":    {[]string{"status", "--data-dir", "DIR", "-o", "yaml"}, `unknown output format "yaml": json is the only one`},
		"join without token":        {[]string{"server", "--data-dir", "DIR", "--join", "https://x"}, "--join and --token belong together"},
		"component that is no part": {[]string{"server", "--data-dir", "DIR", "--disable", "scheduler,etcd"}, "--disable etcd: only controller-manager and scheduler can be disabled"},
		"label that is none":        {[]string{"server", "--data-dir", "DIR", "--node-label", "zone"}, `--node-label "zone" is not key=value`},
		"kubelet flag with dashes":  {[]string{"server", "--data-dir", "DIR", "--kubelet-arg", "--v=4"}, `--kubelet-arg "--v=4" is not name=value without dashes before the name`},
		"token of no cluster":       {[]string{"token", "--data-dir", "DIR"}, "no server has run on this data directory: a token is made where one has"},
		"token for nobody":          {[]string{"token", "--data-dir", "DIR", "--role", "admin"}, `unknown role "admin": a token is for an agent or a server`},
		"token that has expired":    {[]string{"token", "--data-dir", "DIR", "--ttl", "-1h"}, "a token cannot last -1h0m0s: set --ttl to what machines need to join, like 1h"},
		"time that is none":         {[]string{"token", "--data-dir", "DIR", "--ttl", "1d"}, `invalid argument "1d" for "--ttl" flag: time: unknown unit "d" in duration "1d"`},
	}
}

func TestRefused(t *testing.T) {
	for name, tc := range refused() {
		t.Run(name, func(t *testing.T) {
			dir := short(t)
			args := make([]string, len(tc.args))
			for i, arg := range tc.args {
				args[i] = strings.ReplaceAll(arg, "DIR", dir)
			}
			want := tc.want
			if name != "images without archive" {
				want = strings.ReplaceAll(want, "DIR", dir)
			}
			out, _, err := execute(t, args...)
			require.EqualError(t, err, want)
			require.Empty(t, out, "stdout is for what was asked for")
			require.NotContains(t, err.Error(), "hush")
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, entries, "nothing was begun")
		})
	}
}

// short is an empty directory whose name is short enough for a data directory.
func short(t *testing.T) string {
	t.Helper()
	dir := filepath.Dir(t.TempDir())
	link := filepath.Join(filepath.Dir(dir), "lk"+filepath.Base(dir)[max(0, len(filepath.Base(dir))-12):])
	require.NoError(t, os.Mkdir(link, 0o700))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(link)) })
	return link
}

func TestStatus(t *testing.T) {
	dir := short(t)
	for name, args := range map[string][]string{"text": nil, "json": {"-o", "json"}} {
		out, _, err := execute(t, append([]string{"status", "--data-dir", dir}, args...)...)
		require.NoError(t, err, "not running is an answer")
		golden(t, "status-"+name, strings.ReplaceAll(out, dir, "DATA"))
	}
	out, _, err := execute(t, "status", "--data-dir", filepath.Join(dir, "none"), "-o", "json")
	require.NoError(t, err)
	var status server.Status
	require.NoError(t, json.Unmarshal([]byte(out), &status))
	require.Equal(t, server.Status{DataDir: filepath.Join(dir, "none"), Reason: "the data directory does not exist"}, status)
}

func TestDown_is_idempotent(t *testing.T) {
	dir := short(t)
	for range 2 {
		out, log, err := execute(t, "down", "--data-dir", dir)
		require.NoError(t, err)
		require.Empty(t, out)
		require.Regexp(t, `^localkube +0\.\d\ds  `+dir+" is down\n$", log)
	}
}

func TestToken(t *testing.T) {
	path := short(t)
	dir, err := datadir.Open(path)
	require.NoError(t, err)
	require.NoError(t, dir.SaveConfig(datadir.Config{NodeName: "n"}))
	store, err := pki.Open(dir.Path("pki"))
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		args []string
		role pki.Role
	}{
		"by default an agent's": {nil, pki.RoleAgent},
		"agent":                 {[]string{"--role", "agent", "--ttl", "5m"}, pki.RoleAgent},
		"server":                {[]string{"--role=server", "--ttl=48h"}, pki.RoleServer},
	} {
		t.Run(name, func(t *testing.T) {
			out, log, err := execute(t, append([]string{"token", "--data-dir", path}, tc.args...)...)
			require.NoError(t, err)
			require.Empty(t, log)
			require.Equal(t, 1, strings.Count(out, "\n"), "the token and nothing else")
			token, err := pki.ParseToken(out)
			require.NoError(t, err)
			require.NoError(t, store.Admits(tc.role, token.Secret))
		})
	}
	out, _, err := execute(t, "token", "--data-dir", path, "--ttl", time.Nanosecond.String())
	require.NoError(t, err)
	token, err := pki.ParseToken(out)
	require.NoError(t, err)
	require.ErrorIs(t, store.Admits(pki.RoleAgent, token.Secret), pki.ErrTokenExpired)
}

func TestVersion(t *testing.T) {
	first, _, err := execute(t, "version")
	require.NoError(t, err)
	require.Regexp(t, `^Kubernetes v\S+ go1\.\S+ linux/\w+\n$`, first)
	second, _, err := execute(t, "--version")
	require.NoError(t, err)
	require.Equal(t, first, second)
}

func TestCompletion_knows_the_commands(t *testing.T) {
	out, _, err := execute(t, "__complete", "s")
	require.NoError(t, err)
	require.Contains(t, out, "server\tRun a control plane")
	require.Contains(t, out, "status\tTell what runs")
	out, _, err = execute(t, "__complete", "server", "--to")
	require.NoError(t, err)
	require.Contains(t, out, "--token-file\tfile with the server token")
}
