package access_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

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
	w.login.Jump = bastion.User + "@bastion"
	w.login.Dialer = access.Jump{Hosts: w.login.Jump, ErrOut: &said}
	client, err := access.Dial(t.Context(), w.api, machine("uid-1"), w.login)
	require.NoError(t, err, said.String())
	var out bytes.Buffer
	status, err := client.Run(t.Context(), sshkeys.Command{Line: "echo through", Stdout: &out})
	require.NoError(t, err)
	require.Zero(t, status)
	require.Equal(t, "through\n", out.String())
	require.NoError(t, client.Close())

	data, err := access.Read(t.Context(), w.api, machine("uid-1"), w.login)
	require.NoError(t, err)
	files, err := access.NewKeyFiles(dir, machine("uid-1"), data)
	require.NoError(t, err)
	require.Contains(t, string(files.Files[0].Content), "ProxyJump "+w.login.Jump+"\n")

	w.login.Dialer = access.Jump{Hosts: "nobody@unknown.invalid", ErrOut: &said}
	_, err = access.Dial(t.Context(), w.api, machine("uid-1"), w.login)
	require.ErrorContains(t, err, "see above what the ssh to the jump host")
	require.Contains(t, said.String(), "unknown.invalid")
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
