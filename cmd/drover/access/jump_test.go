package access_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/access"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/sshkeys/sshtest"
)

// TestJump: the server is reached over a real jump host by the user's own ssh, which alone knows that host; the server's key is
// verified all the same.
func TestJump(t *testing.T) {
	theirs, err := exec.LookPath("ssh")
	if err != nil {
		t.Skip("no OpenSSH client here")
	}
	w := newWorld(t, nil)
	mine, err := sshkeys.Generate("mine")
	require.NoError(t, err)
	bastion := sshtest.StartOpenSSH(t, mine.Public)
	dir := t.TempDir()
	for name, content := range map[string]string{
		"key":    string(mine.Private),
		"known":  string(sshkeys.KnownHostsLine("127.0.0.1", bastion.Port, bastion.HostKey)),
		"config": fmt.Sprintf("Host bastion\n HostName 127.0.0.1\n Port %d\n IdentityFile %s/key\n UserKnownHostsFile %[2]s/known\n BatchMode yes\n", bastion.Port, dir),
		"ssh":    fmt.Sprintf("#!/bin/sh\nexec %s -F %s/config \"$@\"\n", theirs, dir),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o700))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))

	var said bytes.Buffer
	w.login.ErrOut = &said
	m := machine("uid-1")
	m.Spec.Common.SSHContact.JumpHost = bastion.User + "@bastion"
	client, err := access.Dial(t.Context(), w.api, m, w.login)
	require.NoError(t, err, said.String())
	require.Contains(t, w.told()[0], "is reached over "+m.Spec.Common.SSHContact.JumpHost+", as its spec.common.sshContact.jumpHost says")
	var out bytes.Buffer
	status, err := client.Run(t.Context(), sshkeys.Command{Line: "echo through", Stdout: &out})
	require.NoError(t, err)
	require.Zero(t, status)
	require.Equal(t, "through\n", out.String())
	require.NoError(t, client.Close())

	for given, want := range map[string]string{"": "ProxyJump " + bastion.User + "@bastion\n", "another:23": "ProxyJump another:23\n", "none": ""} {
		w.login.Jump = given
		data, err := access.Read(t.Context(), w.api, m, w.login)
		require.NoError(t, err)
		files, err := access.NewKeyFiles(dir, m, data)
		require.NoError(t, err)
		require.Contains(t, string(files.Files[0].Content), want)
		require.Equal(t, want != "", bytes.Contains(files.Files[0].Content, []byte("ProxyJump")), given)
	}

	w.login.Jump = "nobody@unknown.invalid"
	_, err = access.Dial(t.Context(), w.api, m, w.login)
	require.ErrorContains(t, err, "see above what the ssh to the jump host nobody@unknown.invalid says")
	require.Contains(t, said.String(), "unknown.invalid")
}

// TestRead_asTheMachineSays: its user and port go before the driver's, and flags before both.
func TestRead_asTheMachineSays(t *testing.T) {
	w := newWorld(t, nil)
	m := machine("uid-1")
	m.Spec.Common.SSHContact = rkev1.SSHContact{User: "core", Port: 2222}
	data, err := access.Read(t.Context(), w.api, m, w.login)
	require.NoError(t, err)
	require.Equal(t, []any{"core", 2222}, []any{data.User, data.Port})
	w.login.User, w.login.Port = "me", 23
	data, err = access.Read(t.Context(), w.api, m, w.login)
	require.NoError(t, err)
	require.Equal(t, []any{"me", 23}, []any{data.User, data.Port})
	m.Spec.Common.SSHContact.JumpHost = "-oProxyCommand=x"
	_, err = access.Read(t.Context(), w.api, m, w.login)
	require.ErrorContains(t, err, "is not [USER@]HOST[:PORT]")
}

// TestJumpHosts: what is given to ssh can mean nothing else there.
func TestJumpHosts(t *testing.T) {
	for _, good := range []string{"bastion", "me@bastion.example:2222", "a,b@c:22,[2001:db8::1]:22"} {
		require.NoError(t, access.Jump{Hosts: good}.Check(), good)
	}
	for _, bad := range []string{"", "-oProxyCommand=x", "a,-b", "a b", "a,", "$(x)", "me@", "host:port", "a;b", "a%h"} {
		require.Error(t, access.Jump{Hosts: bad}.Check(), bad)
	}
}
