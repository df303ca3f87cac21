package bootstrap_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/api/plan"
	"github.com/drover-project/drover/bootstrap"
	"github.com/drover-project/drover/testkit/golden"
)

func TestCleanScript(t *testing.T) {
	script, err := bootstrap.CleanScript(bootstrap.Clean{UID: "uid-1", Claim: "/var/lib/drover/claim", Run: "/var/lib/drover/userdata/it's"})
	require.NoError(t, err)
	golden.Require(t, "testdata/clean.golden", string(script))

	for says, c := range map[string]bootstrap.Clean{
		"the machine has no UID":                {Claim: "/a/b", Run: "/a/c"},
		`"a/b" is not an absolute path`:         {UID: "u", Claim: "a/b", Run: "/a/c"},
		`"/a\nrm -rf /" is not an absolute`:     {UID: "u", Claim: "/a/b", Run: "/a\nrm -rf /"},
		"cleaning script: \"\" is not an absol": {UID: "u", Claim: "/a/b"},
	} {
		_, err := bootstrap.CleanScript(c)
		require.ErrorContains(t, err, says)
	}
}

func TestCleanPlan(t *testing.T) {
	clean := bootstrap.NewClean("uid-1", bootstrap.MarkerRoot)
	require.Equal(t, bootstrap.Clean{UID: "uid-1", Claim: "/var/lib/drover/claim", Run: "/var/lib/drover/userdata/uid-1"}, clean)
	raw, err := bootstrap.CleanPlan(clean)
	require.NoError(t, err)
	p, err := plan.Decode(raw)
	require.NoError(t, err)
	require.Empty(t, p.Files)
	require.Empty(t, p.Probes)
	script, err := bootstrap.CleanScript(clean)
	require.NoError(t, err)
	require.Equal(t, string(script), p.Instructions[0].Script, "it is the script of SSH")
	require.Equal(t, []string{"/var/lib/drover/userdata/uid-1/reported"}, p.PeriodicInstructions[0].Args)
	for _, uid := range []string{"", "../../etc", "a b", "%n", "a\nb"} {
		_, err := bootstrap.CleanPlan(bootstrap.NewClean(uid, bootstrap.MarkerRoot))
		require.Error(t, err, uid)
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

// cleaning is of machine uid-1.
func (s *server) cleaning() bootstrap.Clean {
	return bootstrap.NewClean("uid-1", filepath.Join(s.root, "claim/userdata"))
}

// mount lists mounts in the host's table.
func (s *server) mount(folders ...string) {
	s.Helper()
	table := ""
	for _, folder := range folders {
		require.NoError(s, os.MkdirAll(filepath.Join(s.root, folder), 0o755))
		table += "disk " + s.root + folder + " ext4 rw 0 0\n"
	}
	s.write("proc/mounts", table, 0o600)
}

// clean runs the script as the Job does.
func (s *server) clean() (string, int) {
	s.Helper()
	script, err := bootstrap.CleanScript(s.cleaning())
	require.NoError(s, err)
	return s.sh(bytes.NewReader(script), "-s")
}

// byPlan runs the script as the agent does.
func (s *server) byPlan() (string, int) {
	s.Helper()
	script, err := bootstrap.CleanScript(s.cleaning())
	require.NoError(s, err)
	s.write("programs/clean.sh", string(script), 0o700)
	return s.sh(nil, filepath.Join(s.root, "programs/clean.sh"), "by-plan")
}

// leave runs what the unit starts.
func (s *server) leave() (string, int) {
	s.Helper()
	return s.sh(nil, filepath.Join(s.cleaning().Run, "clean"), "leave")
}

func (s *server) sh(stdin io.Reader, args ...string) (string, int) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), "/bin/sh", args...)
	cmd.Stdin, cmd.SysProcAttr = stdin, &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = []string{"DROVER_ROOT=" + s.root, "PATH=" + filepath.Join(s.root, "programs") + ":" + s.path}
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		require.NoError(s, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
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
		case !entry.IsDir() && name != "systemctl" && name != "uninstalled" && name != "slept":
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
	s.mount("/srv/k3s", "/srv/k3s2/disk", "/etc/rancher/mine", "/run/k3s/containerd/shm", "/var/lib/kubelet/pods/1/volumes/x", "/var/lib/kubelet/plugins/x")
	s.write("proc/mounts", s.read("proc/mounts")+"tmpfs "+s.root+"/srv/k3s/agent/kubelet/pods/1/volumes/x tmpfs rw 0 0\n", 0o600)
	s.write("usr/local/bin/k3s-killall.sh", "#!/bin/sh\n[ \"$K3S_DATA_DIR\" = /srv/k3s ] && sed -i '\\|/kubelet/pods/|d' \"$DROVER_ROOT/proc/mounts\"\nrm \"$0\"\nexit 1\n", 0o755)
	s.program("umount", `sed -i "\|$2|d" "$DROVER_ROOT/proc/mounts"`) // what the script above does not, as RKE2's
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
	out, code = s.byPlan()
	require.Equal(t, 3, code, "the agent that was told to is there: %s", out)
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

// nothing is the code of a host that is not this machine's: over SSH there is nothing to do, and by plan somebody's agent was told to clean it, and stays.
const nothing = -1

// What may be another machine's stays as it is, with the claim.
func TestCleanScript_leavesAlone(t *testing.T) {
	for what, tt := range map[string]struct {
		change func(*server)
		code   int
		says   string
	}{
		"another machine's claim": {func(s *server) { s.write("claim/claim", "uid-2\n", 0o600) }, nothing, "the host is another machine's now"},
		"a claim that never ends": {func(s *server) {
			require.NoError(s, os.Remove(filepath.Join(s.root, "claim/claim")))
			require.NoError(s, os.Symlink("/dev/zero", filepath.Join(s.root, "claim/claim")))
		}, nothing, "the host has no claim"},
		"an agent's configuration that never ends": {func(s *server) {
			require.NoError(s, os.Remove(filepath.Join(s.root, "etc/drover/agent.yaml")))
			require.NoError(s, os.Symlink("/dev/zero", filepath.Join(s.root, "etc/drover/agent.yaml")))
		}, 3, "does not say where the agent's folder is"},
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
		"a data directory with a space": {func(s *server) {
			s.write("etc/rancher/k3s/config.yaml.d/50-rancher.yaml", strings.ReplaceAll(ownData, "/srv/k3s", "/srv /k3s"), 0o600)
		}, 3, "the data directory /srv /k3s of k3s is none"},
		"a mount below the data directory": {func(s *server) { s.mount("/var/lib/rancher/k3s/storage/pv") }, 1,
			"/var/lib/rancher/k3s/storage/pv is mounted below "},
		"a mount below a data directory that is a link": {func(s *server) {
			require.NoError(s, os.Rename(filepath.Join(s.root, "var/lib/rancher"), filepath.Join(s.root, "mnt")))
			require.NoError(s, os.Symlink(filepath.Join(s.root, "mnt"), filepath.Join(s.root, "var/lib/rancher")))
			s.mount("/mnt/k3s/storage/pv")
		}, 1, "/mnt/k3s/storage/pv is mounted below "},
		"a mount below one that is a link to a name with a space": {func(s *server) {
			require.NoError(s, os.Rename(filepath.Join(s.root, "var/lib/rancher"), filepath.Join(s.root, "a disk")))
			require.NoError(s, os.Symlink(filepath.Join(s.root, "a disk"), filepath.Join(s.root, "var/lib/rancher")))
			s.write("proc/mounts", "disk "+s.root+`/a\040disk/k3s/storage/pv ext4 rw 0 0`+"\n", 0o600)
		}, 1, "disk/k3s/storage/pv is mounted below "},
		"a mount in place of containerd's folder": {func(s *server) { s.mount("/var/lib/rancher/k3s/agent/containerd") }, 1, "/containerd is mounted below "},
		"a mount that is not the kubelet's":       {func(s *server) { s.mount("/var/lib/kubelet/mine") }, 1, "/var/lib/kubelet/mine is mounted below "},
		"a mount among what uninstallers remove":  {func(s *server) { s.mount("/var/log/pods/mine") }, 1, "/var/log/pods/mine is mounted below "},
		"a mount below the agent's folder":        {func(s *server) { s.mount("/var/lib/drover-agent/images/x") }, 1, "/images/x is mounted below "},
		"a volume that is in use after all pods are killed": {func(s *server) {
			s.mount("/var/lib/kubelet/pods/1/volumes/x")
			s.program("umount", "exit 32")
			s.write("usr/local/bin/k3s-killall.sh", "#!/bin/sh\n", 0o755)
		}, 1, "/var/lib/kubelet/pods/1/volumes/x is mounted below "},
		"an uninstaller that fails": {func(s *server) { s.write("usr/local/bin/k3s-uninstall.sh", "#!/bin/sh\nexit 7\n", 0o755) }, 1, "k3s-uninstall.sh ended with exit code 7"},
		"no root":                   {func(s *server) { s.program("id", "echo 1000") }, 124, ""},
	} {
		for way, clean := range map[string]func(*server) (string, int){"over SSH": (*server).clean, "by plan": (*server).byPlan} {
			t.Run(what+" "+way, func(t *testing.T) {
				s := newHost(t)
				tt.change(s)
				out, code := clean(s)
				want := tt.code
				if want == nothing {
					want = map[string]int{"over SSH": 0, "by plan": 3}[way]
				}
				require.Equal(t, want, code, out)
				require.Contains(t, out, tt.says)
				require.NotContains(t, out, "SECRET")
				for _, name := range []string{"claim/claim", "var/lib/drover-agent/journal.json", "var/lib/rancher/k3s/server/db/etcd"} {
					require.FileExists(t, filepath.Join(s.root, name))
				}
				require.NoFileExists(t, filepath.Join(s.root, "etc/systemd/system/drover-clean.service"))
				require.NoFileExists(t, filepath.Join(s.root, "uninstalled"))
			})
		}
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

// A host where this machine's install script never arrived has nothing that Drover installed for
// the machine: only the claim goes.
func TestCleanScript_withoutAnInstallScript(t *testing.T) {
	for what, change := range map[string]func(*server){
		"no script":        func(s *server) { require.NoError(s, os.RemoveAll(s.cleaning().Run)) },
		"another provider": func(s *server) { s.write("claim/userdata/uid-1/script", "#!/bin/sh\nkubeadm join\n", 0o600) },
	} {
		t.Run(what, func(t *testing.T) {
			s := newHost(t)
			require.NoError(t, os.Remove(filepath.Join(s.root, "var/lib/drover-agent/rancher2_connection_info.json")))
			change(s)
			out, code := s.clean()
			require.Zero(t, code, out)
			require.NoFileExists(t, filepath.Join(s.root, "uninstalled"))
			for _, name := range []string{"etc/drover/agent.yaml", "etc/rancher/node/password", "var/lib/rancher/k3s/server/db/etcd", "usr/local/bin/drover-agent",
				"usr/local/bin/k3s-uninstall.sh", "etc/systemd/system/drover-agent.service"} {
				require.FileExists(t, filepath.Join(s.root, name))
			}
			require.NoDirExists(t, filepath.Join(s.root, "claim"))
		})
	}
}

// A journal that the agent could not read and put aside tells of a plan, too.
func TestCleanScript_unreadableJournal(t *testing.T) {
	s := newHost(t)
	journal := filepath.Join(s.root, "var/lib/drover-agent/journal.json")
	require.NoError(t, os.Rename(journal, journal+".unreadable"))
	out, code := s.clean()
	require.Zero(t, code, out)
	require.Equal(t, "/var/lib/rancher/k3s\n", s.read("uninstalled"))
	require.Empty(t, s.files())
}

// The bootstrap script may still wait for its manager when the machine is deleted: it is ended, with what it has started, before another machine has the host.
func TestCleanScript_whileTheScriptRuns(t *testing.T) {
	for what, tt := range map[string]struct{ others, noGroup bool }{"its own": {}, "another process of that number": {others: true}, "one without a group of its own": {noGroup: true}} {
		t.Run(what, func(t *testing.T) {
			s := newServer(t)
			s.write("claim/claim", "uid-1\n", 0o600)
			s.write("etc/drover/ca.crt", "ca", 0o600)
			s.write("usr/local/bin/drover-agent.new", "", 0o600)
			install, err := bootstrap.Script(s.install)
			require.NoError(t, err)
			s.write("claim/userdata/uid-1/script", string(install), 0o600)
			run := filepath.Join(s.cleaning().Run, "run")
			s.write("claim/userdata/uid-1/run", "sh -c 'echo; read x'\n:\n", 0o600)
			if tt.others {
				run = filepath.Join(s.root, "programs/other")
				s.write("programs/other", "echo\nread x\n", 0o600)
			}
			script := exec.CommandContext(t.Context(), "/bin/sh", run)
			script.SysProcAttr = &syscall.SysProcAttr{Setsid: !tt.noGroup}
			ends, err := script.StdinPipe()
			require.NoError(t, err)
			says, err := script.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, script.Start())
			_, err = says.Read(make([]byte, 1)) // what it runs is there
			require.NoError(t, err)
			s.write("claim/userdata/uid-1/pid", strconv.Itoa(script.Process.Pid)+"\n", 0o600)
			out, code := s.clean()
			require.Zero(t, code, out)
			require.Empty(t, s.files())
			if tt.others {
				require.NoError(t, ends.Close())
			}
			_, err = io.ReadAll(says) // until nobody runs who could say more
			require.NoError(t, err)
			_ = script.Wait()
			require.Equal(t, !tt.others, script.ProcessState.Sys().(syscall.WaitStatus).Signaled())
		})
	}
}

// A script that goes on after a restart of the host, by a unit of systemd, is ended like one that runs since; but not another machine's.
func TestCleanScript_beforeTheAgent(t *testing.T) {
	script := func(s *server) string {
		text, err := bootstrap.Script(s.install)
		require.NoError(s, err)
		return string(text)
	}
	for what, own := range map[string]bool{"this machine's": true, "another machine's": false} {
		t.Run(what, func(t *testing.T) {
			s := newServer(t)
			s.write("claim/claim", "uid-1\n", 0o600)
			s.write("claim/userdata/uid-1/script", script(s), 0o600)
			if !own {
				s.install.Token = "drover/team-b/two/SECRETSECRET"
			}
			s.write("etc/drover/install", script(s), 0o600)
			s.write("etc/systemd/system/drover-install.service", "[Unit]\n", 0o600)
			out, code := s.clean()
			if !own {
				require.Equal(t, 3, code, out)
				require.Contains(t, out, "follows the plan Secret team-b/two")
				require.NoFileExists(t, filepath.Join(s.root, "systemctl"))
				return
			}
			require.Zero(t, code, out)
			require.Empty(t, s.files())
			require.Equal(t, "disable --quiet --now drover-install\n", s.read("systemctl"))
		})
	}
}

// agentsFiles are what the agent needs to report, and the unit to do the rest.
var agentsFiles = []string{"claim/claim", "claim/userdata/uid-1/clean", "claim/userdata/uid-1/script", "etc/drover/agent.yaml", "etc/drover/ca.crt",
	"etc/systemd/system/drover-agent.service", "etc/systemd/system/drover-clean.service", "usr/local/bin/drover-agent", "var/lib/drover-agent/agent.key",
	"var/lib/drover-agent/images/x/y", "var/lib/drover-agent/journal.json", "var/lib/drover-agent/rancher2_connection_info.json"}

const mark = "claim/userdata/uid-1/reported"

// By plan all goes but the agent, which stays as it is until its report is marked.
func TestCleanScript_byPlan(t *testing.T) {
	s := newHost(t)
	for range 2 { // an instruction whose end was not written down runs again
		out, code := s.byPlan()
		require.Zero(t, code, out)
		require.Contains(t, out, "the host is clean but for its agent")
		require.Equal(t, agentsFiles, s.files())
	}
	require.NotContains(t, s.read("systemctl"), "drover-agent", "it reports")
	require.Contains(t, s.read("systemctl"), "enable --quiet drover-clean\nstart --no-block drover-clean\n")
	require.Contains(t, s.read("etc/systemd/system/drover-clean.service"), "\nExecStart=/bin/sh "+s.cleaning().Run+"/clean leave\n")

	s.program("sleep", `[ ! -e "$DROVER_ROOT/slept" ] || touch "$DROVER_ROOT/`+mark+`"
echo "$1" >>"$DROVER_ROOT/slept"`)
	s.write("systemctl", "", 0o600)
	out, code := s.leave()
	require.Zero(t, code, out)
	require.Equal(t, "2\n2\n", s.read("slept"), "it waits for the report")
	require.Contains(t, out, "drover: the host is clean\n")
	require.Empty(t, s.files())
	require.NoDirExists(t, filepath.Join(s.root, "claim"))
	require.Equal(t, "disable --quiet --now drover-agent\ndaemon-reload\ndisable --quiet drover-clean\ndaemon-reload\n", s.read("systemctl"))
}

// Whatever the unit dies of, it starts again, at boot too, and ends what it began. At the worst its file is left, which does nothing any more.
func TestCleanScript_leavesAgain(t *testing.T) {
	for _, broken := range []string{"systemctl", "tr", "rm", "flock"} {
		for at := 1; ; at++ {
			s := newHost(t)
			out, code := s.byPlan()
			require.Zero(t, code, out)
			s.write(mark, "", 0o600)
			real, err := exec.LookPath(broken)
			if broken == "systemctl" {
				real, err = exec.LookPath("true")
			}
			require.NoError(t, err)
			// The one that is met for the at-th time kills all shells, as a power cut does.
			s.program(broken, `echo x >>"$DROVER_ROOT/uninstalled"
[ "$(grep -c x "$DROVER_ROOT/uninstalled")" != `+strconv.Itoa(at)+` ] || kill -9 0
exec `+real+` "$@"`)
			require.NoError(t, os.RemoveAll(filepath.Join(s.root, "uninstalled")))
			_, code = s.leave()
			require.NoError(t, os.Remove(filepath.Join(s.root, "programs", broken)))
			s.program("systemctl", ":")
			if code == 0 {
				require.Greater(t, at, 1, broken)
				break
			}
			if _, err := os.Stat(filepath.Join(s.cleaning().Run, "clean")); err == nil { // the unit's condition
				require.FileExists(t, filepath.Join(s.root, "etc/systemd/system/drover-clean.service"))
				out, code = s.leave()
				require.Zero(t, code, "%s %d: %s", broken, at, out)
			}
			require.Subset(t, []string{"etc/systemd/system/drover-clean.service"}, s.files(), "%s %d", broken, at)
		}
	}
}

// Somebody cleans the host over SSH while the unit waits: then the unit has nothing to do but to go.
func TestCleanScript_bothWays(t *testing.T) {
	s := newHost(t)
	_, code := s.byPlan()
	require.Zero(t, code)
	script := s.read("claim/userdata/uid-1/clean")
	out, code := s.clean()
	require.Zero(t, code, out)
	require.Equal(t, []string{"etc/systemd/system/drover-clean.service"}, s.files())
	s.write("claim/claim", "uid-2\n", 0o600)
	s.write("etc/drover/agent.yaml", `{"folder":"/var/lib/drover-agent"}`, 0o600)
	s.write("etc/systemd/system/drover-agent.service", "another machine's", 0o600)
	s.write("systemctl", "", 0o600)
	out, code = s.sh(strings.NewReader(script), "-s", "leave")
	require.Zero(t, code, out)
	require.Equal(t, []string{"claim/claim", "etc/drover/agent.yaml", "etc/systemd/system/drover-agent.service"}, s.files())
	require.NotContains(t, s.read("systemctl"), "drover-agent")
}
