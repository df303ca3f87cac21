package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/api/plan"
)

// TestEnvironment_ofPlans: instructions of a plan have the variables that the same plan writes, and lose those that it removes, also those that
// systemd gave the agent at its start.
func TestEnvironment_ofPlans(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.folder, "agent.env")
	require.NoError(t, os.WriteFile(file, plan.EncodeEnvironment([]plan.EnvVar{{Name: "OLD", Value: "from the script"}}), 0o600))
	environment := NewEnvironment(file, append(os.Environ(), "OLD=from the script", "SYSTEM=1"), logr.Discard())
	w.o.Runner.Env = environment.Variables
	for _, tt := range []struct {
		variables []plan.EnvVar
		want      string
	}{
		{[]plan.EnvVar{{Name: "OLD", Value: "from the script"}, {Name: "NEW", Value: `a "b" $c`}}, `from the script|a "b" $c|1`},
		{[]plan.EnvVar{{Name: "NEW", Value: "changed"}}, "unset|changed|1"},
		{nil, "unset|unset|1"},
		{[]plan.EnvVar{{Name: "SYSTEM", Value: "2"}}, "unset|unset|2"},
	} {
		f := plan.NewFile(file, "0600", plan.EncodeEnvironment(tt.variables))
		f.UID, f.GID = os.Getuid(), os.Getgid()
		w.secret.deliver(t, plan.Plan{Files: []plan.File{f}, Instructions: []plan.Instruction{shellStep("show", `echo "${OLD-unset}|${NEW-unset}|$SYSTEM"`)}})
		w.until(w.state(plan.StateSucceeded))
		output, err := plan.DecodeOutput[map[string][]byte](w.secret.now.Data[plan.KeyAppliedOutput])
		require.NoError(t, err)
		require.Equal(t, tt.want, strings.TrimSpace(string(output["show"])))
	}
}

func TestEnvironment_file(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agent.env")
	var log strings.Builder
	e := NewEnvironment(file, []string{"A=1"}, funcr.New(func(_, args string) { log.WriteString(args + "\n") }, funcr.Options{}))
	require.Equal(t, []string{"A=1"}, e.Variables(), "a server without the file has no more variables")
	require.NoError(t, os.WriteFile(file, []byte("HTTPS_PROXY=\"http://p\"\nEMPTY=\"\"\n"), 0o600))
	require.Equal(t, "http://p", e.Get("EMPTY", "HTTPS_PROXY", "A"))
	require.Empty(t, e.Get("B"))
	require.NoError(t, os.WriteFile(file, []byte("canary"), 0o600))
	require.Equal(t, []string{"A=1", "HTTPS_PROXY=http://p", "EMPTY="}, e.Variables(), "a broken file changes nothing")
	require.Equal(t, "http://p", e.Get("HTTPS_PROXY"))
	require.Equal(t, 1, strings.Count(log.String(), "cannot be read"), "logged once: %s", log.String())
	require.NotContains(t, log.String(), "canary")
	require.NoError(t, os.Remove(file))
	require.Equal(t, []string{"A=1"}, e.Variables())
}

// TestFailedProxy: a proxy that does not answer is in the report while it does not.
func TestFailedProxy(t *testing.T) {
	w := newWorld(t)
	failed := "http://proxy.example.com:3128: connect: connection refused"
	w.o.FailedProxy = func() string { return failed }
	w.secret.deliver(t, plan.Plan{})
	w.until(w.state(plan.StateSucceeded))
	require.Equal(t, failed, w.secret.status(t).Proxy)
	failed = ""
	w.looks(1)
	require.Empty(t, w.secret.status(t).Proxy)
}
