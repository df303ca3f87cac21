package access_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/cmd/drover/access"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/sshkeys"
)

func login(t *testing.T, key crypto.PrivateKey) sshkeys.Access {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(key, "")
	require.NoError(t, err)
	return sshkeys.Access{Host: "198.18.0.11", User: "root", Port: 22, PrivateKey: pem.EncodeToMemory(block)}
}

func machine(uid types.UID) *facts.Machine {
	return &facts.Machine{Kind: facts.Kind{Name: "GenericMachine"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: uid}}
}

func TestKeyFilesAreNamedByKeyType(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	ecdsaKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	for name, key := range map[string]crypto.PrivateKey{"id_rsa": rsaKey, "id_ecdsa": ecdsaKey} {
		files, err := access.NewKeyFiles(t.TempDir(), machine("1"), login(t, key))
		require.NoError(t, err)
		require.Equal(t, name, files.Files[1].Name)
		require.Equal(t, name+".pub", files.Files[2].Name)
		require.NoError(t, files.Write(false))
	}
}

func TestKeyFilesOfAnotherMachineOfTheSameName(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(uid types.UID, address string, force bool) error {
		access1 := login(t, key)
		access1.Host = address
		files, err := access.NewKeyFiles(dir, machine(uid), access1)
		require.NoError(t, err)
		return files.Write(force)
	}
	require.NoError(t, write("1", "198.18.0.11", false))
	require.NoError(t, write("1", "198.18.0.12", false), "the same machine's files are brought up to date")
	require.ErrorContains(t, write("2", "198.18.0.13", false), "--force")
	require.NoError(t, write("2", "198.18.0.13", true))
}

func TestKeyFilesFollowNoLink(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "elsewhere")
	require.NoError(t, os.WriteFile(elsewhere, []byte("precious"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "web-1"), 0o755))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, "web-1", "id_ecdsa")))
	files, err := access.NewKeyFiles(dir, machine("1"), login(t, key))
	require.NoError(t, err)
	require.Error(t, files.Write(false))
	require.NoError(t, files.Write(true))
	content, err := os.ReadFile(elsewhere)
	require.NoError(t, err)
	require.Equal(t, "precious", string(content))
	info, err := os.Lstat(filepath.Join(dir, "web-1", "id_ecdsa"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	info, err = os.Stat(filepath.Join(dir, "web-1"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

// TestKeyFiles: what is written is all that the user's ssh needs, and says whose it is.
func TestKeyFiles(t *testing.T) {
	pair, err := sshkeys.Generate("web-1")
	require.NoError(t, err)
	server, err := sshkeys.Generate("host")
	require.NoError(t, err)
	dir := t.TempDir()
	files, err := access.NewKeyFiles(dir, machine("uid-1"), sshkeys.Access{
		Host: "fe80::1%eth0", User: "ubuntu", Port: 2222, PrivateKey: pair.Private, KnownHosts: append([]byte("[198.18.0.11]:2222 "), server.Public...)})
	require.NoError(t, err)
	require.NoError(t, files.Write(false))
	require.Equal(t, filepath.Join(dir, "web-1"), files.Dir)
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(files.Dir, name))
		require.NoError(t, err)
		info, err := os.Lstat(filepath.Join(files.Dir, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode(), name)
		return strings.ReplaceAll(string(content), dir, "DIR")
	}
	require.Equal(t, string(pair.Private), read("id_ed25519"))
	require.Equal(t, authorized(t, pair.Public), authorized(t, []byte(read("id_ed25519.pub"))))
	require.Equal(t, "web-1,[fe80::1%eth0]:2222 "+authorized(t, server.Public), read("known_hosts"))
	require.Equal(t, `# Written by drover for GenericMachine shop/web-1, uid-1.
Host web-1
  HostName fe80::1%%eth0
  Port 2222
  User ubuntu
  IdentityFile DIR/web-1/id_ed25519
  IdentitiesOnly yes
  HostKeyAlias web-1
  UserKnownHostsFile DIR/web-1/known_hosts
  GlobalKnownHostsFile none
  StrictHostKeyChecking yes
`, read("config"))
	entries, err := os.ReadDir(files.Dir)
	require.NoError(t, err)
	require.Len(t, entries, 4, "nothing is left over")
}

// authorized is an authorized_keys line without its comment.
func authorized(t *testing.T, line []byte) string {
	t.Helper()
	key, _, _, _, err := ssh.ParseAuthorizedKey(line)
	require.NoError(t, err)
	return string(ssh.MarshalAuthorizedKey(key))
}

// TestKeyFilesAreUnderstoodByOpenSSH asks ssh what it makes of the config.
func TestKeyFilesAreUnderstoodByOpenSSH(t *testing.T) {
	program, err := exec.LookPath("ssh")
	if err != nil {
		t.Skip("no OpenSSH client here")
	}
	pair, err := sshkeys.Generate("web-1")
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "with space %h")
	files, err := access.NewKeyFiles(dir, machine("1"), sshkeys.Access{Host: "198.18.0.11", User: "root", Port: 2222, PrivateKey: pair.Private})
	require.NoError(t, err)
	require.NoError(t, files.Write(false))
	out, err := exec.CommandContext(t.Context(), program, "-G", "-F", filepath.Join(files.Dir, "config"), "web-1").Output()
	require.NoError(t, err)
	for _, want := range []string{
		"host web-1", "user root", "hostname 198.18.0.11", "port 2222", "identitiesonly yes", "hostkeyalias web-1", "stricthostkeychecking true", "globalknownhostsfile none",
	} {
		require.Contains(t, string(out), want+"\n")
	}
	require.Contains(t, string(out), "with space %")
}

func TestKeyFilesErrors(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	good := login(t, key)
	for name, c := range map[string]struct {
		change func(*sshkeys.Access)
		err    string
	}{
		"no key":                {func(a *sshkeys.Access) { a.PrivateKey = nil }, "the state's SSH private key is no OpenSSH or PEM key without passphrase"},
		"another thing":         {func(a *sshkeys.Access) { a.PrivateKey = []byte("MARKER") }, "the state's SSH private key is no OpenSSH or PEM key without passphrase"},
		"odd host keys":         {func(a *sshkeys.Access) { a.KnownHosts = []byte("host ssh-rsa MARKER\n") }, "reading known hosts: illegal base64 data at input byte 4"},
		"no address":            {func(a *sshkeys.Access) { a.Host = "" }, "the state names no address of the server"},
		"a user with a newline": {func(a *sshkeys.Access) { a.User = "root\nProxyCommand touch /tmp/x" }, `writing an ssh_config: User: "root\nProxyCommand touch /tmp/x" is not of letters, digits and . _ @ + - alone, and OpenSSH would take other signs for something else`},
	} {
		t.Run(name, func(t *testing.T) {
			given := good
			c.change(&given)
			_, err := access.NewKeyFiles(t.TempDir(), machine("1"), given)
			require.EqualError(t, err, c.err)
		})
	}
}

func TestKeyFilesCannotBeWritten(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	write := func(dir string, force bool) error {
		files, err := access.NewKeyFiles(dir, machine("1"), login(t, key))
		require.NoError(t, err)
		return files.Write(force)
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "web-1"), nil, 0o600))
	require.EqualError(t, write(dir, true), filepath.Join(dir, "web-1")+" is not a directory: choose another --dir")
	require.ErrorContains(t, write(filepath.Join(dir, "web-1"), false), "making the directory: ")

	dir, elsewhere := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, "web-1")))
	require.EqualError(t, write(dir, true), filepath.Join(dir, "web-1")+" is not a directory: choose another --dir", "a link leads keys elsewhere")
	entries, err := os.ReadDir(elsewhere)
	require.NoError(t, err)
	require.Empty(t, entries)

	dir = t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "web-1", "id_ecdsa", "x"), 0o700))
	require.ErrorContains(t, write(dir, false), "id_ecdsa in "+filepath.Join(dir, "web-1")+" was not written for this machine: choose another --dir, or overwrite with --force")
	require.ErrorContains(t, write(dir, true), "writing "+filepath.Join(dir, "web-1", "id_ecdsa")+": ")
}

