package operation_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner/operation"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/sshkeys/sshtest"
	"github.com/drover-project/drover/state"
)

// existing is a machine of the generic driver, whose server is an SSH server of this process. Commands that would change this
// computer are replaced by others.
func existing(t *testing.T, script string, env ...string) (*job, *sshtest.Server, string) {
	t.Helper()
	pair, err := sshkeys.Generate("existing")
	require.NoError(t, err)
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	require.NoError(t, os.MkdirAll(home, 0o700))
	for _, name := range []string{"hostnamectl", "hostname"} {
		fake := "#!/bin/sh\necho \"$0 $*\" >>" + dir + "/called\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(fake), 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "uname"), []byte("#!/bin/sh\n[ \"$1\" = -n ] && echo own-name.example.com\n"), 0o700))
	env = append(env, "PATH="+dir+":"+os.Getenv("PATH"), "STORY="+dir, "DROVER_ROOT="+dir)
	server := sshtest.Start(t, sshtest.Options{AuthorizedKey: pair.Public, Dir: home, Env: env})
	j := newJob(t, "generic")
	j.request.Options = map[string]any{"generic-ip-address": server.Host, "generic-ssh-port": float64(server.Port), "generic-ssh-user": "root"}
	j.request.Files = map[string][]byte{"generic-ssh-key": pair.Private}
	j.request.HasBootstrap, j.data = true, []byte(script)
	j.request.SSHTimeoutSeconds = 5
	j.markerRoot = filepath.Join(dir, "markers")
	j.hostsFile = filepath.Join(dir, "hosts")
	require.NoError(t, os.WriteFile(j.hostsFile, []byte("127.0.0.1 localhost\n"), 0o600))
	return j, server, dir
}

// ofSameHost is another machine that names the host of the first.
func ofSameHost(t *testing.T, first *job, script string) *job {
	t.Helper()
	j := newJob(t, first.request.Driver.Name)
	j.request.Machine.Name, j.request.Options, j.request.Files, j.request.UserData = "second", first.request.Options, first.request.Files, first.request.UserData
	j.request.HasBootstrap, j.data = true, []byte(script)
	j.request.SSHTimeoutSeconds, j.markerRoot, j.hostsFile = first.request.SSHTimeoutSeconds, first.markerRoot, first.hostsFile
	return j
}

// installsAgent is a script that leaves on the host what our agent does: it follows this plan Secret of namespace team.
func installsAgent(secret string) string {
	return "#!/bin/sh\nDROVER_TOKEN='drover/team/plan/MARKER-token'\n" +
		"mkdir -p $STORY/etc/drover $STORY/var/lib/agent $STORY/proc\n: >$STORY/proc/mounts\necho '{\"folder\":\"/var/lib/agent\"}' >$STORY/etc/drover/agent.yaml\n" +
		"echo '{\"namespace\":\"team\",\"secretName\":\"" + secret + "\"}' >$STORY/var/lib/agent/rancher2_connection_info.json\n"
}

func TestBootstrapOverSSH(t *testing.T) {
	t.Parallel()
	j, server, dir := existing(t, "#!/bin/sh -e\n# MARKER-join-token\necho hello from the script\necho x >>$STORY/ran\necho $(id -u) $PWD >>$STORY/ran\n")
	j.mustCreate()
	ran, err := os.ReadFile(filepath.Join(dir, "ran"))
	require.NoError(t, err)
	require.Equal(t, "x\n0 /\n", string(ran))
	require.Contains(t, j.output.String(), "hello from the script")
	require.Equal(t, string(sshkeys.KnownHostsLine(server.Host, server.Port, server.HostKey)), string(j.state()[state.SSHKnownHostsKey]))
	for _, line := range server.Commands() {
		require.NotContains(t, line, "MARKER", "no secret in a command line")
	}
	j.requireNoSecrets("MARKER-join-token")
	info, err := os.Stat(filepath.Join(j.markerRoot, j.request.Machine.UID, "script"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	// The host keeps its own name.
	require.NoFileExists(t, filepath.Join(dir, "called"))
	hosts := "127.0.0.1 localhost\n"
	requireFile(t, hosts, j.hostsFile)
	requireHostname(t, j, "own-name.example.com")

	// A second attempt, even one that has lost all state, does not run it again.
	j.emptyState()
	j.mustCreate()
	again, err := os.ReadFile(filepath.Join(dir, "ran"))
	require.NoError(t, err)
	require.Equal(t, string(ran), string(again))
	leftovers, err := filepath.Glob(filepath.Join(dir, "home", ".drover*"))
	require.NoError(t, err)
	require.Empty(t, leftovers)
	requireFile(t, hosts, j.hostsFile)
	requireHostname(t, j, "own-name.example.com")

	j.mustRemove()
}

// A server that a driver created, as far as Drover knows, gets its machine's name.
func TestBootstrapOverSSH_namesACreatedServer(t *testing.T) {
	t.Parallel()
	j, _, dir := existing(t, "#!/bin/sh\n")
	j.request.Driver.Name, j.request.UserData = "pool", clouds.UserData{Habit: clouds.None}
	j.mustCreate()
	called, err := os.ReadFile(filepath.Join(dir, "called"))
	require.NoError(t, err)
	require.Contains(t, string(called), "set-hostname "+j.request.InstanceName)
	requireFile(t, "127.0.0.1 localhost\n127.0.1.1 "+j.request.InstanceName+" # of Drover\n", j.hostsFile)
	requireHostname(t, j, j.request.InstanceName)
}

func requireHostname(t *testing.T, j *job, want string) {
	t.Helper()
	server, err := state.ReadServer(j.state())
	require.NoError(t, err)
	var names []string
	for _, address := range server.Addresses {
		if address.Type == "Hostname" {
			names = append(names, address.Address)
		}
	}
	require.Equal(t, []string{want}, names)
}

// A host that takes no connection is not one that is stopped: it is told where nobody answered, and soon.
func TestBootstrapOverSSH_hostDoesNotAnswer(t *testing.T) {
	t.Parallel()
	j, server, _ := existing(t, "#!/bin/sh\n")
	free, err := net.Listen("tcp", server.Host+":0")
	require.NoError(t, err)
	port := free.Addr().(*net.TCPAddr).Port
	require.NoError(t, free.Close())
	j.request.Options["generic-ssh-port"] = float64(port)
	j.request.SSHTimeoutSeconds = 1
	_, result := j.run(t.Context(), state.Create)
	require.Equal(t, "SSHUnreachable", result.Reason, result.Message)
	require.Equal(t, rkev1.ClassTransient, result.Class)
	require.Contains(t, result.Message, fmt.Sprintf("the host does not respond at %s port %d", server.Host, port))
	require.NotContains(t, result.Message+j.output.String(), "Stopped")
}

// A host that is named by a DNS name has the IP addresses that the name resolves to and the one at
// which it received the connection. Without any, it is not touched.
func TestBootstrapOverSSH_hostByName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		resolved   []string
		connection string
		want       []string
	}{
		"resolved":            {[]string{"203.0.113.7", "203.0.113.8", "2001:db8::7"}, "198.18.0.1 5000 203.0.113.7 22", []string{"ExternalIP 203.0.113.7", "ExternalIP 2001:db8::7", "InternalIP 203.0.113.7", "Hostname own-name.example.com"}},
		"behind NAT":          {[]string{"203.0.113.7"}, "198.18.0.1 5000 192.168.1.7 22", []string{"InternalIP 192.168.1.7", "ExternalIP 203.0.113.7", "Hostname own-name.example.com"}},
		"by a jump host only": {nil, "198.18.0.1 5000 ::ffff:10.0.0.7 22", []string{"InternalIP 10.0.0.7", "Hostname own-name.example.com"}},
		"sshd does not tell":  {[]string{"10.0.0.7"}, "", []string{"InternalIP 10.0.0.7", "Hostname own-name.example.com"}},
		"no usable address":   {[]string{"127.0.0.1"}, "127.0.0.1 5000 127.0.0.1 22", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, _, dir := existing(t, "#!/bin/sh\n", "SSH_CONNECTION="+c.connection)
			j.request.Options["generic-ip-address"] = "localhost"
			j.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
				require.Equal(t, "localhost", host)
				var found []netip.Addr
				for _, text := range c.resolved {
					found = append(found, netip.MustParseAddr(text))
				}
				if len(found) == 0 {
					return nil, errors.New("no such host")
				}
				return found, nil
			}
			if c.want == nil {
				_, result := j.run(t.Context(), state.Create)
				require.Equal(t, []string{"OptionsInvalid", rkev1.ClassInvalid}, []string{result.Reason, result.Class}, result.Message)
				require.Contains(t, result.Message, "the address localhost of the server is a DNS name")
				require.NoFileExists(t, filepath.Join(dir, "claim"))
				require.NoDirExists(t, j.markerRoot)
				return
			}
			j.mustCreate()
			server, err := state.ReadServer(j.state())
			require.NoError(t, err)
			var got []string
			for _, address := range server.Addresses {
				got = append(got, address.Type+" "+address.Address)
			}
			require.Equal(t, c.want, got)
		})
	}
}

