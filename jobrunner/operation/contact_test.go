package operation

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation/statesecret"
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

// meet does what a create does when its server runs: it says what is known, saves, and logs in.
func (s *session) meet(ctx context.Context, t *testing.T) {
	t.Helper()
	require.NoError(t, s.planContact(ctx))
	s.conclude(nil)
	require.Equal(t, ExitSucceeded, s.finish(ctx))
	if !s.result.ContactUntil.IsZero() {
		s.contactServer(ctx)
	}
}

// TestContactServer: a server that cannot be met is a good one all the same; what was learned is saved, once, and nothing else is.
func TestContactServer(t *testing.T) {
	const saved = 1
	for name, c := range map[string]struct {
		driver string
		change func(t *testing.T, s *session)
		note   string
		known  bool
		writes int
	}{
		"learns the key":     {known: true, writes: saved + 1},
		"no key":             {change: func(_ *testing.T, s *session) { s.privateKey = nil }, note: "no host key is recorded: an address or an SSH key for the login is missing", writes: saved},
		"no address":         {change: func(_ *testing.T, s *session) { s.server.SSHHost = "" }, note: "no host key is recorded: an address or an SSH key for the login is missing", writes: saved},
		"nobody there":       {change: func(_ *testing.T, s *session) { s.server.SSHPort = 1 }, note: "no host key is recorded: the login to the server did not succeed within 1s: ", writes: saved + 1},
		"another's key":      {change: func(t *testing.T, s *session) { s.privateKey = other(t).Private }, note: "no host key is recorded: the login to the server did not succeed within 1s: ", writes: saved + 1},
		"a key that is none": {change: func(_ *testing.T, s *session) { s.privateKey = []byte("MARKER") }, note: "no host key is recorded: ", writes: saved + 1},
		"off":                {change: func(_ *testing.T, s *session) { s.request.SSHContact.Mode = rkev1.SSHContactOff }, writes: saved},
		"known already":      {change: func(_ *testing.T, s *session) { s.knownHosts = []byte("x") }, writes: saved},
		"makes no server":    {driver: "none", writes: saved},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, ssh := meeting(t, cmp.Or(c.driver, "digitalocean"))
			if c.change != nil {
				c.change(t, s)
			}
			s.meet(t.Context(), t)
			require.Equal(t, c.writes, s.state.Writes)
			require.Empty(t, ssh.Commands(), "nothing is run there")
			left := state.Of(s.state.Data)
			require.Equal(t, state.Succeeded, left.Result.Value.Outcome)
			require.Zero(t, left.Result.Value.ContactUntil)
			require.Equal(t, c.known, string(left.KnownHosts) == string(sshkeys.KnownHostsLine(ssh.Host, ssh.Port, ssh.HostKey)), "nothing is believed that nobody logged in to")
			if c.note == "" {
				require.Empty(t, left.Result.Value.Notes)
				return
			}
			require.Len(t, left.Result.Value.Notes, 1)
			require.Contains(t, left.Result.Value.Notes[0], c.note)
			require.NotContains(t, left.Result.Value.Notes[0], "MARKER")
		})
	}
}

// TestContactServer_leaves_the_state that somebody else has written since: another Job's, and a host key that was accepted by hand.
func TestContactServer_leaves_the_state(t *testing.T) {
	s, _ := meeting(t, "digitalocean")
	require.NoError(t, s.planContact(t.Context()))
	s.conclude(nil)
	require.Equal(t, ExitSucceeded, s.finish(t.Context()))
	theirs := map[string][]byte{state.SSHKnownHostsKey: []byte("accepted"), state.ResultKey: s.state.Data[state.ResultKey]}
	s.state.Client = otherState{Secrets: s.state.Client, data: theirs}
	s.result.Notes = []string{"new"}
	s.contactServer(t.Context())
	require.Equal(t, "accepted", string(s.state.Data[state.SSHKnownHostsKey]))

	s, _ = meeting(t, "digitalocean")
	require.NoError(t, s.planContact(t.Context()))
	s.conclude(nil)
	require.Equal(t, ExitSucceeded, s.finish(t.Context()))
	s.state.Client = otherState{Secrets: s.state.Client, data: map[string][]byte{state.ResultKey: []byte("a removal's")}}
	s.contactServer(t.Context())
	require.Equal(t, 1, s.state.Writes)
	require.Contains(t, string(s.log.ring.bytes()), "the state belongs to another attempt")
}

// otherState is a state Secret that somebody has changed.
type otherState struct {
	statesecret.Secrets
	data map[string][]byte
}

func (o otherState) Get(context.Context, string, metav1.GetOptions) (*corev1.Secret, error) {
	return &corev1.Secret{Data: o.data}, nil
}

