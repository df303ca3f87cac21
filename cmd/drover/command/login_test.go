package command_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/sshkeys/sshtest"
	"github.com/drover-project/drover/state"
)

// withServer is a cluster with machine web-1, whose server is OpenSSH's.
func withServer(t *testing.T, hostKeyRecorded bool) (*cluster, sshtest.OpenSSH) {
	t.Helper()
	c := newCluster(t)
	c.apply(t, runningMachine)
	private, authorized := keyPair(t)
	server := sshtest.StartOpenSSH(t, authorized)
	document, err := json.Marshal(state.Server{InstanceID: "4711", SSHHost: server.Host, SSHPort: server.Port, SSHUser: server.User})
	require.NoError(t, err)
	data := map[string]string{
		state.ServerKey: string(document), state.SSHPrivateKeyKey: string(private), state.SSHPublicKeyKey: string(authorized),
		state.JournalKey: `{"operation":"create","attempt":1,"phase":"Bootstrapped","instanceName":"web-1"}`,
	}
	if hostKeyRecorded {
		data[state.SSHKnownHostsKey] = string(sshkeys.KnownHostsLine(server.Host, server.Port, server.HostKey))
	}
	c.secret(t, "web-1-machine-state", data)
	return c, server
}

func TestSSH(t *testing.T) {
	c, _ := withServer(t, true)
	r := c.droverWith(t, "from stdin", "ssh", "web-1", "--", "cat; echo to-stderr >&2; exit 7")
	require.Equal(t, 7, r.code, "the remote exit status is drover's")
	require.Equal(t, "from stdin", r.out)
	require.Equal(t, "to-stderr\n", r.errOut)
	require.Equal(t, "a b\n", c.ok(t, "ssh", "digitaloceanmachine/web-1", "--", "-T", "echo", "a", "b"), "options and words are passed to ssh")

	r = c.drover(t, "ssh", "web-1", "--address", "127.0.0.1", "-p", "1", "--", "true")
	require.Equal(t, 255, r.code)
	require.Contains(t, r.errOut, "Connection refused")
	require.Contains(t, r.errOut, "# ssh exited with 255. If there was no login, see 'drover why web-1 -n "+c.namespace+"'; -l, -p, --address and -J choose another")
}

func TestUnknownHostKey(t *testing.T) {
	c, server := withServer(t, false)
	r := c.drover(t, "ssh", "web-1", "--", "true")
	require.Equal(t, 255, r.code)
	require.Contains(t, r.errOut, "no host key of web-1 is recorded")
	require.Contains(t, r.errOut, "--accept-new-host-key")
	require.Contains(t, c.drover(t, "keys", "web-1", "--dir", t.TempDir()).errOut, "no host key of web-1 is recorded")

	r = c.drover(t, "ssh", "web-1", "--accept-new-host-key", "--", "true")
	require.Zero(t, r.code, r.errOut)
	require.Contains(t, r.errOut, "recorded the host key of web-1 in Secret web-1-machine-state")
	secret := &corev1.Secret{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: "web-1-machine-state"}, secret))
	keys, err := sshkeys.HostKeys(secret.Data[state.SSHKnownHostsKey])
	require.NoError(t, err)
	require.Len(t, keys, 1)
	require.Equal(t, server.HostKey.Marshal(), keys[0].Marshal())
	c.ok(t, "ssh", "web-1", "--", "true")
}

func TestChangedHostKey(t *testing.T) {
	c, _ := withServer(t, true)
	_, authorized := keyPair(t)
	other := sshtest.StartOpenSSH(t, authorized)
	r := c.drover(t, "ssh", "web-1", "-p", strconv.Itoa(other.Port), "--accept-new-host-key", "--", "-o", "StrictHostKeyChecking=no", "true")
	require.Equal(t, 255, r.code)
	require.Contains(t, r.errOut, "REMOTE HOST IDENTIFICATION HAS CHANGED")
	require.Contains(t, r.errOut, ssh.FingerprintSHA256(other.HostKey))
	require.Contains(t, r.errOut, "remove the recorded key")
}

func TestSCP(t *testing.T) {
	c, _ := withServer(t, true)
	here, there := t.TempDir(), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(here, "dir", "sub"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(here, "dir", "sub", "f"), []byte("deep"), 0o600))

	r := c.drover(t, "scp", filepath.Join(here, "dir"), "web-1:"+there)
	require.NotZero(t, r.code)
	require.Contains(t, r.errOut, "not a regular file")
	r = c.drover(t, "scp", filepath.Join(here, "missing"), "web-1:"+there)
	require.Equal(t, 1, r.code)
	require.Equal(t, "error: the local file "+filepath.Join(here, "missing")+" does not exist\n", r.errOut, "no advice about logins")
	c.ok(t, "scp", "-r", filepath.Join(here, "dir"), "pool-abc:"+there, "--", "-C")
	requireFile(t, filepath.Join(there, "dir", "sub", "f"), "deep")
	c.ok(t, "scp", "web-1:"+there+"/dir/sub/f", filepath.Join(here, "back"))
	requireFile(t, filepath.Join(here, "back"), "deep")
}