// Two machines that name one host: the second is told whose it is, runs nothing there, and gets it when the first is removed.
func TestBootstrapOverSSH_hostTaken(t *testing.T) {
	t.Parallel()
	j, server, dir := existing(t, "#!/bin/sh\necho first >>$STORY/ran\n")
	j.mustCreate()
	claim := filepath.Join(dir, "claim")
	first := j.request.Machine
	requireFile(t, first.UID+"\nteam/"+first.Name+"\nc1\n", claim)

	second := ofSameHost(t, j, "#!/bin/sh\necho second >>$STORY/ran\n")
	taken := func() {
		t.Helper()
		code, result := second.run(t.Context(), state.Create)
		require.Equal(t, operation.ExitFailed, code, second.output.String())
		require.Equal(t, []string{"HostTaken", rkev1.ClassTransient}, []string{result.Reason, result.Class})
		require.Contains(t, result.Message, "the host "+server.Host+" belongs to machine \"team/"+first.Name+"\" of Cluster \"c1\" (UID \""+first.UID+"\")")
		require.Contains(t, result.Message, "clean the host by hand, as docs/drivers.md describes; remove the file "+claim+" last")
		requireFile(t, "first\n", filepath.Join(dir, "ran"))
	}
	taken()
	second.mustRemove()
	second.emptyState()
	taken()

	j.mustRemove()
	require.NoFileExists(t, claim)
	second.mustCreate()
	requireFile(t, "first\nsecond\n", filepath.Join(dir, "ran"))
}

