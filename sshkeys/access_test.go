package sshkeys_test

import (
	"archive/tar"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
)

func TestAccessFrom(t *testing.T) {
	rancher := rawArchive(t, func(w *tar.Writer) {
		entry(t, w, &tar.Header{Name: "/home/machine/.docker/machine/machines/p1/config.json"},
			`{"Driver":{"IPAddress":"198.18.0.7","SSHUser":"ubuntu","SSHPort":2222,"SSHKeyPath":"/x/machines/p1/id_rsa"}}`)
		entry(t, w, &tar.Header{Name: "/home/machine/.docker/machine/machines/p1/id_rsa"}, "old key")
		entry(t, w, &tar.Header{Name: "/home/machine/.docker/machine/machines/p1/id_rsa.pub"}, "old public key")
	})
	cases := []struct {
		name string
		data map[string]string
		want sshkeys.Access
		err  error
	}{
		{name: "our own keys", data: map[string]string{
			"ssh-privatekey": "key", "ssh-publickey": "public", "ssh-knownhosts": "hosts",
			"server.json": `{"sshUser":"debian","sshHost":"198.18.0.9","sshPort":2022}`,
		}, want: sshkeys.Access{
			User: "debian", Host: "198.18.0.9", Port: 2022, PrivateKey: []byte("key"), PublicKey: []byte("public"), KnownHosts: []byte("hosts"),
		}},
		{name: "an address when there is no SSH host", data: map[string]string{
			"ssh-privatekey": "key",
			"server.json":    `{"addresses":[{"type":"InternalIP","address":"10.0.0.1"},{"type":"ExternalIP","address":"198.18.0.9"}]}`,
		}, want: sshkeys.Access{User: "root", Host: "198.18.0.9", Port: 22, PrivateKey: []byte("key")}},
		{name: "a machine taken over from Rancher", data: map[string]string{"extractedConfig": string(rancher)}, want: sshkeys.Access{
			User: "ubuntu", Host: "198.18.0.7", Port: 2222, PrivateKey: []byte("old key"), PublicKey: []byte("old public key"),
		}},
		{name: "nothing", err: sshkeys.ErrNoKey},
		{name: "no address", data: map[string]string{"ssh-privatekey": "key"}, err: sshkeys.ErrNoAddress},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			data := map[string][]byte{}
			for key, value := range c.data {
				data[key] = []byte(value)
			}
			access, err := sshkeys.AccessFrom(state.Of(data))
			require.ErrorIs(t, err, c.err)
			if c.err == nil {
				require.Equal(t, c.want, access)
			}
		})
	}
}

func TestGenerate(t *testing.T) {
	pair, err := sshkeys.Generate("team a/m1")
	require.NoError(t, err)
	key, comment, _, _, err := ssh.ParseAuthorizedKey(pair.Public)
	require.NoError(t, err)
	require.Equal(t, ssh.KeyAlgoED25519, key.Type())
	require.Equal(t, "team_a/m1", comment)
	_, err = sshkeys.PublicOf([]byte("MARKER"), "")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "MARKER")
}

// TestConfig lets OpenSSH itself read what Config wrote, where it is installed.
func TestConfig(t *testing.T) {
	access := sshkeys.Access{User: "debian", Host: "198.18.0.9", Port: 2022, PrivateKey: []byte("key")}
	dir := filepath.Join(t.TempDir(), "with space and %h")
	text, err := sshkeys.Config("pool-1", access, sshkeys.ConfigFiles{
		Identity: filepath.Join(dir, "id"), KnownHosts: filepath.Join(dir, "known_hosts"),
	})
	require.NoError(t, err)
	require.Contains(t, text, "StrictHostKeyChecking yes")
	program, err := exec.LookPath("ssh")
	if err != nil {
		t.Skip("no OpenSSH client here")
	}
	file := filepath.Join(t.TempDir(), "config")
	writeFile(t, file, text)
	out, err := exec.CommandContext(t.Context(), program, "-F", file, "-G", "pool-1").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "hostname 198.18.0.9\n")
	require.Contains(t, string(out), "port 2022\n")
	require.Contains(t, string(out), "hostkeyalias pool-1\n")
}
