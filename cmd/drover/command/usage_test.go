package command_test

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/drover-project/drover/cmd/drover/command"
)

// emptyOptions are those of a drover called by its own name.
var emptyOptions = command.Options{Name: "drover"}

// result is how a command ended.
type result struct {
	code        int
	out, errOut string
}

// execute runs drover in this process.
func execute(t *testing.T, o command.Options, stdin string, args ...string) result {
	t.Helper()
	return executeWith(t.Context(), o, stdin, args...)
}

func executeWith(ctx context.Context, o command.Options, stdin string, args ...string) result {
	var out, errOut bytes.Buffer
	if o.Name == "" {
		o.Name = "drover"
	}
	o.Streams = genericiooptions.IOStreams{In: bytes.NewBufferString(stdin), Out: &out, ErrOut: &errOut}
	code := command.Execute(ctx, o, args)
	return result{code: code, out: out.String(), errOut: errOut.String()}
}

func TestWrongUsage(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"unknown command":         {[]string{"gett"}, `unknown command "gett" (did you mean "get"?)`},
		"unknown flag":            {[]string{"get", "--nonsense"}, "unknown flag: --nonsense"},
		"unknown output":          {[]string{"get", "-o", "xml"}, "-o takes json, yaml, wide, name"},
		"ssh without name":        {[]string{"ssh"}, "NAME is needed"},
		"ssh without --":          {[]string{"ssh", "one", "ls"}, "-- before a command"},
		"ssh with two names":      {[]string{"ssh", "one", "two", "--", "ls"}, "-- before a command"},
		"ssh with a bad port":     {[]string{"ssh", "one", "-p", "70000"}, "not between 1 and 65535"},
		"scp without destination": {[]string{"scp", "a"}, "source and a destination"},
		"scp on this machine":     {[]string{"scp", "a", "b"}, "written NAME:path"},
		"scp between servers":     {[]string{"scp", "one:a", "two:b"}, "not both"},
		"why without name":        {[]string{"why"}, "one NAME is needed"},
		"why as a table":          {[]string{"why", "one", "-o", "wide"}, "-o takes json or yaml"},
		"logs of two":             {[]string{"logs", "one", "two"}, "one NAME is needed"},
		"logs both ways":          {[]string{"logs", "one", "--previous", "--attempt", "2"}, "goes with neither"},
		"logs of no operation":    {[]string{"logs", "one", "--operation", "delete"}, "create or remove"},
		"version as a table":      {[]string{"version", "-o", "wide"}, `the output "wide" is unknown; -o takes json or yaml`},
		"gc of a machine":         {[]string{"gc", "web-1"}, "unknown command"},
		"gc without driver":       {[]string{"gc", "--credential", "x"}, "--credential needs --driver"},
		"gc everywhere":           {[]string{"gc", "--credential", "x", "--driver", "digitalocean", "-A"}, "exclude each other"},
		"gc without tags":         {[]string{"gc", "--driver", "exoscale"}, "docs/orphans.md"},
		"gc with negative grace":  {[]string{"gc", "--grace", "-1h"}, "must not be negative"},
		"gc without time":         {[]string{"gc", "--timeout", "0"}, "--timeout must be more than 0"},
		"gc of a Cluster's name":  {[]string{"gc", "--deleted-cluster", "foo"}, `--deleted-cluster: "foo" is not a valid UID`},
		"gc of a large UID":       {[]string{"gc", "--deleted-cluster", "5F3C0A5E-6D51-4B63-9E62-0F1E2D3C4B5A"}, "is not a valid UID (Kubernetes writes UIDs in lower case)"},
		"completion of no shell":  {[]string{"completion", "nope"}, `unknown command "nope"`},
		"completion of two":       {[]string{"completion", "bash", "extra"}, `unknown command "extra"`},
		"gc as XML":               {[]string{"gc", "-o", "xml"}, "-o takes json"},
		"gc as names":             {[]string{"gc", "-o", "name"}, "-o takes json, yaml, wide, jsonpath"},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, command.Options{}, "", c.args...)
			require.Equal(t, 2, r.code, r.errOut)
			require.Contains(t, r.errOut, c.want)
			require.Regexp(t, `^error: [^\n]+; see 'drover [^\n]*--help'\n$`, r.errOut)
			require.Empty(t, r.out)
		})
	}
}

func TestNoCluster(t *testing.T) {
	t.Run("nothing configured", func(t *testing.T) {
		t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
		t.Setenv("HOME", t.TempDir())
		t.Setenv("KUBERNETES_SERVICE_HOST", "")
		r := execute(t, command.Options{}, "", "get")
		require.Equal(t, 1, r.code)
		require.Contains(t, r.errOut, "no kubeconfig")
	})
	t.Run("version all the same", func(t *testing.T) {
		t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
		r := execute(t, command.Options{}, "", "version", "--client")
		require.Zero(t, r.code)
		require.Contains(t, r.out, "drover ")
	})
}

func TestInvocation(t *testing.T) {
	for binary, want := range map[string]struct {
		name string
		args []string
	}{
		"drover":                  {"drover", []string{"get"}},
		"kubectl-drover":          {"kubectl drover", []string{"get"}},
		"kubectl_complete-drover": {"kubectl drover", []string{"__complete", "get"}},
		"anything":                {"drover", []string{"get"}},
	} {
		name, args := command.Invocation(binary, []string{"get"})
		require.Equal(t, want.name, name)
		require.Equal(t, want.args, args)
	}
}

func TestHelpIsOfTheNameItWasCalledBy(t *testing.T) {
	r := execute(t, command.Options{Name: "kubectl drover"}, "", "ssh", "--help")
	require.Zero(t, r.code)
	require.Contains(t, r.out, "kubectl drover ssh NAME")
	require.Contains(t, r.out, "kubectl drover ssh web-1 -- uname -r")
	require.NotContains(t, r.out, "\n  drover ")
	wrong := execute(t, command.Options{Name: "kubectl drover"}, "", "ssh")
	require.Contains(t, wrong.errOut, "; see 'kubectl drover ssh --help'\n")
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		r := execute(t, command.Options{}, "", "completion", shell)
		require.Zero(t, r.code, shell)
		require.Contains(t, r.out, "__complete", shell)
	}
}