// A driver of which nothing is known may take hosts that were there before, too.
func TestBootstrapOverSSH_hostOfUnknownDriverTaken(t *testing.T) {
	t.Parallel()
	j, server, dir := existing(t, "#!/bin/sh\necho first >>$STORY/ran\n")
	j.request.Driver.Name, j.request.UserData = "pool", clouds.UserData{Habit: clouds.None}
	j.mustCreate()
	second := ofSameHost(t, j, "#!/bin/sh\necho second >>$STORY/ran\n")
	_, result := second.run(t.Context(), state.Create)
	require.Equal(t, []string{"HostTaken", rkev1.ClassTransient}, []string{result.Reason, result.Class}, result.Message)
	require.Contains(t, result.Message, "the host "+server.Host+" belongs to machine \"team/"+j.request.Machine.Name+"\"")
	requireFile(t, "first\n", filepath.Join(dir, "ran"))
}

// A host that already has a Kubernetes is not touched, neither by the machine's creation nor by its
// removal. The machine gets the host when its owner has removed that Kubernetes. A Kubernetes that
// this machine brought does not count.
func TestBootstrapOverSSH_hostInUse(t *testing.T) {
	t.Parallel()
	for name, driver := range map[string]string{"generic": "generic", "a driver that Drover does not know": "pool"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, server, dir := existing(t, "#!/bin/sh\nmkdir -p $STORY/etc/rancher/k3s\necho ours >$STORY/etc/rancher/k3s/k3s.yaml\nexit 1\n")
			if driver != "generic" {
				j.request.Driver.Name, j.request.UserData = driver, clouds.UserData{Habit: clouds.None}
			}
			files := map[string]string{"etc/systemd/system/k3s.service": "[Service]\nExecStart=/usr/local/bin/k3s \\\n    server \\\n",
				"var/lib/rancher/k3s/server/db/state.db": "data"}
			for file, content := range files {
				require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600))
			}
			untouched := func() {
				t.Helper()
				for file, content := range files {
					requireFile(t, content, filepath.Join(dir, file))
				}
				for _, path := range []string{filepath.Join(dir, "claim"), j.markerRoot, filepath.Join(dir, "called")} {
					require.NoFileExists(t, path)
					require.NoDirExists(t, path)
				}
				left, err := os.ReadDir(filepath.Join(dir, "home"))
				require.NoError(t, err)
				require.Empty(t, left)
			}
			code, result := j.run(t.Context(), state.Create)
			require.Equal(t, operation.ExitFailed, code, j.output.String())
			require.Equal(t, []string{"HostInUse", rkev1.ClassInvalid}, []string{result.Reason, result.Class}, result.Message)
			require.Contains(t, result.Message, "the host "+server.Host+" already has a Kubernetes that this machine did not install: "+
				"/etc/systemd/system/k3s.service, /var/lib/rancher/k3s/server/db. Drover changed nothing there")
			require.Contains(t, result.Message, "k3s-uninstall.sh")
			untouched()
			if driver == "generic" { // the other one says that the server is gone, and Drover removes what it knows of
				j.mustRemove()
				untouched()
			}

			for file := range files {
				require.NoError(t, os.Remove(filepath.Join(dir, file)))
			}
			require.NoError(t, os.Remove(filepath.Join(dir, "var/lib/rancher/k3s/server/db")))
			for range 2 {
				_, result = j.run(t.Context(), state.Create)
				require.Equal(t, "BootstrapFailed", result.Reason, "the script of the test fails, and then the claim is this machine's: %s", result.Message)
			}
			requireFile(t, "ours\n", filepath.Join(dir, "etc/rancher/k3s/k3s.yaml"))
		})
	}
}