// TestSSH_missing: without OpenSSH, the error says which package to install, before the cluster is asked.
func TestSSH_missing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	r := execute(t, emptyOptions, "", "--kubeconfig", "/none", "ssh", "web-1")
	require.Equal(t, 255, r.code)
	require.Contains(t, r.errOut, "the program ssh is not in your PATH: install the OpenSSH client (package openssh-client on Debian")
}

func requireFile(t *testing.T, name, content string) {
	t.Helper()
	raw, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, content, string(raw))
}

func TestKeys(t *testing.T) {
	c, _ := withServer(t, true)
	dir := t.TempDir()
	out := c.ok(t, "keys", "web-1", "--dir", dir)
	require.Contains(t, out, "Log in with: ssh -F "+filepath.Join(dir, "web-1", "config")+" web-1\n")
	require.NotContains(t, out, "PRIVATE")
	info, err := os.Stat(filepath.Join(dir, "web-1"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	for _, name := range []string{"id_ed25519", "id_ed25519.pub", "known_hosts", "config"} {
		info, err := os.Stat(filepath.Join(dir, "web-1", name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
		require.Contains(t, out, filepath.Join(dir, "web-1", name)+"\n")
	}
	c.ok(t, "keys", "web-1", "--dir", dir)

	command := exec.Command("ssh", "-F", filepath.Join(dir, "web-1", "config"), "web-1", "echo", "logged", "in")
	if command.Err != nil {
		t.Skip("no OpenSSH client here")
	}
	output, err := command.CombinedOutput()
	require.NoError(t, err, string(output))
	require.Equal(t, "logged in\n", string(output))
}

func TestRetry(t *testing.T) {
	c := newCluster(t)
	waiting, runs := c.apply(t, waitingMachine), c.apply(t, runningMachine)
	c.ok(t, "retry", "db-1")
	first := c.read(t, waiting).GetAnnotations()["drover.cattle.io/retry"]
	require.NotEmpty(t, first)
	c.ok(t, "retry", "db-1")
	require.NotEqual(t, first, c.read(t, waiting).GetAnnotations()["drover.cattle.io/retry"])
	c.apply(t, strings.NewReplacer("db-1", "db-2", "  conditions:\n", "  conditions:\n  - {type: Paused, status: \"True\", reason: Paused, message: \"\", lastTransitionTime: \"2026-03-01T11:00:00Z\"}\n").Replace(waitingMachine))
	require.Contains(t, c.ok(t, "retry", "db-2"), "nothing happens while the machine is paused")
	r := c.drover(t, "retry", "web-1")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "nothing to try again")
	require.Empty(t, c.read(t, runs).GetAnnotations())

	capi := c.apply(t, capiMachine+"status:\n  conditions:\n  - {type: PlanApplied, status: \"False\", reason: PlanFailed, message: \"\", lastTransitionTime: \"2026-03-01T11:00:00Z\"}\n")
	require.Contains(t, c.ok(t, "retry", "web-1"), "logs web-1 -n "+c.namespace+" --agent'")
	require.NotEmpty(t, c.read(t, runs).GetAnnotations()["drover.cattle.io/retry"])
	require.Contains(t, c.ok(t, "retry", "pool-abc"), "another attempt was asked for")
	require.NoError(t, c.Delete(t.Context(), capi))

	failed := c.apply(t, strings.NewReplacer("name: web-1", "name: web-2", "phase: Running", "phase: Failed", "  ready: true\n", "", "  conditions:\n",
		"  conditions:\n  - {type: BootstrapDelivered, status: \"False\", reason: BootstrapFailed, message: \"\", lastTransitionTime: \"2026-03-01T11:00:00Z\"}\n").Replace(runningMachine))
	const why = "web-2 has a server on which the bootstrap data failed (BootstrapFailed), and no other attempt follows: delete the machine to have another one made\n"
	r = c.drover(t, "retry", "web-2")
	require.Equal(t, 1, r.code)
	require.Equal(t, "error: "+why, r.errOut)
	require.Equal(t, "# "+why+"# there is nothing to try again: the last attempt of no such machine failed\n", c.drover(t, "retry", "--all").errOut)
	require.Empty(t, c.read(t, failed).GetAnnotations())
}

// TestPause: that the Cluster is paused is told also before the manager has written it into the machine.
func TestPause(t *testing.T) {
	c := newCluster(t)
	c.apply(t, waitingMachine)
	c.apply(t, "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: store}\nspec: {paused: true, infrastructureRef: {apiGroup: a.b, kind: C, name: d}}")
	require.Regexp(t, `(?m)^db-1 .* Paused *$`, c.ok(t, "get"))
	require.Contains(t, c.ok(t, "retry", "db-1"), "nothing happens while the machine is paused")
	require.Contains(t, c.ok(t, "why", "db-1"), "The Cluster store is paused, so Drover does not reconcile the machine.")
}

// TestRetryOfMany: a selector, a pool or all, and of those only what failed.
func TestRetryOfMany(t *testing.T) {
	const failed = "status:\n  lastAttempt: {operation: create, number: 3, outcome: Failed, class: Invalid}"
	c := newCluster(t)
	named := func(name, capi string) string {
		return strings.NewReplacer("name: db-1", "name: "+name, "labels: {", "labels: {rke.cattle.io/capi-machine-name: "+capi+", ").Replace(waitingMachine)
	}
	waiting, other := c.apply(t, named("w", "pool-w")), c.apply(t, strings.Replace(named("o", "pool-o"), "status:", failed, 1))
	mine := c.apply(t, strings.Replace(strings.Replace(named("m", "pool-m"), "name: store", "name: other", 1), "status:", failed, 1))
	c.apply(t, "apiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineDeployment\nmetadata: {name: pool}\nspec:"+poolTemplate)
	c.apply(t, strings.Replace(capiMachine, "name: pool-abc", "name: pool-m, labels: {cluster.x-k8s.io/deployment-name: pool}", 1))
	asked := func(machine *unstructured.Unstructured) string {
		return c.read(t, machine).GetAnnotations()["drover.cattle.io/retry"]
	}

	c.ok(t, "retry", "md/pool")
	first := asked(mine)
	require.NotEmpty(t, first)
	require.Empty(t, asked(other))
	c.ok(t, "retry", "-l", "cluster.x-k8s.io/cluster-name=store")
	require.NotEmpty(t, asked(other))
	require.Equal(t, first, asked(mine))
	c.ok(t, "retry", "--all")
	require.NotEqual(t, first, asked(mine))
	require.Empty(t, asked(waiting), "it waits for something else")
	require.Contains(t, c.drover(t, "retry", "-l", "a=b").errOut, "there is nothing to try again")
	for _, wrong := range [][]string{{"retry"}, {"retry", "m", "--all"}, {"retry", "-l", "!!"}} {
		require.Equal(t, 2, c.drover(t, wrong...).code, wrong)
	}
	r := c.drover(t, "retry", "nobody", "m")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.out, "genericmachine.rke-machine.cattle.io/m: another attempt was asked for")
}

func TestAbandon(t *testing.T) {
	c, _ := withServer(t, true)
	machine := c.apply(t, strings.Replace(waitingMachine, "name: db-1", "name: db-1\n  finalizers: [drover.cattle.io/machine]", 1))
	r := c.drover(t, "abandon", "web-1", "--yes")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "is not being deleted")
	require.Contains(t, r.errOut, "To delete its server and the data on it, delete its CAPI Machine (kubectl -n "+c.namespace+" delete machine.cluster.x-k8s.io/pool-abc)")

	require.NoError(t, c.Delete(t.Context(), machine))
	r = c.drover(t, "abandon", "db-1")
	require.Equal(t, 1, r.code, "nobody is there to say yes")
	require.Contains(t, r.errOut, "--yes")
	require.Contains(t, r.out, "These parts of db-1 may remain")
	require.Empty(t, c.read(t, machine).GetAnnotations())
	require.Contains(t, c.ok(t, "abandon", "db-1", "--yes"), "its server was given up")
	require.Equal(t, map[string]string{"drover.cattle.io/abandon": "db-1"}, c.read(t, machine).GetAnnotations())
	fresh := c.read(t, machine)
	fresh.SetFinalizers(nil)
	require.NoError(t, c.Update(t.Context(), fresh))
}

// TestStateOfAnotherMachine: a machine of another kind must not lead to the server of its namesake.
func TestStateOfAnotherMachine(t *testing.T) {
	c, _ := withServer(t, true)
	c.apply(t, strings.Replace(waitingMachine, "name: db-1", "name: web-1", 1))
	secret := &corev1.Secret{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: "web-1-machine-state"}, secret))
	secret.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "rke-machine.cattle.io/v1", Kind: "DigitaloceanMachine", Name: "web-1", UID: "someone-else", Controller: new(true)}}
	require.NoError(t, c.Update(t.Context(), secret))
	r := c.drover(t, "ssh", "genericmachine/web-1", "--", "true")
	require.Equal(t, 255, r.code)
	require.Contains(t, r.errOut, "is not this machine's: it belongs to DigitaloceanMachine web-1")
	require.Contains(t, c.ok(t, "why", "genericmachine/web-1"), "is not this machine's")
}
