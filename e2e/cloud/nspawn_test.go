package cloud_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/server"
)

// realOptions skips the test where real servers cannot run.
func realOptions(t *testing.T) cloud.Options {
	t.Helper()
	if os.Getenv("DROVER_E2E") != "1" {
		t.Skip("real servers are started only with DROVER_E2E=1")
	}
	if os.Geteuid() != 0 {
		t.Skip("real servers need root")
	}
	rootfs := os.Getenv("DROVER_ROOTFS_DIR")
	if rootfs == "" {
		rootfs = filepath.Join("..", "..", ".drover", "rootfs")
	}
	return cloud.Options{
		Backend: cloud.BackendNspawn, StateDir: t.TempDir(), RootFSDir: rootfs, Progress: t.Output(),
	}
}

// login is a key pair that logs in to servers.
type login struct {
	signer ssh.Signer
	public string
}

func newLogin(t *testing.T) login {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	signer, err := ssh.NewSignerFromKey(private)
	require.NoError(t, err)
	return login{signer, string(ssh.MarshalAuthorizedKey(signer.PublicKey()))}
}

// run logs in as soon as the server lets it and returns the command's output
// and the server's host key.
func (l login) run(t *testing.T, user, address, command string) (output, hostKey string) {
	t.Helper()
	require.Eventually(t, func() bool {
		var err error
		output, hostKey, err = l.try(user, address, command)
		var failed *ssh.ExitError
		if errors.As(err, &failed) {
			t.Errorf("running %s: %s: %s", command, err, output)
		}
		return err == nil || failed != nil
	}, 2*time.Minute, 100*time.Millisecond)
	return output, hostKey
}

// try logs in once.
func (l login) try(user, address, command string) (output, hostKey string, err error) {
	config := &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(l.signer)}, Timeout: 2 * time.Second,
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			hostKey = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
			return nil
		},
	}
	client, err := ssh.Dial("tcp", net.JoinHostPort(address, "22"), config)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = client.Close() }()
	session, err := client.NewSession()
	if err != nil {
		return "", "", err
	}
	combined, err := session.CombinedOutput(command)
	return strings.TrimSpace(string(combined)), hostKey, err
}

const userData = `#cloud-config
write_files:
- {path: /root/secret, content: "from user data", permissions: "0600"}
runcmd:
- echo ran >> /root/count
- hostname > /root/hostname
`

func TestRealDroplets(t *testing.T) {
	c, client := start(t, realOptions(t))
	ctx, key := t.Context(), newLogin(t)
	registered, _, err := client.Keys.Create(ctx, &godo.KeyCreateRequest{Name: "k", PublicKey: key.public})
	require.NoError(t, err)
	begun := time.Now()
	var addresses []string
	var ids []int
	for _, name := range []string{"web-1", "web-2"} {
		ask := request(name)
		ask.SSHKeys = []godo.DropletCreateSSHKey{{ID: registered.ID}}
		ask.UserData, ask.PrivateNetworking, ask.IPv6, ask.Tags = userData, true, true, []string{"web"}
		created, _, err := client.Droplets.Create(ctx, ask)
		require.NoError(t, err)
		address, err := active(t, client, created.ID).PublicIPv4()
		require.NoError(t, err)
		addresses, ids = append(addresses, address), append(ids, created.ID)
	}

	t.Log("cloud-init applies the user data, once")
	_, firstKey := key.run(t, "root", addresses[0], "true")
	t.Logf("login after %s", time.Since(begun))
	output, secondKey := key.run(t, "root", addresses[1], "cloud-init status --wait >/dev/null; cat /root/secret /root/count /root/hostname")
	t.Logf("cloud-init done after %s", time.Since(begun))
	require.Equal(t, "from user dataran\nweb-2", output)

	t.Log("servers have identities and addresses of their own, and reach each other")
	require.NotEqual(t, firstKey, secondKey)
	machineID := func(address string) string { id, _ := key.run(t, "root", address, "cat /etc/machine-id"); return id }
	require.NotEqual(t, machineID(addresses[0]), machineID(addresses[1]))
	droplet, _, err := client.Droplets.Get(ctx, ids[1])
	require.NoError(t, err)
	private, err := droplet.PrivateIPv4()
	require.NoError(t, err)
	own, _ := key.run(t, "root", addresses[1], "ip -br address show dev host0")
	require.Contains(t, own, private+"/16")
	v6, err := droplet.PublicIPv6()
	require.NoError(t, err)
	require.Contains(t, own, v6)
	key.run(t, "root", addresses[0], "ping -c 1 -W 5 "+private)

	t.Log("a server starts itself again")
	_, _, _ = key.try("root", addresses[0], "touch /run/before; reboot")
	require.Eventually(t, func() bool {
		output, again, err := key.try("root", addresses[0], "test ! -e /run/before && cat /root/count")
		return err == nil && output == "ran" && again == firstKey
	}, 2*time.Minute, 200*time.Millisecond, "user data runs once, not at each boot")

	t.Log("and comes back after a loss of power")
	_, _, _ = key.try("root", addresses[1], "touch /run/before")
	require.NoError(t, c.PowerCycle(ctx, "web-2"))
	require.Eventually(t, func() bool {
		output, again, err := key.try("root", addresses[1], "test ! -e /run/before && cat /root/count")
		return err == nil && output == "ran" && again == secondKey
	}, 2*time.Minute, 200*time.Millisecond)
	require.ErrorIs(t, c.PowerCycle(ctx, "web-3"), server.ErrNotFound)

	for _, id := range ids {
		_, err = client.Droplets.Delete(ctx, id)
		require.NoError(t, err)
	}
	_, err = client.Keys.DeleteByID(ctx, registered.ID)
	require.NoError(t, err)
	c.AssertNothingLeft(t)
}