// What was brought to a host goes with its machine: the agent, whose plan Secret the script named, what ran there, and last the claim.
func TestHostIsCleaned(t *testing.T) {
	t.Parallel()
	j, server, dir := existing(t, installsAgent("plan"))
	j.mustCreate()
	connection, claim := filepath.Join(dir, "var/lib/agent/rancher2_connection_info.json"), filepath.Join(dir, "claim")
	require.FileExists(t, connection)

	// An agent of another machine's is not taken away, and the machine stays until a person has looked.
	require.NoError(t, os.WriteFile(connection, []byte(`{"namespace":"team","secretName":"other"}`), 0o600))
	code, result := j.run(t.Context(), state.Remove)
	require.Equal(t, operation.ExitFailed, code, j.output.String())
	require.Equal(t, []string{"HostNotCleaned", rkev1.ClassInvalid}, []string{result.Reason, result.Class})
	require.Contains(t, result.Message, "the host "+server.Host+" was not cleaned: the agent on this host follows the plan Secret team/other, and team/plan was this machine's")
	require.FileExists(t, claim)
	require.FileExists(t, connection)

	// Nor is a host let go that does not let us in any more, unless the user gives it up.
	require.NoError(t, os.WriteFile(connection, []byte(`{"namespace":"team","secretName":"plan"}`), 0o600))
	known := j.state()[state.SSHKnownHostsKey]
	other, err := sshkeys.Generate("other")
	require.NoError(t, err)
	j.setState(state.SSHKnownHostsKey, append([]byte("x "), other.Public...))
	code, result = j.run(t.Context(), state.Remove)
	require.Equal(t, operation.ExitFailed, code, j.output.String())
	require.Equal(t, []string{"HostNotCleaned", rkev1.ClassTransient}, []string{result.Reason, result.Class})
	require.Contains(t, result.Message, "the host "+server.Host+" still has this machine's files, because it was not cleaned: logging in: ", "which package advice looks for")
	abandoned := *j
	abandoned.request.Abandon = true
	code, result = abandoned.run(t.Context(), state.Remove)
	require.Equal(t, operation.ExitSucceeded, code, j.output.String())
	require.Contains(t, strings.Join(result.Notes, "\n"), "given up by the user")
	require.FileExists(t, claim)

	j.setState(state.SSHKnownHostsKey, known)
	require.Contains(t, j.mustRemove().Notes, "the host is clean")
	for _, path := range []string{claim, filepath.Dir(connection), filepath.Join(dir, "etc/drover"), j.markerRoot} {
		require.NoFileExists(t, path)
		require.NoDirExists(t, path)
	}
	j.requireNoSecrets("MARKER-token")
}

