package access_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"os"
	"path/filepath"
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

func TestSSHCommandIsQuoted(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	files, err := access.NewKeyFiles("/with space", machine("1"), login(t, key))
	require.NoError(t, err)
	require.Equal(t, "ssh -F '/with space/web-1/config' web-1", files.SSHCommand())
}
