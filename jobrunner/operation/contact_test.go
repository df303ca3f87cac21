package operation

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/sshkeys/sshtest"
	"github.com/drover-project/drover/state"
)

// meeting is a session with a server that is an SSH server of this process.
func meeting(t *testing.T, driver string) (*session, *sshtest.Server) {
	t.Helper()
	pair, err := sshkeys.Generate("pool-1")
	require.NoError(t, err)
	home := t.TempDir()
	ssh := sshtest.Start(t, sshtest.Options{AuthorizedKey: pair.Public, Dir: home, Env: []string{"PATH=" + home + ":" + os.Getenv("PATH"), "HOME=" + home}})
	s, _ := underWay(t, driver)
	s.privateKey, s.publicKey = pair.Private, pair.Public
	s.server = &state.Server{SSHHost: ssh.Host, SSHPort: ssh.Port, SSHUser: "root"}
	s.request.SSHTimeoutSeconds = 1
	s.options.MarkerRoot, s.options.HostsFile = filepath.Join(home, "markers"), filepath.Join(home, "hosts")
	for name, body := range map[string]string{
		"hostname": "exit 0", "hostnamectl": "exit 0", "id": "echo 0", "sudo": `echo "$*" >>` + home + `/sudo.log; shift; exec "$@"`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(home, name), []byte("#!/bin/sh\n"+body+"\n"), 0o700))
	}
	return s, ssh
}

// comingUp is a server that is about to start: its first connections are broken.
func comingUp(t *testing.T, behind *sshtest.Server, broken int32) (port int, asked *atomic.Int32) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	asked = &atomic.Int32{}
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			if asked.Add(1) <= broken {
				_ = in.Close()
				continue
			}
			out, err := net.Dial("tcp", net.JoinHostPort(behind.Host, strconv.Itoa(behind.Port)))
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
			go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
		}
	}()
	address, ok := listener.Addr().(*net.TCPAddr)
	require.True(t, ok)
	return address.Port, asked
}

func TestMeetServer_learns_the_key(t *testing.T) {
	s, ssh := meeting(t, "digitalocean")
	require.NoError(t, s.meetServer(t.Context()))
	require.Equal(t, string(sshkeys.KnownHostsLine(ssh.Host, ssh.Port, ssh.HostKey())), string(s.knownHosts))
	require.Empty(t, s.result.Notes)
	require.Empty(t, ssh.Commands(), "nothing is run there")
}

// TestMeetServer_notes: a server that cannot be met may still be a good one.
func TestMeetServer_notes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *session)
		note   string
	}{
		"no key":             {func(s *session) { s.privateKey = nil }, "no host key is recorded: there is no address or no SSH key to log in with"},
		"no address":         {func(s *session) { s.server.SSHHost = "" }, "no host key is recorded: there is no address or no SSH key to log in with"},
		"nobody there":       {func(s *session) { s.server.SSHPort = 1 }, "no host key is recorded: the server did not let us log in within 1s: "},
		"another's key":      {func(s *session) { s.privateKey = other(t).Private }, "no host key is recorded: the server did not let us log in within 1s: "},
		"a key that is none": {func(s *session) { s.privateKey = []byte("MARKER") }, "no host key is recorded: "},
		"known already":      {func(s *session) { s.knownHosts = []byte("x") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := meeting(t, "digitalocean")
			c.change(s)
			before := time.Now()
			require.NoError(t, s.meetServer(t.Context()))
			require.Less(t, time.Since(before), 20*time.Second)
			if c.note == "" {
				require.Empty(t, s.result.Notes)
				require.Equal(t, "x", string(s.knownHosts))
				return
			}
			require.Len(t, s.result.Notes, 1)
			require.Contains(t, s.result.Notes[0], c.note)
			require.NotContains(t, s.result.Notes[0], "MARKER")
			require.Empty(t, s.knownHosts, "nothing is believed that nobody logged in to")
		})
	}
	s, _ := meeting(t, "none")
	require.NoError(t, s.meetServer(t.Context()))
	require.Empty(t, s.result.Notes, "this driver makes no server")
}

func other(t *testing.T) sshkeys.KeyPair {
	t.Helper()
	pair, err := sshkeys.Generate("other")
	require.NoError(t, err)
	return pair
}

// TestConnect_waits for a server that is starting, and learns nothing from the times when it broke off.
func TestConnect_waits(t *testing.T) {
	s, ssh := meeting(t, "digitalocean")
	port, asked := comingUp(t, ssh, 2)
	s.server.SSHHost, s.server.SSHPort, s.request.SSHTimeoutSeconds = "127.0.0.1", port, 60
	require.NoError(t, s.meetServer(t.Context()))
	require.Equal(t, int32(3), asked.Load())
	require.Equal(t, string(sshkeys.KnownHostsLine("127.0.0.1", port, ssh.HostKey())), string(s.knownHosts))
}

// TestConnect_gives_up_at_once when waiting cannot help, and when the pod ends.
func TestConnect_gives_up_at_once(t *testing.T) {
	s, ssh := meeting(t, "digitalocean")
	s.request.SSHTimeoutSeconds = 300
	line := append([]byte("["+ssh.Host+"]:"+strconv.Itoa(ssh.Port)+" "), other(t).Public...)
	s.knownHosts = line
	_, err := s.connect(t.Context())
	require.ErrorIs(t, err, sshkeys.ErrHostKeyChanged)
	require.Equal(t, line, s.knownHosts, "what was recorded stays")

	s, _ = meeting(t, "digitalocean")
	s.server.SSHPort, s.request.SSHTimeoutSeconds = 1, 300
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCancelled)
	require.ErrorIs(t, s.meetServer(ctx), errCancelled)
	s.bootstrap = []byte("#!/bin/sh\n")
	require.ErrorIs(t, s.bootstrapServer(ctx), errCancelled)
	require.NotEqual(t, state.PhaseBootstrapped, s.journal.Phase)
}

