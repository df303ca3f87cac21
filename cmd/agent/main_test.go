package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// folder has a configuration of Rancher's form, and what its agent left.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "config.yaml"), 0o600, "workDirectory: "+dir+"/work\nremoteEnabled: true\nconnectionInfoFile: "+dir+"/info.json\nappliedPlanDirectory: /x\nfolder: "+dir+"\n")
	write(t, filepath.Join(dir, "info.json"), 0o600, `{"kubeConfig":"token: secret","namespace":"fleet-default","secretName":"m-machine-plan","expiresAt":"2026-11-23T13:00:00Z","receivedAt":"2026-11-23T12:00:00Z"}`)
	return dir
}

func write(t *testing.T, path string, mode os.FileMode, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), mode))
	require.NoError(t, os.Chmod(path, mode))
}

func drover(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := command(func(string) (string, bool) { return filepath.Join(dir, "config.yaml"), true }, nil)
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestStatus(t *testing.T) {
	dir := folder(t)
	out, err := drover(t, dir, "status")
	require.NoError(t, err)
	require.Contains(t, out, "none yet")
	write(t, filepath.Join(dir, "journal.json"), 0o600, `{"checksum":"0123456789abcdef","revision":3,"phase":"failed","attempt":2,"failures":2,"instructionsDone":1,
		"output":{"a":"c2VjcmV0"},"step":"instruction install","message":"exit status 1\u001b[2J","tail":"secret","ended":"2026-11-23T12:30:00Z"}`)
	out, err = drover(t, dir, "status")
	require.NoError(t, err)
	require.Equal(t, strings.Join([]string{
		"Version:            dev",
		"Plan Secret:        fleet-default/m-machine-plan",
		"Access from:        2026-11-23T12:00:00Z",
		"Plan:               0123456789ab, revision 3",
		"Phase:              failed",
		"Attempt:            2, 2 failed",
		"Instructions done:  1",
		"Ended:              2026-11-23T12:30:00Z",
		`Failed at:          "instruction install"`,
		`Why:                "exit status 1\x1b[2J"`, "",
	}, "\n"), out)
	out, err = drover(t, dir, "status", "-o", "json")
	require.NoError(t, err)
	require.Contains(t, out, `"accessExpires": "2026-11-23T13:00:00Z"`)
	require.NotContains(t, out, "secret", "neither a token nor what an instruction said")
	_, err = drover(t, dir, "status", "-o", "xml")
	require.ErrorContains(t, err, "text or json")
}

func TestConfig(t *testing.T) {
	changed := func(line string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "config.yaml"), 0o600, "connectionInfoFile: "+dir+"/info.json\n"+line+"\n")
		}
	}
	for name, tt := range map[string]struct {
		change func(t *testing.T, dir string)
		says   string
	}{
		"as it is":               {func(*testing.T, string) {}, ""},
		"others can read it":     {func(t *testing.T, dir string) { require.NoError(t, os.Chmod(filepath.Join(dir, "config.yaml"), 0o640)) }, "change the mode to 0600"},
		"or the connection file": {func(t *testing.T, dir string) { require.NoError(t, os.Chmod(filepath.Join(dir, "info.json"), 0o604)) }, "change the mode to 0600"},
		"it belongs to another":  {func(t *testing.T, dir string) { require.NoError(t, os.Chown(filepath.Join(dir, "config.yaml"), 1, 1)) }, "another user"},
		"it is not there":        {func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, "config.yaml"))) }, "no such file"},
		"no YAML":                {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "config.yaml"), 0o600, "a: [") }, "parsing"},
		"local plans": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "config.yaml"), 0o600, "localEnabled: true")
		},
			"plans come from the manager only"},
		"a server without TLS":  {changed("server: http://x"), "https://host"},
		"a server that is none": {changed("server: not a url"), "https://host"},
		"no certificates":       {changed("caFile: /nope"), "no such file"},
		"none in PEM":           {changed("caFile: /etc/hostname"), "no certificate in PEM"},
		"a folder from here":    {changed("folder: relative"), "not absolute"},
		"nowhere to go":         {func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, "info.json"))) }, "no such file"},
		"no connection file":    {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "info.json"), 0o600, "{}") }, "names no kubeConfig"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "it belongs to another" && os.Geteuid() != 0 {
				t.Skip("only root gives files away")
			}
			dir := folder(t)
			tt.change(t, dir)
			out, err := drover(t, dir, "validate-config")
			if tt.says == "" {
				require.NoError(t, err)
				require.Equal(t, filepath.Join(dir, "config.yaml")+" can be used.\n", out)
			} else {
				require.ErrorContains(t, err, tt.says)
			}
		})
	}
}

// FuzzConfig: refused, or with a place for everything.
func FuzzConfig(f *testing.F) {
	f.Add([]byte("workDirectory: /w\nserver: https://drover.example\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		c, err := parseConfig(content)
		if err != nil {
			return
		}
		for _, place := range []string{c.Folder, c.WorkDirectory, c.ImagesDirectory, c.ConnectionInfoFile, c.KeyFile, c.TokenFile, c.AgentRegistriesFile} {
			require.NotEmpty(t, place)
		}
	})
}
