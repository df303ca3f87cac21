package bootstrap_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/bootstrap"
)

func TestCleanScript(t *testing.T) {
	script, err := bootstrap.CleanScript(bootstrap.Clean{UID: "uid-1", Claim: "/var/lib/drover/claim", Run: "/var/lib/drover/userdata/it's"})
	require.NoError(t, err)
	golden(t, "clean.golden", script)

	for says, c := range map[string]bootstrap.Clean{
		"the machine has no UID":            {Claim: "/a/b", Run: "/a/c"},
		`"a/b" is no absolute path`:         {UID: "u", Claim: "a/b", Run: "/a/c"},
		`"/a\nrm -rf /" is no absolute`:     {UID: "u", Claim: "/a/b", Run: "/a\nrm -rf /"},
		"cleaning script: \"\" is no absol": {UID: "u", Claim: "/a/b"},
	} {
		_, err := bootstrap.CleanScript(c)
		require.ErrorContains(t, err, says)
	}
}

const (
	ownAgent = `{"kubeConfig":"a: \"namespace\":\"x\"","namespace":"team-a","secretName":"one"}`
	ownData  = "{\n  \"data-dir\": \"/srv/k3s\"\n}\n"
)

// host is a server that was bootstrapped for machine uid-1, whose agent has made a k3s of it.
func newHost(t *testing.T) *server {
	t.Helper()
	s := newServer(t)
	s.write("claim/claim", "uid-1\nteam-a/one\nc1\n", 0o600)
	script, err := bootstrap.Script(s.install)
	require.NoError(t, err)
	s.write("claim/userdata/uid-1/script", string(script), 0o600)
	s.write("etc/drover/agent.yaml", `{"server":"https://m","folder":"/var/lib/drover-agent"}`+"\n", 0o600)
	s.write("etc/drover/ca.crt", "ca", 0o600)
	s.write("etc/systemd/system/drover-agent.service", "[Unit]\n", 0o600)
	s.write("usr/local/bin/drover-agent", "", 0o755)
	s.write("var/lib/drover-agent/rancher2_connection_info.json", ownAgent, 0o600)
	s.write("var/lib/drover-agent/journal.json", "{}", 0o600)
	s.write("var/lib/drover-agent/agent.key", "key", 0o600)
	s.write("var/lib/drover-agent/images/x/y", "", 0o600)
	s.write("etc/rancher/k3s/config.yaml.d/50-rancher.yaml", "{}\n", 0o600)
	s.write("etc/rancher/agent/registries.yaml", "{}\n", 0o600)
	s.write("etc/rancher/node/password", "secret", 0o600)
	s.write("var/lib/rancher/k3s/server/db/etcd", "", 0o600)
	s.write("usr/local/bin/k3s-uninstall.sh", "#!/bin/sh\necho \"$K3S_DATA_DIR\" >>\"$DROVER_ROOT/uninstalled\"\nrm \"$0\"\n", 0o755)
	return s
}

func (s *server) clean() (string, int) {
	s.Helper()
	script, err := bootstrap.CleanScript(bootstrap.Clean{UID: "uid-1", Claim: filepath.Join(s.root, "claim/claim"), Run: filepath.Join(s.root, "claim/userdata/uid-1")})
	require.NoError(s, err)
	out, err := s.shell(script)
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return out, failed.ExitCode()
	}
	require.NoError(s, err)
	return out, 0
}

// files are all that is on the host, but for what the test brought.
func (s *server) files() []string {
	s.Helper()
	var found []string
	require.NoError(s, filepath.WalkDir(s.root, func(path string, entry os.DirEntry, err error) error {
		name, _ := filepath.Rel(s.root, path)
		switch {
		case err != nil:
			return err
		case name == "programs" || name == "proc":
			return filepath.SkipDir
		case !entry.IsDir() && name != "systemctl" && name != "uninstalled":
			found = append(found, name)
		}
		return nil
	}))
	return found
}

// A real shell cleans the host: nothing is left of the agent and of k3s, and what was there of others is.
func TestCleanScript_cleans(t *testing.T) {
	s := newHost(t)
	s.write("etc/rancher/k3s/config.yaml.d/50-rancher.yaml", ownData, 0o600)
	s.write("srv/k3s/agent/x", "", 0o600)
	s.write("srv/k3s/photos/cat", "", 0o600)
	s.write("var/lib/rancher/capr/x", "", 0o600)
	s.write("etc/hosts", "", 0o600)
	out, code := s.clean()
	require.Zero(t, code, out)
	require.Contains(t, out, "drover: the host is clean\n")
	require.Equal(t, []string{"etc/hosts", "srv/k3s/photos/cat", "var/lib/rancher/k3s/server/db/etcd"}, s.files())
	require.Equal(t, "/srv/k3s\n", s.read("uninstalled"))
	require.Equal(t, "disable --quiet --now drover-agent\ndaemon-reload\n", s.read("systemctl"), "first the agent, so that it starts nothing again")
	require.NoDirExists(t, filepath.Join(s.root, "claim"))

	out, code = s.clean()
	require.Zero(t, code, out)
	require.Contains(t, out, "the host has no claim")
}

