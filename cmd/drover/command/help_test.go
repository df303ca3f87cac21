package command_test

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/drover-project/drover/cmd/drover/command"
)

// commands are all of drover's commands but cobra's, by path.
func commands(t *testing.T, name string) map[string]*cobra.Command {
	t.Helper()
	all := map[string]*cobra.Command{}
	var add func(cmd *cobra.Command)
	add = func(cmd *cobra.Command) {
		if cmd.Name() == "completion" || cmd.Name() == "help" {
			return
		}
		all[cmd.CommandPath()] = cmd
		for _, child := range cmd.Commands() {
			add(child)
		}
	}
	add(command.New(command.Options{Name: name, Streams: genericiooptions.IOStreams{}}))
	return all
}

// TestHelp: each command explains itself, with examples that can be typed as they stand.
func TestHelp(t *testing.T) {
	for path, cmd := range commands(t, "drover") {
		t.Run(path, func(t *testing.T) {
			args := append(strings.Fields(path)[1:], "--help")
			r := execute(t, emptyOptions, "", args...)
			require.Zero(t, r.code)
			require.Empty(t, r.errOut)
			require.Contains(t, r.out, "Examples:\n")
			require.NotContains(t, r.out, "{name}")
			require.True(t, strings.HasPrefix(cmd.Short, strings.ToUpper(cmd.Short[:1])), cmd.Short)
			require.False(t, strings.HasSuffix(cmd.Short, "."), cmd.Short)
			for line := range strings.Lines(r.out) {
				require.LessOrEqual(t, len(strings.TrimRight(line, "\n")), 135, line)
			}
		})
	}
}

// TestExamples: what the help shows is accepted, as far as can be told without a cluster.
func TestExamples(t *testing.T) {
	path := kubeconfig(t, "http://127.0.0.1:1", "")
	t.Chdir(t.TempDir())
	for _, source := range []string{"app.conf", "image.tar"} { // of scp
		require.NoError(t, os.WriteFile(source, nil, 0o600))
	}
	require.NoError(t, os.WriteFile("shop.yaml", []byte(shopManifest), 0o600))
	for name, cmd := range commands(t, "drover") {
		for line := range strings.Lines(cmd.Example) {
			_, call, found := strings.Cut(line, "drover ")
			if !found || strings.HasPrefix(strings.TrimSpace(line), "ssh ") {
				continue
			}
			call, _, _ = strings.Cut(call, "#")
			args := fields(strings.TrimSpace(call))
			r := execute(t, emptyOptions, "", append([]string{"--kubeconfig", path}, args...)...)
			require.NotEqual(t, 2, r.code, "%s: %s: %s", name, line, r.errOut)
			if args[0] != "version" {
				require.Contains(t, r.errOut, "cannot be reached", "%s: %s", name, line)
			}
		}
	}
}

// fields takes a line apart as a shell does, as far as examples go.
func fields(line string) []string {
	var all []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			if n := len(all) - 1; n >= 0 && strings.HasSuffix(all[n], "=") {
				all[n] += part
				continue
			}
			all = append(all, part)
			continue
		}
		all = append(all, strings.Fields(part)...)
	}
	return all
}

// TestPluginNames: as kubectl's plugin, everything names the plugin.
func TestPluginNames(t *testing.T) {
	for path, cmd := range commands(t, "kubectl drover") {
		require.True(t, strings.HasPrefix(path, "kubectl drover"), path)
		for line := range strings.Lines(cmd.Example) {
			if strings.Contains(line, "drover ") {
				require.Contains(t, line, "kubectl drover ", path)
			}
		}
	}
}

func TestHelpOfRoot(t *testing.T) {
	bare, asked := execute(t, emptyOptions, ""), execute(t, emptyOptions, "", "help")
	require.Zero(t, bare.code)
	require.Equal(t, bare.out, asked.out)
	for _, word := range []string{"abandon", "drivers", "get", "keys", "logs", "retry", "scp", "ssh", "version", "why", "completion", "--kubeconfig", "--as"} {
		require.Contains(t, bare.out, word)
	}
	for path, cmd := range commands(t, "drover") {
		if strings.Count(path, " ") == 1 {
			require.Regexp(t, `(?m)^  `+cmd.Name()+` +`+cmd.Short+`$`, bare.out)
		}
	}
	for _, hidden := range []string{"--token", "--insecure-skip-tls-verify", "--cache-dir", "--client-key"} {
		require.NotContains(t, bare.out, hidden, "what a kubeconfig has is no flag")
	}
	for args, want := range map[string]string{
		"whyy": `unknown command "whyy" (did you mean "why"?)`, "xyz": `unknown command "xyz"`,
		"explain": `unknown command "explain" (did you mean "why"?)`, "list": `unknown command "list" (did you mean "get"?)`,
		"apply":  `unknown command "apply": clusters and machines are Kubernetes objects, so use 'kubectl apply'; docs/get-started-first-cluster.md has a first manifest`,
		"rm":     `unknown command "rm": delete a Cluster with 'delete', and a MachineDeployment or Machine with 'kubectl delete', which removes its servers`,
		"--nope": "unknown flag: --nope", "get drivers --nope": "unknown flag: --nope",
		"get --request-timeout soon":  "--request-timeout=soon is not a valid duration, such as 30s",
		"why a --request-timeout -1s": "--request-timeout=-1s is not a valid duration, such as 30s", "get --as-group staff": "--as-group needs --as",
		"completion": "", "help": "", "help why": "", "help get drivers": "", "help completion bash": "", "get -q": "unknown shorthand flag: 'q' in -q", "-n": "flag needs an argument: 'n' in -n",
	} {
		r := execute(t, emptyOptions, "", strings.Fields(args)...)
		if want == "" {
			require.Zero(t, r.code, args)
			continue
		}
		require.Equal(t, 2, r.code, args)
		require.True(t, strings.HasPrefix(r.errOut, "error: "+want+"; see 'drover "), r.errOut)
	}
}

// TestHelpCommand: both ways to ask say the same.
func TestHelpCommand(t *testing.T) {
	for path := range commands(t, "drover") {
		words := strings.Fields(path)[1:]
		asked, flagged := execute(t, emptyOptions, "", append([]string{"help"}, words...)...), execute(t, emptyOptions, "", append(words, "--help")...)
		require.Equal(t, flagged, asked, path)
	}
}