// TestContactServer_as_the_machine_says: user, port and jump host of its own, over a real sshd.
func TestContactServer_as_the_machine_says(t *testing.T) {
	s, ssh := meeting(t, "digitalocean")
	bastion := sshtest.StartOpenSSH(t, s.publicKey)
	s.request.SSHContact = rkev1.SSHContact{TimeoutSeconds: 20, JumpHost: fmt.Sprintf("%s@%s:%d", bastion.User, bastion.Host, bastion.Port)}
	s.meet(t.Context(), t)
	require.Equal(t, string(sshkeys.KnownHostsLine(ssh.Host, ssh.Port, ssh.HostKey)), string(s.state.Data[state.SSHKnownHostsKey]))
	require.Contains(t, string(s.log.ring.bytes()), "over "+s.request.SSHContact.JumpHost)

	s, _ = meeting(t, "digitalocean")
	s.request.SSHContact = rkev1.SSHContact{TimeoutSeconds: 300, JumpHost: fmt.Sprintf("%s@%s:%d", bastion.User, bastion.Host, bastion.Port)}
	s.meet(t.Context(), t)
	require.Contains(t, state.Of(s.state.Data).Result.Value.Notes[0], "the jump host rejects the machine's SSH key SHA256:")
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
	s.meet(t.Context(), t)
	require.Equal(t, int32(3), asked.Load())
	require.Equal(t, string(sshkeys.KnownHostsLine("127.0.0.1", port, ssh.HostKey)), string(s.knownHosts))
}

// TestConnect_gives_up_at_once when waiting cannot help, and when the pod ends.
func TestConnect_gives_up_at_once(t *testing.T) {
	s, ssh := meeting(t, "digitalocean")
	s.request.SSHTimeoutSeconds = 300
	line := append([]byte("["+ssh.Host+"]:"+strconv.Itoa(ssh.Port)+" "), other(t).Public...)
	s.knownHosts = line
	_, err := s.connect(t.Context(), time.Minute)
	require.ErrorIs(t, err, sshkeys.ErrHostKeyChanged)
	require.Equal(t, line, s.knownHosts, "what was recorded stays")

	s, _ = meeting(t, "digitalocean")
	s.server.SSHPort, s.request.SSHTimeoutSeconds = 1, 300
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCancelled)
	before := time.Now()
	s.meet(ctx, t)
	require.Less(t, time.Since(before), 20*time.Second)
	require.Equal(t, 1, s.state.Writes, "what is saved is a success, and stays one")
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
			message: "driver generic takes no user data, and without an SSH key the Job cannot send the bootstrap data to the server"},
		"off": {change: func(s *session) { s.request.SSHContact.Mode = rkev1.SSHContactOff }, reason: "SpecInvalid", class: rkev1.ClassInvalid,
			message: "must send the bootstrap data over SSH: set it to Auto"},
		"nobody there": {change: func(s *session) { s.server.SSHPort = 1 }, reason: "SSHUnreachable", class: rkev1.ClassTransient,
			message: "the login to the server did not succeed within 1s: "},
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
	require.Equal(t, []string{"driver none creates no server, so the bootstrap data is not applied"}, s.result.Notes)
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
	require.Len(t, ssh.Commands(), 3, "the host's facts, the claim and the script")

	s, _ = meeting(t, "generic")
	s.server.SSHUser, s.bootstrap = "core", []byte("#!/bin/sh\n")
	home = filepath.Dir(s.options.HostsFile)
	require.NoError(t, os.WriteFile(filepath.Join(home, "sudo"), []byte("#!/bin/sh\nexit 1\n"), 0o700))
	require.ErrorContains(t, s.bootstrapServer(t.Context()), "the SSH user cannot become root on the server")
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

