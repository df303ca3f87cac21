package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rancher/machine/libmachine/mcnflag"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation"
	"github.com/drover-project/drover/jobrunner/operation/builtin"
	"github.com/drover-project/drover/jobrunner/operation/isoimage"
	"github.com/drover-project/drover/jobrunner/operation/plugin"
	"github.com/drover-project/drover/state"
)

// asMachine makes the test binary be the program under whatever name it is called by.
const asMachine = "DROVER_TEST_AS_MACHINE"

const usageText = "usage: machine create | machine remove | machine scan | machine probe fetch|flags|report\n"

// call runs the program to its end.
func call(t *testing.T, program string, env []string, args ...string) (code int, out, errOut string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(slices.Clone(env), asMachine+"=1", "HOME="+t.TempDir(), "TMPDIR="+t.TempDir())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); !exited {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// TestBuiltin: what package driver says is built in is linked, and under its own name.
func TestBuiltin(t *testing.T) {
	for _, name := range driver.BuiltinNames() {
		linked := builtin.Drivers()[name]
		require.NotNil(t, linked, name)
		require.Equal(t, name, linked.DriverName())
	}
}

// TestPlugin: every built-in driver is served, and its flags are those the fields were generated from.
func TestPlugin(t *testing.T) {
	for _, name := range driver.BuiltinNames() {
		t.Run(name, func(t *testing.T) {
			var said bytes.Buffer
			process, err := plugin.Start(t.Context(), plugin.Options{Name: name, Path: os.Args[0], Env: driverEnvironment(os.Environ()), Dir: t.TempDir(), Output: &said})
			require.NoError(t, err, said.String())
			t.Cleanup(process.Kill)
			flags, err := process.Flags(t.Context())
			require.NoError(t, err)
			want, _ := driver.Builtin(name)
			var names []string
			for _, flag := range want {
				names = append(names, flag.Name)
			}
			require.ElementsMatch(t, names, flagNames(flags))
		})
	}
}

func flagNames(flags []mcnflag.Flag) []string {
	var names []string
	for _, flag := range flags {
		names = append(names, flag.String())
	}
	return names
}

func TestPluginOfNoDriver(t *testing.T) {
	for _, name := range []string{"acme", ""} {
		code, out, errOut := call(t, os.Args[0], []string{"MACHINE_PLUGIN_TOKEN=42", "MACHINE_PLUGIN_DRIVER_NAME=" + name})
		require.Equal(t, operation.ExitUsage, code)
		require.Empty(t, out)
		require.Equal(t, "unknown built-in driver \""+name+"\"\n", errOut)
	}
}

func TestRun_usage(t *testing.T) {
	for _, args := range [][]string{
		nil, {""}, {"--help"}, {"make"}, {"Create"}, {"create", "now"}, {"remove", ""}, {"probe"}, {"probe", "all"}, {"probe", "fetch", "x"}, {"probe fetch"}, {"create", "fetch"},
	} {
		code, out, errOut := call(t, os.Args[0], nil, args...)
		require.Equal(t, operation.ExitUsage, code, args)
		require.Empty(t, out, args)
		require.Equal(t, usageText, errOut, args)
	}
}

// TestRun_knowsEveryJob: whatever a Job's containers run is an operation of this program.
func TestRun_knowsEveryJob(t *testing.T) {
	ran := 0
	for _, kind := range []state.Operation{state.Create, state.Remove, state.Scan, state.Probe} {
		task := jobrunner.Task{Request: jobrunner.Request{Operation: kind, Attempt: 1, Namespace: "team", StateSecret: "s", Driver: state.DriverRef{Name: "x"}}}
		job := jobrunner.Job(task)
		if kind == state.Probe {
			job = jobrunner.ProbeJob(task)
		}
		pod := job.Spec.Template.Spec
		for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			ran++
			require.Equal(t, jobrunner.Command, c.Command[0])
			require.True(t, isUsage(append(c.Command[1:], c.Args...)), c.Command)
		}
	}
	require.Equal(t, 6, ran, "one container each, three of a probe")
}

// TestRun_withoutRequest: outside a Job's pod it says what is missing, and does nothing.
func TestRun_withoutRequest(t *testing.T) {
	for _, args := range [][]string{{"create"}, {"remove"}, {"scan"}, {"probe", "fetch"}, {"probe", "flags"}, {"probe", "report"}} {
		code, out, errOut := call(t, os.Args[0], nil, args...)
		require.Equal(t, operation.ExitUsage, code, args)
		require.Contains(t, out, "/request.json: no such file or directory", args)
		require.Empty(t, errOut, args)
	}
}

// TestWriteImage: called by the name that the vSphere driver looks for, the program packs a folder.
func TestWriteImage(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, isoimage.Program)
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, program))
	folder := filepath.Join(dir, "folder")
	require.NoError(t, os.Mkdir(folder, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "user-data"), []byte("#cloud-config\n"), 0o600))
	image := filepath.Join(dir, "image.iso")
	code, out, errOut := call(t, program, nil, "-J", "-r", "-V", "cidata", "-output", image, folder)
	require.Zero(t, code, errOut)
	require.Empty(t, out+errOut)
	raw, err := os.ReadFile(image)
	require.NoError(t, err)
	read, err := isoimage.Read(raw)
	require.NoError(t, err)
	require.Equal(t, "cidata", read.Label)
	require.Len(t, read.Files, 1)
	require.Equal(t, "user-data", read.Files[0].Name)
	require.Equal(t, "#cloud-config\n", string(read.Files[0].Content))
	code, _, errOut = call(t, program, nil, "-o", image, filepath.Join(dir, "none"))
	require.Equal(t, operation.ExitFailed, code)
	require.True(t, strings.HasPrefix(errOut, "mkisofs: reading the folder of the image: "), errOut)
}

func TestDriverEnvironment(t *testing.T) {
	for name, c := range map[string]struct{ all, want []string }{
		"the protocol's goes":      {[]string{"MACHINE_PLUGIN_TOKEN=42", "MACHINE_PLUGIN_DRIVER_NAME=x", "MACHINE_DEBUG=1", "MACHINE_STORAGE_PATH=/x"}, []string{}},
		"the rest stays, in order": {[]string{"HTTPS_PROXY=x", "PATH=", "no_proxy=a=b", "SSL_CERT_DIR=/y"}, []string{"HTTPS_PROXY=x", "PATH=", "no_proxy=a=b", "SSL_CERT_DIR=/y"}},
		"only by its beginning":    {[]string{"A_MACHINE_X=1", "machine_token=2", "MACHINE=3"}, []string{"A_MACHINE_X=1", "machine_token=2", "MACHINE=3"}},
		"nothing":                  {nil, nil},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, driverEnvironment(c.all)) })
	}
}
