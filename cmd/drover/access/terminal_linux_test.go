package access_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/drover-project/drover/cmd/drover/access"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/sshkeys/sshtest"
)

// dial logs in to a fresh SSH server.
func dial(t *testing.T, options sshkeys.Options) (*sshkeys.Client, *sshtest.Server) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	block, err := ssh.MarshalPrivateKey(key, "")
	require.NoError(t, err)
	server := sshtest.Start(t, sshtest.Options{})
	client, err := sshkeys.Dial(t.Context(), sshkeys.Access{
		Host: server.Host, Port: server.Port, User: "root", PrivateKey: pem.EncodeToMemory(block),
		KnownHosts: sshkeys.KnownHostsLine(server.Host, server.Port, server.HostKey),
	}, options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client, server
}

// TestTerminal runs a shell from a real terminal: raw mode, its size, a change of its size, and its state afterwards.
func TestTerminal(t *testing.T) {
	user, terminal := openTerminal(t)
	resize(t, terminal, 100, 30)
	client, server := dial(t, sshkeys.Options{})
	before := echoes(t, terminal)
	require.True(t, before)
	session := access.Session{Streams: genericiooptions.IOStreams{In: terminal, Out: terminal, ErrOut: terminal}, Term: "xterm"}
	ended := make(chan int)
	go func() {
		status, err := session.Run(t.Context(), client)
		if err != nil {
			status = -1
		}
		ended <- status
	}()
	output := watchOutput(user)
	_, err := io.WriteString(user, "echo shell-$((1+1))-up\n")
	require.NoError(t, err)
	output.await(t, "shell-2-up")
	require.False(t, echoes(t, terminal), "raw mode: the remote side echoes")
	require.Contains(t, server.Sizes(), "100x30")

	resize(t, terminal, 120, 40)
	signalResize(t)
	require.Eventually(t, func() bool { return len(server.Sizes()) > 1 }, time.Minute, 10*time.Millisecond)
	require.Equal(t, "120x40", server.Sizes()[1])
	_, err = io.WriteString(user, "exit 3\n")
	require.NoError(t, err)
	require.Equal(t, 3, <-ended)
	require.True(t, echoes(t, terminal), "the terminal is as it was before")
}

// output is what a terminal shows.
type output struct{ chunks chan string }

func watchOutput(user *os.File) *output {
	o := &output{chunks: make(chan string, 1000)}
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := user.Read(buffer)
			if err != nil {
				close(o.chunks)
				return
			}
			o.chunks <- string(buffer[:n])
		}
	}()
	return o
}

func (o *output) await(t *testing.T, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var seen strings.Builder
	for {
		select {
		case chunk, open := <-o.chunks:
			seen.WriteString(chunk)
			if strings.Contains(seen.String(), text) {
				return
			}
			require.True(t, open, "terminal closed; seen: %q", seen.String())
		case <-ctx.Done():
			t.Fatalf("never saw %q; seen: %q", text, seen.String())
		}
	}
}

func TestProgressCounts(t *testing.T) {
	progress := &access.Progress{}
	var shown bytes.Buffer
	stop := progress.Show(&shown)
	w := newWorld(t, nil)
	w.login.Progress = progress
	client, err := access.Dial(t.Context(), w.api, machine("uid-1"), w.login)
	require.NoError(t, err)
	require.NoError(t, client.WriteFile(t.Context(), t.TempDir()+"/f", make([]byte, 1<<20), 0o600))
	stop()
	require.Regexp(t, `1\.\d MiB .*MiB/s`, shown.String())
}