// What went before is not done again, and the claim goes last: whatever breaks a cleaning off, the next one ends it.
func TestCleanScript_again(t *testing.T) {
	for what, broken := range map[string]string{
		"the agent does not stop":  "systemctl",
		"its unit cannot be gone":  "rm",
		"its folder cannot be":     "rmdir",
		"its files are read amiss": "tr",
	} {
		t.Run(what, func(t *testing.T) {
			s := newHost(t)
			s.program(broken, "exit 1")
			out, code := s.clean()
			if broken != "rmdir" { // what is in a folder that stays is told, and no failure
				require.NotZero(t, code, out)
				require.FileExists(t, filepath.Join(s.root, "claim/claim"))
			}
			require.NoError(t, os.Remove(filepath.Join(s.root, "programs", broken)))
			s.program("systemctl", ":")
			out, code = s.clean()
			require.Zero(t, code, out)
			require.Empty(t, s.files())
		})
	}
}

// What may be another machine's stays as it is, with the claim.
func TestCleanScript_leavesAlone(t *testing.T) {
	for what, tt := range map[string]struct {
		change func(*server)
		code   int
		says   string
	}{
		"another machine's claim": {func(s *server) { s.write("claim/claim", "uid-2\n", 0o600) }, 0, "the host is another machine's now"},
		"another machine's agent": {func(s *server) {
			s.write("var/lib/drover-agent/rancher2_connection_info.json", strings.ReplaceAll(ownAgent, `"one"`, `"two"`), 0o600)
		}, 3, "the agent on this host follows the plan Secret team-a/two, and team-a/one was this machine's"},
		"another machine's agent that has not registered": {func(s *server) {
			require.NoError(s, os.Remove(filepath.Join(s.root, "var/lib/drover-agent/rancher2_connection_info.json")))
			s.write("etc/drover/token", "drover/team-b/one/SECRETSECRET\n", 0o600)
		}, 3, "the plan Secret team-b/one"},
		"an agent that this machine did not bring": {func(s *server) { s.write("claim/userdata/uid-1/script", "#!/bin/sh\n", 0o600) }, 3, "none was this machine's"},
		"an agent of a folder that cannot be":      {func(s *server) { s.write("etc/drover/agent.yaml", `{"folder":"/"}`, 0o600) }, 3, "does not say where the agent's folder is"},
		"a data directory that cannot be": {func(s *server) {
			s.write("etc/rancher/k3s/config.yaml.d/50-rancher.yaml", strings.ReplaceAll(ownData, "/srv/k3s", "/srv/../etc"), 0o600)
		}, 3, "the data directory /srv/../etc of k3s is none"},
		"a mount that is left": {func(s *server) {
			s.write("proc/mounts", "nas:/x "+s.root+"/var/lib/rancher/k3s/agent/pods/1 nfs rw 0 0\n", 0o600)
		}, 1, "something is still mounted below"},
		"an uninstaller that fails": {func(s *server) { s.write("usr/local/bin/k3s-uninstall.sh", "#!/bin/sh\nexit 7\n", 0o755) }, 1, "k3s-uninstall.sh ended with exit code 7"},
		"no root":                   {func(s *server) { s.program("id", "echo 1000") }, 124, ""},
	} {
		t.Run(what, func(t *testing.T) {
			s := newHost(t)
			tt.change(s)
			out, code := s.clean()
			require.Equal(t, tt.code, code, out)
			require.Contains(t, out, tt.says)
			require.NotContains(t, out, "SECRET")
			for _, name := range []string{"claim/claim", "var/lib/drover-agent/journal.json", "var/lib/rancher/k3s/server/db/etcd"} {
				require.FileExists(t, filepath.Join(s.root, name))
			}
		})
	}
}

// A host on which the agent had no plan keeps the k3s that it may have had before.
func TestCleanScript_withoutAPlan(t *testing.T) {
	s := newHost(t)
	require.NoError(t, os.Remove(filepath.Join(s.root, "var/lib/drover-agent/journal.json")))
	out, code := s.clean()
	require.Zero(t, code, out)
	require.NoFileExists(t, filepath.Join(s.root, "uninstalled"))
	require.FileExists(t, filepath.Join(s.root, "var/lib/rancher/k3s/server/db/etcd"))
	require.NoFileExists(t, filepath.Join(s.root, "usr/local/bin/drover-agent"))
}