func TestRealServerForTheGenericDriver(t *testing.T) {
	c, _ := start(t, realOptions(t))
	key := newLogin(t)
	info, err := c.StartServer(t.Context(), server.Request{Name: "plain", User: "ops", Keys: []string{key.public}})
	require.NoError(t, err)
	output, _ := key.run(t, "ops", info.Address.String(), "sudo id -un; hostname")
	require.Equal(t, "root\nplain", output)
	require.NoError(t, c.StopServer(t.Context(), "plain"))
	c.AssertNothingLeft(t)
}

func TestRealBootFaults(t *testing.T) {
	c, client := start(t, realOptions(t))
	key := newLogin(t)
	registered, _, err := client.Keys.Create(t.Context(), &godo.KeyCreateRequest{Name: "k", PublicKey: key.public})
	require.NoError(t, err)
	for name, effect := range map[string]fault.Effect{
		"offline": fault.Offline, "lost": fault.AnswerLost, "vanish": {Boot: &fault.Boot{VanishAfter: time.Second}},
	} {
		_, err := c.Faults.Add(fault.Rule{Match: fault.CreateDroplet, Name: name, Effect: effect})
		require.NoError(t, err)
	}
	create := func(name string) (*godo.Droplet, error) {
		ask := request(name)
		ask.SSHKeys = []godo.DropletCreateSSHKey{{ID: registered.ID}}
		created, _, err := client.Droplets.Create(t.Context(), ask)
		return created, err
	}
	_, err = create("lost")
	require.Error(t, err)
	found, _, err := client.Droplets.ListByName(t.Context(), "lost", nil)
	require.NoError(t, err)
	require.Len(t, found, 1, "it was created all the same")
	address, err := active(t, client, found[0].ID).PublicIPv4()
	require.NoError(t, err)

	vanishing, err := create("vanish")
	require.NoError(t, err)
	offline, err := create("offline")
	require.NoError(t, err)
	key.run(t, "root", address, "true")
	unreachable, err := active(t, client, offline.ID).PublicIPv4()
	require.NoError(t, err)
	_, err = net.DialTimeout("tcp", net.JoinHostPort(unreachable, "22"), time.Second)
	require.Error(t, err)
	require.Eventually(t, func() bool {
		_, response, err := client.Droplets.Get(t.Context(), vanishing.ID)
		return err != nil && response.StatusCode == http.StatusNotFound
	}, time.Minute, 50*time.Millisecond)
	require.Len(t, c.Ledger.Live("droplet"), 2)
}
