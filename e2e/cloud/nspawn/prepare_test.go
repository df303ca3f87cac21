package nspawn

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/e2e/cloud/server"
)

// tree lists what is below a directory with its modes.
func tree(t *testing.T, root string) string {
	t.Helper()
	var text strings.Builder
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := entry.Info()
		require.NoError(t, err)
		name, err := filepath.Rel(root, path)
		require.NoError(t, err)
		fmt.Fprintf(&text, "%s %s\n", info.Mode(), name)
		return nil
	}))
	return text.String()
}

func TestPreparedDirectory(t *testing.T) {
	for _, umask := range []int{0o022, 0o077} {
		dir := serverDir(filepath.Join(t.TempDir(), "d1"))
		require.NoError(t, os.Mkdir(string(dir), 0o700))
		old := syscall.Umask(umask)
		err := dir.prepare(spec("d1"), Options{Image: "/cache/image", Gateway: netip.MustParseAddr("198.18.0.1")})
		syscall.Umask(old)
		require.NoError(t, err)
		golden := filepath.Join("testdata", "tree.txt")
		if *update {
			require.NoError(t, os.WriteFile(golden, []byte(tree(t, string(dir))), 0o600))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		require.Equal(t, string(want), tree(t, string(dir)), "umask %o", umask)
		image, err := os.ReadFile(dir.complete())
		require.NoError(t, err)
		require.Equal(t, "/cache/image", string(image))
	}
}

func TestPreparedIdentityIsWhole(t *testing.T) {
	dir := serverDir(filepath.Join(t.TempDir(), "d1"))
	require.NoError(t, os.Mkdir(string(dir), 0o700))
	require.NoError(t, dir.prepare(spec("d1"), Options{Image: "/i", Gateway: netip.MustParseAddr("198.18.0.1")}))
	private, err := os.ReadFile(dir.file(hostKeyFile))
	require.NoError(t, err)
	signer, err := ssh.ParsePrivateKey(private)
	require.NoError(t, err)
	public, err := os.ReadFile(dir.file(hostKeyFile + ".pub"))
	require.NoError(t, err)
	require.Equal(t, string(ssh.MarshalAuthorizedKey(signer.PublicKey())), string(public))
	id, err := os.ReadFile(dir.file(machineIDFile))
	require.NoError(t, err)
	require.Regexp(t, "^[0-9a-f]{32}\n$", string(id))
}

// A directory that is not complete is never started, so what completes it comes last.
func TestPreparationThatFailsIsNotComplete(t *testing.T) {
	for name, obstacle := range map[string]string{
		"host key": "upper/" + hostKeyFile, "machine id": "upper/" + machineIDFile, "user data": "upper/" + seedDir + "/user-data",
		"root": "", "complete": "complete.new",
	} {
		t.Run(name, func(t *testing.T) {
			dir := serverDir(filepath.Join(t.TempDir(), "d1"))
			if obstacle == "" {
				require.NoError(t, os.WriteFile(string(dir), nil, 0o600))
			} else {
				require.NoError(t, os.MkdirAll(dir.in(obstacle), 0o700))
			}
			err := dir.prepare(spec("d1"), Options{Image: "/i", Gateway: netip.MustParseAddr("198.18.0.1")})
			require.Error(t, err)
			require.NoFileExists(t, dir.complete())
		})
	}
	b := newBench(t, standIn)
	b.opts.Gateway = netip.Addr{}
	require.EqualError(t, b.Create(t.Context(), spec("d1")), "describing the network of d1: it needs an address and a gateway")
	require.ErrorIs(t, b.Adopt(t.Context(), spec("d1"), true), server.ErrNotFound)
}

func TestSeedNeedsAddresses(t *testing.T) {
	gateway := netip.MustParseAddr("198.18.0.1")
	_, err := seed(server.Spec{Name: "d1"}, gateway)
	require.EqualError(t, err, "describing the network of d1: it needs an address and a gateway")
	_, err = seed(spec("d1"), netip.Addr{})
	require.EqualError(t, err, "describing the network of d1: it needs an address and a gateway")
	files, err := seed(server.Spec{Name: "d1", Offline: true}, netip.Addr{})
	require.NoError(t, err)
	require.Equal(t, "ethernets:\n  host0:\n    dhcp4: false\nversion: 2\n", files["network-config"])
	require.Equal(t, "#cloud-config\n{}\n", files["user-data"], "a server without user data has some that says nothing")
	require.Equal(t, "#cloud-config\n{}\n", files["vendor-data"])
}

func TestVendorDataAddsOnlyAnotherLogin(t *testing.T) {
	for user, want := range map[string]string{
		"":     "#cloud-config\n{}\n",
		"root": "#cloud-config\n{}\n",
		"ops": `#cloud-config
users:
- default
- lock_passwd: true
  name: ops
  shell: /bin/bash
  ssh_authorized_keys:
  - ssh-ed25519 AAAA
  sudo: ALL=(ALL) NOPASSWD:ALL
`,
	} {
		s := spec("d1")
		s.User, s.Keys = user, []string{"ssh-ed25519 AAAA"}
		files, err := seed(s, netip.MustParseAddr("198.18.0.1"))
		require.NoError(t, err)
		require.Equal(t, want, files["vendor-data"], user)
		require.Contains(t, files["meta-data"], "ssh-ed25519 AAAA", "root may log in, too")
	}
}

// Whatever a host name or key holds, cloud-init reads it back as one value; user data goes through as it is.
func TestSeedIsReadBack(t *testing.T) {
	check := func(hostname, key, userData string) {
		if !utf8.ValidString(hostname) || !utf8.ValidString(key) {
			return
		}
		s := spec("d1")
		s.Hostname, s.Keys, s.UserData = hostname, []string{key}, userData
		files, err := seed(s, netip.MustParseAddr("198.18.0.1"))
		if err != nil { // a control character: told, not written some other way
			require.ErrorContains(t, err, "encoding meta-data of d1: yaml: ")
			require.Nil(t, files)
			return
		}
		var meta struct {
			InstanceID string   `json:"instance-id"`
			Hostname   string   `json:"local-hostname"`
			Keys       []string `json:"public-keys"`
		}
		require.NoError(t, yaml.UnmarshalStrict([]byte(files["meta-data"]), &meta))
		require.Equal(t, "d1", meta.InstanceID)
		require.Equal(t, asJSON(t, hostname), asJSON(t, meta.Hostname))
		require.Equal(t, asJSON(t, s.Keys), asJSON(t, meta.Keys))
		if userData != "" {
			require.Equal(t, userData, files["user-data"])
		}
	}
	check("web-1", "ssh-ed25519 AAAA me@host", "#cloud-config\n{}\n")
	check("a: b", "key\n- injected: true", "\x00\xff")
	check("#", "'\"{{ds.meta_data}}", "## template: jinja\n")
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return string(text)
}
