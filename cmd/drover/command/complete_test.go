package command_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/cmd/drover/command"
)

// completions are what drover offers, without descriptions, and cobra's directive.
func completions(r result) (offered []string, directive string) {
	for line := range strings.Lines(r.out) {
		line, _, _ = strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, ":") {
			return offered, line
		}
		offered = append(offered, line)
	}
	return offered, "none"
}

// Directives of cobra: what the shell does besides.
const (
	files   = ":0"
	noSpace = ":2"
	nothing = ":4"
)

func TestCompleteNames(t *testing.T) {
	c := newCluster(t)
	c.apply(t, runningMachine)
	c.apply(t, waitingMachine)
	c.apply(t, failedMachine)
	c.apply(t, `{apiVersion: management.cattle.io/v3, kind: NodeDriver, metadata: {name: zz-complete}, spec: {displayName: zzcloud, url: "https://d.example/1", active: false}}`)
	for name, tt := range map[string]struct {
		args      []string
		want      []string
		directive string
	}{
		"all machines":             {[]string{"why", ""}, []string{"web-1", "web-2", "db-1"}, nothing},
		"by their beginning":       {[]string{"logs", "web"}, []string{"web-1", "web-2"}, nothing},
		"one name only":            {[]string{"abandon", "web-1", ""}, nil, nothing},
		"several names, each once": {[]string{"get", "web-1", "web"}, []string{"web-2"}, nothing},
		"none begins so":           {[]string{"ssh", "x"}, nil, nothing},
		"after the flags":          {[]string{"keys", "--dir", "x", "-l", "me", "d"}, []string{"db-1"}, nothing},
		"a copy":                   {[]string{"scp", "web"}, []string{"web-1:", "web-2:"}, noSpace},
		"a copy's file":            {[]string{"scp", "./w"}, nil, files},
		"a copy's path":            {[]string{"scp", "a", "web-1:/et"}, nil, files},
		"drivers":                  {[]string{"drivers", "zz"}, []string{"zz-complete"}, nothing},
		"drivers, each once":       {[]string{"get", "drivers", "zz-complete", "zz"}, nil, nothing},
		"a driver of why":          {[]string{"why", "driver/zz"}, []string{"driver/zz-complete"}, nothing},
		"no second name of why":    {[]string{"why", "driver/zz-complete", "driver/zz"}, nil, nothing},
		"formats":                  {[]string{"get", "-o", ""}, []string{"go-template=", "json", "jsonpath=", "name", "wide", "yaml"}, nothing},
		"formats of why":           {[]string{"why", "-o", ""}, []string{"json", "yaml"}, nothing},
		"formats of version":       {[]string{"version", "-o", ""}, []string{"json", "yaml"}, nothing},
		"operations":               {[]string{"logs", "--operation", ""}, []string{"create", "remove"}, nothing},
		"namespaces":               {[]string{"get", "-n", c.namespace}, []string{c.namespace}, nothing},
		"nothing for version":      {[]string{"version", ""}, nil, nothing},
		"commands":                 {[]string{"dri"}, []string{"drivers"}, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.drover(t, append([]string{"__complete"}, tt.args...)...)
			require.Zero(t, r.code, r.errOut)
			offered, directive := completions(r)
			slices.Sort(offered)
			slices.Sort(tt.want)
			require.Equal(t, tt.want, offered)
			require.Equal(t, tt.directive, directive)
		})
	}
}

func TestCompleteFromTheKubeconfig(t *testing.T) {
	path := kubeconfig(t, "http://127.0.0.1:1", "")
	for flag, want := range map[string][]string{
		"--context": {"elsewhere", "shop"}, "--cluster": {"elsewhere-cluster", "shop-cluster"}, "--user": {"clerk"},
	} {
		offered, directive := completions(execute(t, emptyOptions, "", "--kubeconfig", path, "__complete", "--kubeconfig", path, "get", flag, ""))
		require.Equal(t, want, offered, "in order")
		require.Equal(t, nothing, directive)
	}
	offered, directive := completions(execute(t, emptyOptions, "", "__complete", "--kubeconfig", t.TempDir(), "get", "--context", ""))
	require.Empty(t, offered)
	require.Equal(t, nothing, directive)
}

// TestCompletionIsQuietAboutTrouble: in the middle of a line nobody wants to read errors, nor wait for them.
func TestCompletionIsQuietAboutTrouble(t *testing.T) {
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(hung.Close)
	refusing := newCluster(t).through(t, func(out http.ResponseWriter, _ *http.Request) bool {
		return status(out, http.StatusForbidden, "Forbidden", "no")
	})
	lines := [][]string{{"why", ""}, {"scp", "w"}, {"drivers", ""}, {"get", "-n", ""}, {"why", "driver/"}}
	for name, path := range map[string]string{"refused": refusing.kubeconfig, "gone": kubeconfig(t, "http://127.0.0.1:1", ""), "no kubeconfig": t.TempDir()} {
		for _, args := range lines {
			r := execute(t, emptyOptions, "", append([]string{"__complete", "--kubeconfig", path}, args...)...)
			require.Zero(t, r.code, name)
			offered, _ := completions(r)
			require.Empty(t, offered, name)
			require.NotContains(t, r.errOut, "error", name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := executeWith(ctx, emptyOptions, "", "__complete", "--kubeconfig", kubeconfig(t, hung.URL, ""), "why", "")
	offered, _ := completions(r)
	require.Empty(t, offered)
}

// TestCompleteForKubectl: kubectl calls the binary under its third name, with the words of the line.
func TestCompleteForKubectl(t *testing.T) {
	c := newCluster(t)
	c.apply(t, runningMachine)
	t.Setenv("KUBECONFIG", c.kubeconfig)
	name, args := command.Invocation("kubectl_complete-drover", []string{"ssh", "-n", c.namespace, "we"})
	r := execute(t, command.Options{Name: name}, "", args...)
	require.Equal(t, "web-1\tdigitalocean Running\n:4\n", r.out, "with a description, and last what the shell does besides")
	name, args = command.Invocation("kubectl_complete-drover", []string{""})
	r = execute(t, command.Options{Name: name}, "", args...)
	require.Contains(t, r.out, "why\tShow why a machine or a cluster waits or failed, and the next steps\n")
}
