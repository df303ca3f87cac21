package sshkeys_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/sshkeys/sshtest"
)

// TestJumpHost: a server is reached over a real sshd that knows the machine's key, its own host key is verified all the same, and what is
// wrong with the jump host is said of that.
func TestJumpHost(t *testing.T) {
	keys, err := sshkeys.Generate("web-1")
	require.NoError(t, err)
	other, err := sshkeys.Generate("other")
	require.NoError(t, err)
	server := sshtest.Start(t, sshtest.Options{AuthorizedKey: keys.Public})
	bastion := sshtest.StartOpenSSH(t, keys.Public)
	host := fmt.Sprintf("%s@%s:%d", bastion.User, bastion.Host, bastion.Port)
	access := sshkeys.Access{User: "root", Host: server.Host, Port: server.Port, PrivateKey: keys.Private,
		KnownHosts: sshkeys.KnownHostsLine(server.Host, server.Port, server.HostKey)}
	dial := func(host string, access sshkeys.Access) (*sshkeys.Client, error) {
		return sshkeys.Dial(t.Context(), access, sshkeys.Options{Timeout: 20 * time.Second, Dialer: sshkeys.JumpHost{Host: host, Access: access}})
	}

	client, err := dial(host, access)
	require.NoError(t, err)
	var out bytes.Buffer
	_, err = client.Run(t.Context(), sshkeys.Command{Line: "echo through", Stdout: &out})
	require.NoError(t, err)
	require.Equal(t, "through\n", out.String())
	require.NoError(t, client.Close())

	wrong := access
	wrong.KnownHosts = sshkeys.KnownHostsLine(server.Host, server.Port, bastion.HostKey)
	_, err = dial(host, wrong)
	require.ErrorIs(t, err, sshkeys.ErrHostKeyChanged)

	stranger := access
	stranger.PrivateKey = other.Private
	_, err = dial(host, stranger)
	require.ErrorContains(t, err, "the jump host: logging in to")

	closed := access
	closed.Port = 1
	_, err = dial(host, closed)
	require.ErrorContains(t, err, "does not reach 127.0.0.1:1")

	_, err = dial("127.0.0.1:1", access)
	require.ErrorContains(t, err, "the jump host: connecting to 127.0.0.1:1")
	_, err = dial("-oProxyCommand=x", access)
	require.ErrorContains(t, err, "is not [user@]host[:port]")
}
