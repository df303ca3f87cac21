package main

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/testkit"
)

// asDrover makes the test binary be drover under whatever name it is called by.
const asDrover = "DROVER_TEST_AS_DROVER"

func TestMain(m *testing.M) {
	if os.Getenv(asDrover) != "" {
		os.Exit(run())
	}
	testkit.Main(m)
}

// names of the binary, as make build leaves them.
var names = []string{"drover", "kubectl-drover", "kubectl_complete-drover"}

// install links the test binary under all its names and returns the directory, which is also first in the PATH.
func install(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	for _, name := range names {
		require.NoError(t, os.Symlink(self, filepath.Join(dir, name)))
	}
	t.Setenv(asDrover, "1")
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return dir
}

// call runs a program to its end.
func call(t *testing.T, program string, args ...string) (code int, out, errOut string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); !exited {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

func TestProcess(t *testing.T) {
	dir := install(t)
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("KUBECONFIG", none)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for name, c := range map[string]struct {
		args             []string
		code             int
		out, errOut, not string
	}{
		"help":       {args: []string{"drover"}, out: "See, reach and mend the machines that Drover makes"},
		"plugin":     {args: []string{"kubectl-drover", "ssh", "--help"}, out: "kubectl drover ssh NAME [-- OPTION"},
		"version":    {args: []string{"drover", "version", "--client"}, out: "drover "},
		"usage":      {args: []string{"drover", "ssh"}, code: 2, errOut: "error: one machine's NAME is needed, and -- before a command or an option of ssh; see 'drover ssh --help'\n"},
		"error":      {args: []string{"kubectl-drover", "get"}, code: 1, errOut: "error: no kubeconfig: of the files that KUBECONFIG names, none can be used: stat " + none + ": no such file or directory\n"},
		"completion": {args: []string{"kubectl_complete-drover", "ver"}, out: "version\tPrint the versions of drover, the manager and Kubernetes\n:4\n", errOut: "Completion ended with directive: ShellCompDirectiveNoFileComp\n"},
		"shell":      {args: []string{"drover", "completion", "bash"}, out: "# bash completion V2 for drover"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := call(t, filepath.Join(dir, c.args[0]), c.args[1:]...)
			require.Equal(t, c.code, code, errOut)
			require.Contains(t, out, c.out)
			require.Equal(t, c.errOut, errOut)
		})
	}
}

// TestLibrariesAreSilent: what Kubernetes' client logs of its retries is not for the user.
func TestLibrariesAreSilent(t *testing.T) {
	dir := install(t)
	for _, args := range [][]string{{"get"}, {"why", "driver/x"}, {"logs", "x", "-f"}} {
		code, out, errOut := call(t, filepath.Join(dir, "drover"), append(args, "--kubeconfig", unreachable(t, "http://127.0.0.1:1"))...)
		require.Equal(t, 1, code)
		require.Empty(t, out)
		require.Equal(t, 1, strings.Count(errOut, "\n"), errOut)
		require.Contains(t, errOut, "the API server http://127.0.0.1:1 cannot be reached: connection refused\n")
	}
}

// unreachable is a kubeconfig of a server.
func unreachable(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, []byte("{apiVersion: v1, kind: Config, clusters: [{name: '', cluster: {server: '"+server+"'}}]}"), 0o600))
	return path
}

// TestSignals: both signals end it at once and quietly, with the code that shells know.
func TestSignals(t *testing.T) {
	dir := install(t)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		asked := make(chan struct{})
		hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(asked)
			<-r.Context().Done()
		}))
		t.Cleanup(hung.Close)
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "drover"), "get", "--kubeconfig", unreachable(t, hung.URL))
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = &output, &output
		require.NoError(t, cmd.Start())
		<-asked
		require.NoError(t, cmd.Process.Signal(signal))
		require.Error(t, cmd.Wait())
		require.Equal(t, 130, cmd.ProcessState.ExitCode())
		require.Empty(t, output.String())
	}
}

// TestKubectl: kubectl finds the plugin and asks it for completions.
func TestKubectl(t *testing.T) {
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("no kubectl here")
	}
	install(t)
	t.Setenv("KUBECONFIG", testkit.Kubeconfig(t))
	code, out, errOut := call(t, "kubectl", "drover", "version")
	require.Zero(t, code, errOut)
	require.Contains(t, out, "Kubernetes v1.")
	code, _, errOut = call(t, "kubectl", "drover", "ssh")
	require.Equal(t, 2, code, "the plugin's code is kubectl's")
	require.Equal(t, "error: one machine's NAME is needed, and -- before a command or an option of ssh; see 'kubectl drover ssh --help'\n", errOut)

	namespace := testkit.Namespace(t)
	for words, want := range map[string]string{
		"wh":                  "why\tShow why a machine or a cluster waits or failed, and the next steps\n:4\n",
		"get -n " + namespace: namespace + "\n:4\n",
		"scp ./":              ":0\n",
	} {
		code, out, errOut = call(t, "kubectl", append([]string{"__complete", "drover"}, strings.Fields(words)...)...)
		require.Zero(t, code, errOut)
		require.Equal(t, want, out, words)
	}
}