// A key of the machine's own that was replaced is used from the next Job on, and the one before it where the host knows only that. The state keeps the
// one that is let in.
func TestHostIsCleaned_withAnotherKey(t *testing.T) {
	t.Parallel()
	j, server, dir := existing(t, installsAgent("other"))
	j.mustCreate()
	first := string(j.state()[state.SSHPrivateKeyKey])
	give := func() sshkeys.KeyPair {
		pair, err := sshkeys.Generate("another")
		require.NoError(t, err)
		j.request.Files = map[string][]byte{"generic-ssh-key": pair.Private}
		return pair
	}
	refused := func(says string) {
		t.Helper()
		_, result := j.run(t.Context(), state.Remove)
		require.Equal(t, "HostNotCleaned", result.Reason, j.output.String())
		require.Contains(t, result.Message, says)
	}

	server.Authorize(t, give().Public)
	before := sshkeys.Fingerprint(j.state()[state.SSHPublicKeyKey])
	second := give()
	refused("not cleaned: logging in: the host rejects user root with the key " + sshkeys.Fingerprint(second.Public) + ", and with the previous key, " + before + ": ")
	require.Equal(t, first, string(j.state()[state.SSHPrivateKeyKey]), "no key is kept that nobody let in")

	server.Authorize(t, second.Public)
	refused("the agent on this host follows the plan Secret team/other")
	require.Equal(t, string(second.Private), string(j.state()[state.SSHPrivateKeyKey]))
	require.Equal(t, sshkeys.Fingerprint(second.Public), sshkeys.Fingerprint(j.state()[state.SSHPublicKeyKey]))

	give()
	require.NoError(t, os.Remove(filepath.Join(dir, "var/lib/agent/rancher2_connection_info.json")))
	require.Contains(t, j.mustRemove().Notes, "the host is clean")
	j.requireNoSecrets("MARKER-token", first, string(second.Private))
}

// A host that never let us in has nothing of the machine's, and does not hold its removal up.
func TestHostIsCleaned_neverReached(t *testing.T) {
	t.Parallel()
	j, _, dir := existing(t, "#!/bin/sh\n")
	j.request.Options["generic-ssh-user"] = "root"
	other, err := sshkeys.Generate("other")
	require.NoError(t, err)
	j.request.Files = map[string][]byte{"generic-ssh-key": other.Private}
	_, result := j.run(t.Context(), state.Create)
	require.Equal(t, "SSHUnauthorized", result.Reason, result.Message)
	require.Contains(t, strings.Join(j.mustRemove().Notes, "\n"), "the host was not checked: ")
	require.NoFileExists(t, filepath.Join(dir, "claim"))
}

func requireFile(t *testing.T, want, name string) {
	t.Helper()
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, want, string(content))
}

