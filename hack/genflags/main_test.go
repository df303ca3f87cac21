package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/driver/mcnflags"
	"github.com/drover-project/drover/jobrunner/operation/builtin"
)

// counts is how many create flags each driver of the pinned rancher/machine has;
// vmwarefusion has some on macOS only.
var counts = map[string]int{
	"amazonec2": 39, "azure": 33, "digitalocean": 14, "exoscale": 12, "generic": 5, "google": 22, "hyperv": 8, "none": 1, "noop": 1,
	"openstack": 45, "pod": 2, "rackspace": 10, "softlayer": 16, "virtualbox": 16, "vmwarefusion": 0, "vmwarevcloudair": 13, "vmwarevsphere": 33,
}

func TestBuiltins_have_all_their_flags(t *testing.T) {
	have := map[string]int{}
	for name, d := range builtin.Drivers() {
		flags, err := mcnflags.Convert(d.GetCreateFlags())
		require.NoError(t, err, name)
		require.Len(t, flags, len(d.GetCreateFlags()), name)
		have[name] = len(flags)
		seen := map[string]bool{}
		for _, flag := range flags {
			require.False(t, seen[flag.Name], "%s has --%s twice", name, flag.Name)
			seen[flag.Name] = true
		}
	}
	require.Equal(t, counts, have)
}

func TestMachineVersion_is_that_of_go_mod(t *testing.T) {
	raw, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	var want string
	for line := range strings.Lines(string(raw)) {
		if words := strings.Fields(line); len(words) >= 2 && words[0] == machineModule {
			want = words[1]
		}
	}
	require.NotEmpty(t, want)
	have, err := machineVersion()
	require.NoError(t, err)
	require.Equal(t, want, have)
}

// What is committed is what this program writes now.
func TestRun_writes_what_is_committed(t *testing.T) {
	dir := t.TempDir()
	flags, version := filepath.Join(dir, "builtin.json"), filepath.Join(dir, "version.go")
	for range 2 {
		require.NoError(t, run(flags, version))
		for written, committed := range map[string]string{flags: "../../driver/builtin.json", version: "../../driver/zz_generated.version.go"} {
			want, err := os.ReadFile(committed)
			require.NoError(t, err)
			have, err := os.ReadFile(written)
			require.NoError(t, err)
			require.Equal(t, string(want), string(have), "run make generate")
		}
	}
}

func TestRun_holds_no_secret_of_the_machine_it_runs_on(t *testing.T) {
	// Drivers take defaults of flags from the environment; these must not.
	for _, name := range []string{"AWS_SECRET_ACCESS_KEY", "DIGITALOCEAN_ACCESS_TOKEN", "AZURE_CLIENT_SECRET", "OS_PASSWORD", "VSPHERE_PASSWORD"} {
		t.Setenv(name, "canary-of-this-machine")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "builtin.json")
	require.NoError(t, run(path, filepath.Join(dir, "version.go")))
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "canary-of-this-machine")
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	if home != "/" && home != "/root" {
		require.NotContains(t, string(raw), home)
	}
	var all catalogue
	require.NoError(t, json.Unmarshal(raw, &all))
	names := make([]string, 0, len(all.Drivers))
	for name := range all.Drivers {
		names = append(names, name)
	}
	slices.Sort(names)
	require.Len(t, names, len(builtin.Drivers()))
}

func TestRun_names_what_cannot_be_written(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "none", "x")
	require.EqualError(t, run(missing, filepath.Join(dir, "v")), "writing "+missing+": open "+missing+": no such file or directory")
	require.NoFileExists(t, filepath.Join(dir, "v"))
	require.EqualError(t, run(filepath.Join(dir, "b"), missing), "writing "+missing+": open "+missing+": no such file or directory")
}