// TestBootstrapServer_by_itself: when there is something to run, who runs it, and what is said when nobody can.
func TestBootstrapServer_by_itself(t *testing.T) {
	zipped := &bytes.Buffer{}
	writer := gzip.NewWriter(zipped)
	_, err := writer.Write([]byte("#!/bin/sh\necho hello\n"))
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	for name, c := range map[string]struct {
		change        func(s *session)
		reason, class string
		message       string
		ran           bool
	}{
		"a script":                {ran: true},
		"a script that is zipped": {change: func(s *session) { s.bootstrap = zipped.Bytes() }, ran: true},
		"no script":               {change: func(s *session) { s.bootstrap = nil }},
		"it was done before":      {change: func(s *session) { s.advance(state.PhaseBootstrapped) }},
		"user data had it":        {change: func(s *session) { s.way = clouds.UserData{Habit: clouds.Inline, Flag: "generic-userdata"} }},
		"cloud-config": {change: func(s *session) { s.bootstrap = []byte("#cloud-config\n{}\n") }, reason: "BootstrapFormatUnsupported", class: rkev1.ClassInvalid,
			message: "driver generic takes no user data, so the bootstrap data must be a shell script that begins with #!, but it is "},
		"broken zip": {change: func(s *session) { s.bootstrap = zipped.Bytes()[:20] }, reason: "UserDataInvalid", class: rkev1.ClassInvalid},
		"no key": {change: func(s *session) { s.privateKey = nil }, reason: "SSHKeyMissing", class: rkev1.ClassInvalid,
			message: "driver generic takes no user data, and without an SSH key the bootstrap data cannot be brought to the server"},
		"nobody there": {change: func(s *session) { s.server.SSHPort = 1 }, reason: "SSHUnreachable", class: rkev1.ClassTransient,
			message: "the server did not let us log in within 1s: "},
		"it fails": {change: func(s *session) { s.bootstrap = []byte("#!/bin/sh\nexit 3\n") }, reason: "BootstrapFailed", class: rkev1.ClassInvalid,
			message: "the bootstrap script ended with exit code 3 and is not run a second time: the log shows its output"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, ssh := meeting(t, "generic")
			s.bootstrap = []byte("#!/bin/sh\necho hello\n")
			if c.change != nil {
				c.change(s)
			}
			err := s.bootstrapServer(t.Context())
			require.Equal(t, c.ran, strings.Contains(string(s.log.ring.bytes()), " hello\n"))
			if c.reason == "" {
				require.NoError(t, err)
				require.Equal(t, state.PhaseBootstrapped, s.journal.Phase)
				require.Equal(t, c.ran, len(ssh.Commands()) > 0)
				return
			}
			f, ok := errors.AsType[*failure](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, []string{c.reason, c.class}, []string{f.reason, f.class})
			require.Contains(t, f.Error(), c.message)
			require.NotEqual(t, state.PhaseBootstrapped, s.journal.Phase)
		})
	}
	s, _ := meeting(t, "none")
	s.bootstrap = []byte("#!/bin/sh\n")
	require.NoError(t, s.bootstrapServer(t.Context()))
	require.Equal(t, []string{"driver none makes no server, so the bootstrap data is not applied"}, s.result.Notes)
}

// TestBootstrapServer_as_another_user goes through sudo, which must not ask for a password.
func TestBootstrapServer_as_another_user(t *testing.T) {
	s, ssh := meeting(t, "generic")
	s.server.SSHUser = "it's me"
	s.bootstrap = []byte("#!/bin/sh\necho hello\n")
	require.NoError(t, s.bootstrapServer(t.Context()))
	require.Contains(t, string(s.log.ring.bytes()), " hello\n")
	home := filepath.Dir(s.options.HostsFile)
	asked, err := os.ReadFile(filepath.Join(home, "sudo.log"))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(asked), "-n true\n-n sh -s -- "), string(asked))
	require.Len(t, ssh.Commands(), 2, "the claim and the script")

	s, _ = meeting(t, "generic")
	s.server.SSHUser, s.bootstrap = "core", []byte("#!/bin/sh\n")
	home = filepath.Dir(s.options.HostsFile)
	require.NoError(t, os.WriteFile(filepath.Join(home, "sudo"), []byte("#!/bin/sh\nexit 1\n"), 0o700))
	require.ErrorContains(t, s.bootstrapServer(t.Context()), "the SSH user may not become root on the server")
}

// A host that was there before and does not know the key never will: that is told at once, with whom it refused.
func TestBootstrapServer_refused(t *testing.T) {
	s, _ := meeting(t, "generic")
	other, err := sshkeys.Generate("other")
	require.NoError(t, err)
	s.privateKey, s.publicKey, s.request.SSHTimeoutSeconds = other.Private, other.Public, 600
	s.bootstrap = []byte("#!/bin/sh\n")
	var f *failure
	require.ErrorAs(t, s.bootstrapServer(t.Context()), &f)
	require.Equal(t, []string{"SSHUnauthorized", rkev1.ClassUnauthorized}, []string{f.reason, f.class})
	require.ErrorContains(t, f, "user root")
	require.ErrorContains(t, f, "the key SHA256:")
}