// TestProveDelivery: what is seen on the server decides, and what cannot be seen is said to be so.
func TestProveDelivery(t *testing.T) {
	yes, no := new(true), new(false)
	says := func(status string) string { return "#!/bin/sh\necho status: " + status + "\n" }
	for name, c := range map[string]struct {
		files     []string
		code      string
		bootstrap string
		cloudInit string
		earlier   bool
		ssh       bool
		unreached bool
		off       bool
		brief     bool
		proven    *bool
		exitCode  int
		message   string
	}{
		"an earlier version's end": {files: []string{"", ".ran"}, proven: yes, message: "has applied the bootstrap data"},
		"its commands have ended":  {files: []string{"", ".ran"}, code: "0\n", proven: yes, message: "has applied the bootstrap data"},
		"its script failed": {files: []string{"", ".ran"}, code: "3\n", proven: yes, exitCode: 3,
			message: "the bootstrap script ended with exit code 3 on the server: the output is in /var/log/cloud-init-output.log"},
		"its last command failed": {files: []string{"", ".ran"}, code: "3\n", bootstrap: "#cloud-config\nruncmd: ['false']\n", proven: yes,
			message: "the last of whose commands ended with exit code 3: the output is in /var/log/cloud-init-output.log"},
		"a code that is none": {files: []string{"", ".ran"}, code: "3; MARKER\n", proven: yes, message: "has applied the bootstrap data"},
		"its commands run":    {files: []string{""}, cloudInit: says("running"), brief: true, proven: yes, message: "had not ended when the Job checked"},
		"an earlier command ended the script": {files: []string{""}, code: "u-1\nbegan\n", cloudInit: says("done"), proven: no,
			message: "an earlier command in runcmd of the machine's own user data ended the shell script"},
		"an earlier command failed under set -e": {files: []string{""}, code: "u-1\nbegan\n", cloudInit: says("error"), proven: no, message: "set -e"},
		"the server restarted in its script": {files: []string{"", ".began"}, code: "u-1\nbegan\n", cloudInit: says("done"), brief: true, proven: yes,
			message: "had not ended when the Job checked"},
		"earlier commands run":     {files: []string{""}, code: "u-1\nbegan\n", cloudInit: says("running"), brief: true, proven: yes, message: "had not ended"},
		"cloud-init knows nothing": {cloudInit: says("done"), proven: no, message: "cloud-init on the server has ended (done) without the bootstrap data"},
		"cloud-init is off":        {cloudInit: says("disabled"), proven: no, message: "(disabled)"},
		"cloud-init failed":        {cloudInit: says("error"), proven: no, message: "(error)"},
		"no cloud-init":            {message: "it has no cloud-init"},
		"an earlier attempt's":     {cloudInit: says("done"), earlier: true, message: "may not contain"},
		"an earlier attempt's too": {files: []string{""}, cloudInit: says("done"), earlier: true, brief: true, proven: yes, message: "had not ended when the Job checked"},
		"no way to log in":         {unreached: true, message: "could not log in"},
		"nobody looks":             {off: true, message: "spec.common.sshContact.mode is Off"},
		"cloud-init goes on":       {cloudInit: says("running"), brief: true, message: "cloud-init on it has not ended"},
		"another way":              {ssh: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := meeting(t, "digitalocean")
			s.bootstrap, s.marked = []byte(cmp.Or(c.bootstrap, "#!/bin/sh\n")), !c.earlier
			s.request.Tags = map[string]string{jobrunner.TagMachineUID: "u-1"}
			if !c.ssh {
				s.way = clouds.UserData{Habit: clouds.Inline, Flag: "x"}
			}
			s.request.SSHContact.TimeoutSeconds = 30
			if c.unreached {
				s.server.SSHPort, s.request.SSHContact.TimeoutSeconds = 1, 1
			}
			if c.brief {
				s.request.SSHContact.TimeoutSeconds = 3
			}
			if c.off {
				s.request.SSHContact.Mode = rkev1.SSHContactOff
			}
			home := filepath.Dir(s.options.MarkerRoot)
			s.options.DeliveredDir = filepath.Join(home, "delivered")
			require.NoError(t, os.Mkdir(s.options.DeliveredDir, 0o700))
			for _, suffix := range c.files {
				require.NoError(t, os.WriteFile(filepath.Join(s.options.DeliveredDir, "u-1"+suffix), []byte(c.code), 0o600))
			}
			if c.cloudInit != "" {
				require.NoError(t, os.WriteFile(filepath.Join(home, "cloud-init"), []byte(c.cloudInit), 0o700))
			}
			s.meet(t.Context(), t)
			if c.message == "" {
				require.Nil(t, s.result.Delivery)
				return
			}
			require.NotNil(t, s.result.Delivery)
			require.Equal(t, c.proven, s.result.Delivery.Proven)
			require.Equal(t, c.exitCode, s.result.Delivery.ExitCode)
			require.Contains(t, s.result.Delivery.Message, c.message)
		})
	}
}

// TestProveDelivery_of_a_script_that_ends_later: the Job looks on for a while after the data has arrived.
func TestProveDelivery_of_a_script_that_ends_later(t *testing.T) {
	t.Parallel()
	s, ssh := meeting(t, "digitalocean")
	s.request.SSHTimeoutSeconds = 60
	s.bootstrap, s.marked, s.way = []byte("#!/bin/sh\n"), true, clouds.UserData{Habit: clouds.Inline, Flag: "x"}
	s.request.Tags = map[string]string{jobrunner.TagMachineUID: "u-1"}
	s.options.DeliveredDir = filepath.Join(filepath.Dir(s.options.MarkerRoot), "delivered")
	mark := filepath.Join(s.options.DeliveredDir, "u-1")
	require.NoError(t, os.Mkdir(s.options.DeliveredDir, 0o700))
	require.NoError(t, os.WriteFile(mark, nil, 0o600))
	go func() {
		for len(ssh.Commands()) == 0 && t.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		_ = os.WriteFile(mark+".code", []byte("3\n"), 0o600)
		_ = os.Rename(mark+".code", mark+".ran")
	}()
	s.meet(t.Context(), t)
	require.Equal(t, 3, s.result.Delivery.ExitCode)
	require.Equal(t, s.result.Delivery, state.Of(s.state.Data).Result.Value.Delivery)
}