// TestKeyFilesAfterAnInterruption: what an interrupted run left is no reason to refuse, for its config says whose it is.
func TestKeyFilesAfterAnInterruption(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	files, err := access.NewKeyFiles(t.TempDir(), machine("1"), login(t, key))
	require.NoError(t, err)
	require.NoError(t, files.Write(false))
	require.NoError(t, os.Remove(filepath.Join(files.Dir, "known_hosts")))
	require.NoError(t, os.WriteFile(filepath.Join(files.Dir, "id_ecdsa"), []byte("half"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(files.Dir, ".id_ecdsa.new"), []byte("half"), 0o600))
	require.NoError(t, files.Write(false))
	content, err := os.ReadFile(filepath.Join(files.Dir, "id_ecdsa"))
	require.NoError(t, err)
	require.Equal(t, files.Files[1].Content, content)
	require.NoFileExists(t, filepath.Join(files.Dir, ".id_ecdsa.new"))
}

// TestSSHCommandIsOneForTheShell: the path is one word there, whatever is in it.
func TestSSHCommandIsOneForTheShell(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	for _, dir := range []string{"/plain", "/a b", "/$HOME", "/a;b", "/a&b", "/*", "/a(b)", "/`id`", "/~", "/ü", "/a|b", "/a>b", "/#"} {
		files, err := access.NewKeyFiles(dir, machine("1"), login(t, key))
		require.NoError(t, err)
		out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "ssh() { printf '%s\\n' \"$@\"; }; "+files.SSHCommand()).Output()
		require.NoError(t, err)
		require.Equal(t, "-F\n"+dir+"/web-1/config\nweb-1\n", string(out))
	}
}