// What was interrupted is not run again, but for the script that installs our agent, which can; what never began is.
// A process that got the run's number meanwhile is not taken for it.
func TestBootstrapOverSSH_afterAnInterruption(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files  map[string]string
		reason string
		ran    bool
	}{
		"uploaded, never started":           {files: map[string]string{"script": "#!/bin/sh\n"}, ran: true},
		"started, its process is gone":      {files: map[string]string{"script": "#!/bin/sh\n", "pid": "999999999\n", "output": "half\n"}, reason: "BootstrapInterrupted"},
		"started, its number is another's":  {files: map[string]string{"script": "#!/bin/sh\n", "pid": "1\n", "output": "half\n"}, reason: "BootstrapInterrupted"},
		"started, before it wrote a number": {files: map[string]string{"script": "#!/bin/sh\n", "output": ""}, reason: "BootstrapInterrupted"},
		"started, it is our own, which can": {files: map[string]string{"script": "#!/bin/sh\nDROVER_SERVER='x'\necho x >>$STORY/ran\n", "pid": "1\n"}, ran: true},
		"done while nobody looked":          {files: map[string]string{"script": "#!/bin/sh\n", "pid": "1\n", "output": "all\n", "exit-code": "0\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, _, dir := existing(t, "#!/bin/sh\necho x >>$STORY/ran\n")
			marker := filepath.Join(j.markerRoot, j.request.Machine.UID)
			require.NoError(t, os.MkdirAll(marker, 0o700))
			for file, content := range c.files {
				require.NoError(t, os.WriteFile(filepath.Join(marker, file), []byte(content), 0o600))
			}
			if strings.HasPrefix(name, "started") || strings.HasPrefix(name, "done") {
				require.NoError(t, os.Mkdir(filepath.Join(marker, "started"), 0o700))
			}
			_, result := j.run(t.Context(), state.Create)
			require.Equal(t, c.reason, result.Reason, "%s\n%s", result.Message, j.output.String())
			_, err := os.Stat(filepath.Join(dir, "ran"))
			require.Equal(t, c.ran, err == nil)
		})
	}
}

func TestBootstrapOverSSH_failures(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		script, reason, message string
		change                  func(*job)
	}{
		"the script fails":   {script: "#!/bin/sh\necho why it failed\nexit 42\n", reason: "BootstrapFailed", message: "exit code 42"},
		"cloud-config":       {script: "#cloud-config\nruncmd: [x]\n", reason: "BootstrapFormatUnsupported", message: "shell script"},
		"the key is missing": {script: "#!/bin/sh\n", reason: "SSHKeyMissing", message: "generic-ssh-key", change: func(j *job) { j.request.Files = nil }},
		"the key has a passphrase": {script: "#!/bin/sh\n", reason: "OptionsInvalid", message: "generic-ssh-key: reading an SSH private key: it is no OpenSSH or PEM key without passphrase",
			change: func(j *job) {
				j.setState(state.SSHPrivateKeyKey, j.request.Files["generic-ssh-key"]) // that of an earlier attempt, which is not to be used
				key, err := ssh.ParseRawPrivateKey(j.request.Files["generic-ssh-key"])
				require.NoError(j.t, err)
				block, err := ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte("secret"))
				require.NoError(j.t, err)
				j.request.Files = map[string][]byte{"generic-ssh-key": pem.EncodeToMemory(block)}
			}},
		"the host key has changed": {script: "#!/bin/sh\n", reason: "SSHUnreachable", message: "host key", change: func(j *job) {
			other, err := sshkeys.Generate("other")
			require.NoError(j.t, err)
			j.setState(state.SSHKnownHostsKey, append([]byte("x "), other.Public...))
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, _, _ := existing(t, c.script)
			if c.change != nil {
				c.change(j)
			}
			code, result := j.run(t.Context(), state.Create)
			require.Equal(t, operation.ExitFailed, code, j.output.String())
			require.Equal(t, c.reason, result.Reason, result.Message)
			require.Contains(t, result.Message, c.message)
			if strings.Contains(name, "script fails") {
				require.Contains(t, string(j.state()[state.LogKey]), "why it failed")
				require.Equal(t, rkev1.ClassInvalid, result.Class)
			}
		})
	}
}
