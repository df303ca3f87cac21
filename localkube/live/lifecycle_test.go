package live_test

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/controlplane"
	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/pki"
)

// kept is what a data directory says of its server.
func kept(t *testing.T, dir string) datadir.Config {
	t.Helper()
	located, err := datadir.Locate(dir)
	require.NoError(t, err)
	cfg, known, err := located.LoadConfig()
	require.NoError(t, err)
	require.True(t, known)
	return cfg
}

// requireGone expects that nothing of a server is left but its directory.
func requireGone(t *testing.T, dir string) {
	t.Helper()
	require.Empty(t, processesOf(t, dir))
	cfg := kept(t, dir)
	for _, port := range []int{cfg.HTTPSPort, cfg.EtcdClientPort, cfg.EtcdPeerPort, cfg.JoinPort} {
		listener, err := net.Listen("tcp", ":"+strconv.Itoa(port))
		require.NoError(t, err, "port %d is given back", port)
		require.NoError(t, listener.Close())
	}
	located, err := datadir.Locate(dir)
	require.NoError(t, err)
	lock, err := located.Lock()
	require.NoError(t, err, "the lock is given back")
	require.NoError(t, lock.Release())
	require.False(t, readStatus(t, dir).Running)
}

// expire replaces a certificate by one that was good until yesterday.
func expire(t *testing.T, dir, name string) {
	t.Helper()
	pair := pki.PairAt(filepath.Join(dir, "pki"), name)
	loaded, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	store, err := pki.Read(filepath.Join(dir, "pki"))
	require.NoError(t, err)
	authority, err := tls.LoadX509KeyPair(store.Cluster.CertFile(), store.Cluster.KeyFile())
	require.NoError(t, err)
	template := *loaded.Leaf
	template.SerialNumber = big.NewInt(1)
	template.NotBefore, template.NotAfter = time.Now().Add(-72*time.Hour), time.Now().Add(-24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, &template, authority.Leaf, loaded.Leaf.PublicKey, authority.PrivateKey)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(pair.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
}

// forge makes a kubeconfig of an administrator signed by somebody else.
func forge(t *testing.T, url string, ca []byte) string {
	t.Helper()
	stranger, err := pki.Open(t.TempDir())
	require.NoError(t, err)
	pair, err := stranger.Issue(stranger.Cluster, "admin", pki.Subject{Name: "localkube-admin", Groups: []string{"system:masters"}})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, pki.Kubeconfig{Server: url, CA: ca, User: "forger", Pair: pair}.Write(path))
	return path
}

func (i *instance) config() (ca []byte, url string) {
	i.t.Helper()
	store, err := pki.Read(filepath.Join(i.dir, "pki"))
	require.NoError(i.t, err)
	return store.Cluster.CertPEM(), readStatus(i.t, i.dir).URL
}

// killed ends the server as the kernel does when memory runs out.
func (i *instance) killed() {
	i.t.Helper()
	require.NoError(i.t, i.cmd.Process.Kill())
	_ = i.cmd.Wait() // it was killed
}

// child is the process id of a component.
func (i *instance) child(verb string) int {
	i.t.Helper()
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(i.cmd.Process.Pid), "-f", verb).Output()
	require.NoError(i.t, err, verb)
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	require.NoError(i.t, err, "%s", out)
	return pid
}

// One directory through everything that happens to servers.
func TestServer_goes_on_where_it_was(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	server := start(t, dir, "--disable", "scheduler")
	first := kept(t, dir)
	server.kubectl("create", "namespace", "kept")
	server.kubectl("create", "secret", "generic", "kept", "--from-literal=a=b", "-n", "kept")
	ca, url := server.config()
	out, err := run(t, "kubectl", "--kubeconfig", forge(t, url, ca), "get", "secrets", "-n", "kept")
	require.Error(t, err)
	require.Contains(t, out, "You must be logged in to the server")

	server.stop()
	requireGone(t, dir)
	require.Regexp(t, `localkube +\d+\.\d\ds  stopping\nlocalkube +\d+\.\d\ds  stopped\n$`, server.log.String())

	for _, name := range []string{"admin", "apiserver", "controller-manager"} {
		expire(t, dir, name)
	}
	server = start(t, dir, "--disable", "scheduler")
	require.Equal(t, first, kept(t, dir))
	require.Equal(t, "b", server.kubectl("get", "secret", "kept", "-n", "kept", "-o", "go-template={{.data.a | base64decode}}"))
	until, err := pki.PairAt(filepath.Join(dir, "pki"), "admin").Expiry()
	require.NoError(t, err)
	require.True(t, until.After(time.Now()), "certificates that have expired are renewed")
	server.kubectl("create", "namespace", "before-the-crash")
	server.killed()

	// The next start does not stumble over what the killed one had.
	server = start(t, dir, "--disable", "scheduler,controller-manager")
	server.kubectl("get", "namespace", "before-the-crash")
	require.Equal(t, first, kept(t, dir))
	server.failsWithout(controlplane.EtcdName)
	requireGone(t, dir)
}

// failsWithout kills a component: its end is the end of all, with its reason.
func (i *instance) failsWithout(component string) {
	i.t.Helper()
	require.NoError(i.t, syscall.Kill(i.child("localkube "+component), syscall.SIGKILL))
	require.Error(i.t, i.cmd.Wait())
	require.Contains(i.t, i.log.String(), "\nlocalkube: "+component+" ended: signal: killed\nlast lines of "+
		filepath.Join(i.dir, "logs", component+".log")+":\n")
}

func TestServer_on_a_small_disk(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("/bin/sh", "-c", `mount -t tmpfs -o size=16m small "$0" && exec "$1" server --data-dir "$0/d"`, dir, localkube(t))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Skipf("this machine gives no namespaces: %v", err)
	}
	require.Error(t, err)
	require.Regexp(t, `\nlocalkube: the file system of `+dir+`/d has room for 1\d MiB and a server needs 200 MiB: make room or name another --data-dir\n$`, string(out))
}

func TestVersion(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--version"}} {
		require.Regexp(t, `^Kubernetes v1\.36\.3 go1\.\d+\S* linux/\w+\n$`, must(t, args...))
	}
	var version struct{ ClientVersion struct{ GitVersion string } }
	require.NoError(t, json.Unmarshal([]byte(must(t, "kubectl", "version", "--client", "-o", "json")), &version))
	require.Equal(t, "v1.36.3", version.ClientVersion.GitVersion)
}

// The components' packages bring flags of their own into the process.
func TestHelp_shows_our_flags_only(t *testing.T) {
	out := must(t, "status", "--help")
	require.NotContains(t, out, "Global Flags")
	require.NotContains(t, must(t, "--help"), "reported version")
	_, err := run(t, "etcd")
	require.Error(t, err)
}
