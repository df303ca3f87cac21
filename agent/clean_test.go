package agent

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/api/plan"
	"github.com/drover-project/drover/bootstrap"
)

// host is an agent on a host that was there before, which has applied a plan; DROVER_ROOT is the host's root.
type host struct {
	*world
	root  string
	clean bootstrap.Clean
}

func newHost(t *testing.T) *host {
	t.Helper()
	root := t.TempDir()
	h := &host{root: root, clean: bootstrap.NewClean("uid-1", filepath.Join(root, "drover/userdata"))}
	h.world = &world{t: t, clock: newWorld(t).clock, secret: newSecret(nil), folder: t.TempDir()}
	for name, content := range map[string]string{
		"drover/claim":                                  "uid-1\n",
		"drover/userdata/uid-1/script":                  "DROVER_TOKEN='drover/team/one/SECRET'\n",
		"proc/mounts":                                   "",
		"etc/drover/agent.yaml":                         `{"folder":"/var/lib/agent"}`,
		"etc/systemd/system/drover-agent.service":       "[Unit]\n",
		"var/lib/agent/rancher2_connection_info.json":   `{"namespace":"team","secretName":"one"}`,
		"var/lib/agent/agent.key":                       "key",
		"var/lib/rancher/k3s/server/db":                 "data",
		"programs/systemctl":                            "#!/bin/sh\necho \"$*\" >>\"$DROVER_ROOT/programs/said\"\n",
		"programs/id":                                   "#!/bin/sh\necho 0\n",
		"etc/rancher/k3s/config.yaml.d/50-rancher.yaml": "{}\n",
		"usr/local/bin/k3s-agent-uninstall.sh":          "#!/bin/sh\nrm -rf \"$DROVER_ROOT$K3S_DATA_DIR\" \"$0\"\n",
	} {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o700))
	}
	h.starts()
	h.secret.deliver(t, plan.Plan{Files: []plan.File{plan.NewFile(filepath.Join(root, "etc/hello"), "", nil)}, Instructions: []plan.Instruction{shellStep("install", "true")}})
	h.until(h.state(plan.StateSucceeded))
	return h
}

// starts is the agent's start, as it was and after whatever ended it. Its journal is where the script looks for it.
func (h *host) starts() {
	h.t.Helper()
	h.restart()
	h.o.Folder = filepath.Join(h.root, "var/lib/agent")
	var err error
	h.journal, err = ReadJournal(h.o.Folder)
	require.NoError(h.t, err)
	h.written = h.journal
	h.applier.note = func(j Journal) error {
		h.written = j
		return j.write(h.o.Folder)
	}
	env := append(os.Environ(), "DROVER_ROOT="+h.root, "PATH="+filepath.Join(h.root, "programs")+":"+os.Getenv("PATH"))
	h.o.Runner.Env = func() []string { return env }
}

// toClean delivers the plan that cleans the host.
func (h *host) toClean() {
	h.t.Helper()
	raw, err := bootstrap.CleanPlan(h.clean)
	require.NoError(h.t, err)
	p, err := plan.Decode(raw)
	require.NoError(h.t, err)
	h.secret.deliver(h.t, p, plan.KeyMaxFailures, "-1")
}

func (h *host) isMarked() bool {
	_, err := os.Stat(filepath.Join(h.clean.Run, "reported"))
	return err == nil
}

// unit runs what the unit of systemd does that the script left.
func (h *host) unit() {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), "/bin/sh", filepath.Join(h.clean.Run, "clean"), "leave")
	cmd.Env = h.o.Runner.Env()
	out, err := cmd.CombinedOutput()
	require.NoError(h.t, err, string(out))
	for _, name := range []string{"drover", "etc/drover", "etc/systemd/system/drover-agent.service", "etc/systemd/system/drover-clean.service", "var/lib/agent/agent.key", "var/lib/agent/journal.json"} {
		require.NoFileExists(h.t, filepath.Join(h.root, name))
	}
}

// TestCleans: an agent that is told to clean its host reports that it has before it goes, wherever it is cut off on the way and however often its report is lost.
func TestCleans(t *testing.T) {
	for cut := 1; ; cut++ {
		h := newHost(t)
		met, point := 0, ""
		die := func(at string) error {
			if met++; met != cut {
				return nil
			}
			point = at
			return errors.New("it dies")
		}
		h.secret.before = func() error {
			require.False(t, h.isMarked() && h.secret.value(plan.KeyState) != string(plan.StateSucceeded), "it goes before it has reported")
			return die("write of the Secret")
		}
		h.applier.fault = die
		h.toClean()
		for range 50 {
			if h.isMarked() {
				break
			}
			if h.look(); point != "" && met == cut {
				h.starts()
			}
		}
		require.True(t, h.isMarked(), "cut off before %s", point)
		require.Equal(t, string(plan.StateSucceeded), h.secret.value(plan.KeyState))
		require.Equal(t, plan.Checksum(h.secret.now.Data[plan.KeyPlan]), h.secret.value(plan.KeyAppliedChecksum))
		require.NoFileExists(t, filepath.Join(h.root, "var/lib/rancher/k3s/server/db"))
		require.FileExists(t, filepath.Join(h.root, "var/lib/agent/agent.key"), "the agent is there")
		said, err := os.ReadFile(filepath.Join(h.root, "programs/said"))
		require.NoError(t, err)
		require.NotContains(t, string(said), "drover-agent")
		h.unit()
		if point == "" {
			t.Logf("cut off at %d points", cut-1)
			require.Greater(t, cut, 5)
			return
		}
	}
}

// TestCleans_secretGone: a plan Secret that is not there is no order. Nor does one that goes before the report have the agent go.
func TestCleans_secretGone(t *testing.T) {
	h := newHost(t)
	h.secret.now = nil
	for range 3 {
		h.look()
		h.starts()
	}
	require.FileExists(t, filepath.Join(h.root, "var/lib/rancher/k3s/server/db"))
	require.FileExists(t, filepath.Join(h.root, "etc/hello"))

	h = newHost(t)
	h.toClean()
	h.secret.before = func() error {
		if h.journal.Phase == Succeeded && h.journal.Checksum == plan.Checksum(h.secret.now.Data[plan.KeyPlan]) {
			h.secret.now = nil
			return gone
		}
		return nil
	}
	for range 20 {
		h.look()
	}
	require.Nil(t, h.secret.now)
	require.False(t, h.isMarked())
	require.FileExists(t, filepath.Join(h.root, "var/lib/agent/agent.key"))
	require.FileExists(t, h.clean.Claim)
}

// TestCleans_anothersHost: a host with another machine's claim stays as it is, and nobody is told that it is clean.
func TestCleans_anothersHost(t *testing.T) {
	h := newHost(t)
	require.NoError(t, os.WriteFile(h.clean.Claim, []byte("uid-2\n"), 0o600))
	h.toClean()
	h.until(func() bool { return h.secret.status(t).Message == "exit status 3" })
	require.Contains(t, h.secret.status(t).Output, "the host is another machine's now")
	require.FileExists(t, filepath.Join(h.root, "var/lib/rancher/k3s/server/db"))
	require.NoFileExists(t, filepath.Join(h.root, "etc/systemd/system/drover-clean.service"))
}
