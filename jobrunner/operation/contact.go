package operation

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation/finder"
	"github.com/drover-project/drover/jobrunner/operation/statesecret"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/userdata"
)

const (
	// contactTimeout bounds the login after the machine is Ready. The SSH daemons of cloud images
	// answer within a minute after the server runs. Without the host key, drover ssh needs one more
	// flag; a pod that waits longer costs memory for every machine.
	contactTimeout = 2 * time.Minute
	// bootstrapTimeout is for drivers whose bootstrap data goes over SSH: without a login the
	// machine has failed.
	bootstrapTimeout = 5 * time.Minute
	loginTimeout     = 15 * time.Second
	// commandsTimeout is for the commands of bootstrap data that has arrived: most scripts that
	// fail do so soon.
	commandsTimeout = 30 * time.Second
)

func (s *session) access() sshkeys.Access {
	return sshkeys.Access{
		User: s.server.SSHUser, Host: s.server.SSHHost, Port: s.server.SSHPort,
		PrivateKey: s.privateKey, PublicKey: s.publicKey, KnownHosts: s.knownHosts,
	}
}

// sshTimeout is the machine's own, else the manager's, else by default as given.
func (s *session) sshTimeout(otherwise time.Duration) time.Duration {
	if seconds := cmp.Or(s.request.SSHContact.TimeoutSeconds, s.request.SSHTimeoutSeconds); seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	return otherwise
}

// planContact decides whether the Job logs in to the server after the machine is created and saved,
// and sets the delivery status until then. A create does not wait for the login: a server that the
// Job cannot reach may still be healthy.
func (s *session) planContact(context.Context) error {
	switch {
	case s.makesNothing() || len(s.knownHosts) > 0 && !s.marked:
	case s.request.SSHContact.Mode == rkev1.SSHContactOff:
		s.unproven("the Job does not log in to the server, because spec.common.sshContact.mode is Off")
	case len(s.privateKey) == 0 || s.server.SSHHost == "":
		s.note("no host key is recorded: an address or an SSH key for the login is missing")
		s.unproven("an address or an SSH key for the login to the server is missing")
	default:
		s.unproven(fmt.Sprintf("the Job tries to log in for at most %s after the server was created", s.sshTimeout(contactTimeout)))
		s.result.ContactUntil = time.Now().Add(s.sshTimeout(contactTimeout)).UTC()
	}
	return nil
}

// contactServer logs in to the server after a create has succeeded and is saved. It records the
// host key and checks whether the bootstrap data arrived. No error here fails the create. If the
// pod is stopped, contactServer returns immediately.
func (s *session) contactServer(ctx context.Context) {
	saved, notes, told := s.state.Data[state.ResultKey], len(s.result.Notes), s.result.Delivery
	limit := s.sshTimeout(contactTimeout)
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	client, err := s.connect(within, limit)
	if err == nil {
		defer func() { _ = client.Close() }()
		err = s.proveDelivery(within, client)
	} else if ctx.Err() == nil {
		s.note("no host key is recorded: %v", err)
		s.unproven(s.redactor.String(fmt.Sprintf("the Job could not log in to the server: %v", err)))
	}
	if err != nil {
		s.log.printf("%v", err)
	}
	if len(s.result.Notes) == notes && s.result.Delivery == told && bytes.Equal(s.knownHosts, s.state.Data[state.SSHKnownHostsKey]) {
		return // no new facts to store
	}
	s.result.ContactUntil = time.Time{}
	if err := s.addContact(ctx, saved); err != nil {
		s.log.printf("storing the facts about the server: %v", err)
	}
}

// addContact adds the facts that the login found to the state, unless the state now belongs to
// another operation. It keeps a host key that is already recorded.
func (s *session) addContact(ctx context.Context, saved []byte) error {
	reading, stop := context.WithTimeout(context.WithoutCancel(ctx), statesecret.SaveTimeout)
	defer stop()
	if err := s.state.Load(reading); err != nil {
		return err
	}
	if !bytes.Equal(saved, s.state.Data[state.ResultKey]) {
		return errors.New("the state belongs to another attempt")
	}
	if known := s.state.Data[state.SSHKnownHostsKey]; len(known) > 0 {
		s.knownHosts = known
	}
	return s.saveAll(ctx)
}

// connect logs in and retries until the server accepts the login. It trusts the host key only after
// a successful login: before cloud-init has run, a server may present the host key of its image.
func (s *session) connect(ctx context.Context, limit time.Duration) (*sshkeys.Client, error) {
	s.logLogin()
	deadline := time.Now().Add(limit)
	for wait := pollInterval; ; wait = min(2*wait, maxPause) {
		client, err := s.tryLogin(ctx)
		if err == nil {
			return client, nil
		}
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.DeadlineExceeded) {
			return nil, cause
		}
		if errors.Is(err, sshkeys.ErrHostKeyChanged) || errors.Is(err, sshkeys.ErrNoKey) {
			return nil, err
		}
		if sshkeys.IsRefused(err) && (s.profile.NoServer || errors.Is(err, sshkeys.ErrJumpHost)) {
			// The host existed before: it will not get the key later.
			return nil, fail(rkev1.SSHUnauthorizedReason, rkev1.ClassUnauthorized, s.refusal(err, sshkeys.Fingerprint(s.publicKey)))
		}
		if time.Now().Add(wait).After(deadline) {
			return nil, fmt.Errorf("the login to the server did not succeed within %s: %w", limit, err)
		}
		if err := finder.Pause(ctx, wait); err != nil {
			return nil, err
		}
	}
}

func (s *session) logLogin() {
	over := ""
	if jump := s.request.SSHContact.JumpHost; jump != "" {
		over = " over " + jump
	}
	s.log.printf("logging in to %s as %s%s with the key %s", s.access().Address(), s.access().User, over, sshkeys.Fingerprint(s.publicKey))
}

// refusal returns the error for keys that an existing host rejects.
func (s *session) refusal(err error, keys string) error {
	if errors.Is(err, sshkeys.ErrJumpHost) {
		return fmt.Errorf("the jump host rejects the machine's SSH key %s: authorize the key there, or let the driver use a key that the jump host accepts: %w", keys, err)
	}
	return fmt.Errorf("the host rejects user %s with the key %s: authorize the key there, or set a user and a key that the host accepts: %w",
		s.access().User, keys, err)
}

// tryKeys logs in to a host with the key that the machine's configuration gives now. If the host
// refuses it, tryKeys uses the key in the state: the host may not know the new key yet, or may have
// dropped the old one. The state keeps the key that the host accepts.
func (s *session) tryKeys(ctx context.Context) (*sshkeys.Client, error) {
	kept, tried := sshkeys.KeyPair{Private: s.privateKey, Public: s.publicKey}, ""
	var err error
	for _, key := range s.keysFor(kept) {
		s.privateKey, s.publicKey = key.Private, key.Public
		s.logLogin()
		var client *sshkeys.Client
		if client, err = s.tryLogin(ctx); err == nil {
			return client, nil
		}
		if !sshkeys.IsRefused(err) {
			break
		}
		if tried != "" {
			tried += ", and with the previous key, "
		}
		tried += sshkeys.Fingerprint(key.Public)
		err = s.refusal(err, tried)
	}
	s.privateKey, s.publicKey = kept.Private, kept.Public
	return nil, err
}

// keysFor returns the keys to try on a host; kept is the key in the state.
func (s *session) keysFor(kept sshkeys.KeyPair) []sshkeys.KeyPair {
	if public, err := sshkeys.PublicOf(kept.Private, s.dir.Name); err == nil {
		kept.Public = public // the state of a machine that was taken over may have no public key
	}
	given := sshkeys.KeyPair{Private: s.request.Files[s.profile.NeedsKey]}
	var err error
	if given.Public, err = sshkeys.PublicOf(given.Private, s.dir.Name); err != nil && len(given.Private) > 0 {
		s.note("the machine's SSH key cannot be used: %v", err)
	}
	switch {
	case len(given.Public) == 0 || bytes.Equal(given.Public, kept.Public):
		return []sshkeys.KeyPair{kept}
	case len(kept.Private) == 0:
		return []sshkeys.KeyPair{given}
	}
	return []sshkeys.KeyPair{given, kept}
}

func (s *session) tryLogin(ctx context.Context) (*sshkeys.Client, error) {
	var learned []byte
	options := sshkeys.Options{Timeout: loginTimeout, Learn: func(line []byte) error {
		learned = line
		return nil
	}}
	if jump := s.request.SSHContact.JumpHost; jump != "" {
		options.Dialer = sshkeys.JumpHost{Host: jump, Access: s.access(), Timeout: loginTimeout}
	}
	client, err := sshkeys.Dial(ctx, s.access(), options)
	if err == nil && learned != nil {
		s.knownHosts = learned
	}
	return client, err
}

// bootstrapServer makes sure that the bootstrap data is applied once. Drivers with a flag for user
// data have handed it over when they made the server.
func (s *session) bootstrapServer(ctx context.Context) error {
	if s.reached(state.PhaseBootstrapped) || len(s.bootstrap) == 0 || s.wayErr != nil || s.takesUserData() {
		s.advance(state.PhaseBootstrapped)
		return nil
	}
	if s.makesNothing() {
		s.note("driver %s creates no server, so the bootstrap data is not applied", s.request.Driver.Name)
		return nil
	}
	script, err := s.bootstrapScript()
	if err != nil {
		return err
	}
	if len(s.privateKey) == 0 {
		return failf(rkev1.SSHKeyMissingReason, rkev1.ClassInvalid, "driver %s takes no user data, and without an SSH key the Job cannot send the bootstrap data to the server", s.request.Driver.Name)
	}
	if s.request.SSHContact.Mode == rkev1.SSHContactOff {
		return failf(rkev1.SpecInvalidReason, rkev1.ClassInvalid, "spec.common.sshContact.mode is Off, but driver %s takes no user data, so the Job must send the bootstrap data over SSH: "+
			"set it to Auto", s.request.Driver.Name)
	}
	client, err := s.connect(ctx, s.sshTimeout(bootstrapTimeout))
	if cancelled(err) {
		return err
	}
	if known, ok := errors.AsType[*failure](err); ok {
		return known
	}
	if err != nil {
		return fail(rkev1.SSHUnreachableReason, rkev1.ClassTransient, err)
	}
	defer func() { _ = client.Close() }()
	if err := s.askHost(ctx, client); err != nil {
		return err
	}
	if err := s.claimHost(ctx, client); err != nil {
		return err
	}
	if err := s.runOnServer(ctx, client, script); err != nil {
		return err
	}
	s.delivered(true, "the Job ran the script on the server over SSH")
	s.advance(state.PhaseBootstrapped)
	return nil
}

// awaitsDelivery reports whether bootstrap data went to the server as user data.
func (s *session) awaitsDelivery() bool { return len(s.bootstrap) > 0 && s.takesUserData() }

func (s *session) delivered(proven bool, message string) {
	s.result.Delivery = &state.Delivery{Proven: &proven, Message: message}
}

func (s *session) unproven(why string) {
	if s.awaitsDelivery() {
		s.result.Delivery = &state.Delivery{Message: "the delivery of the bootstrap data to the server is not verified: " + why}
	}
}

// proveDelivery checks on the server for the files that Drover's user data creates. A driver that
// drops the data, or sends other data, reports no error: cloud-init says done either way.
//
//	marker.ran there ──▶ proven, with the exit code in it    marker there ──▶ proven, its commands run still: asked on for commandsTimeout
//	cloud-init has ended and the user's commands have ended the script ──▶ not delivered
//	cloud-init has ended without ──▶ not delivered    no cloud-init, or it still runs when the time is over ──▶ not verified
//
// cloud-init writes files before sshd starts (the order of its units), so most servers are asked
// once. If this attempt's data has no mark, the absence of the files proves nothing: the server is
// from an earlier attempt, or the format has no place for a mark.
func (s *session) proveDelivery(ctx context.Context, client *sshkeys.Client) error {
	if !s.awaitsDelivery() {
		return nil
	}
	ended := false
	for wait := pollInterval; ; wait = min(2*wait, maxPause) {
		told, code, err := s.askCloudInit(ctx, client)
		switch {
		case cancelled(err):
			return err
		case ctx.Err() == nil && err != nil:
			s.unproven("the server did not answer")
			return fmt.Errorf("checking for the bootstrap data on the server: %w", err)
		case told == "ran":
			s.applied(code)
			return nil
		case told == "arrived":
			s.delivered(true, "cloud-init on the server has the bootstrap data; its commands had not ended when the Job checked")
			return s.awaitCommands(ctx, client)
		case told == "unbegun":
			s.cutShort()
			return nil
		case told == "absent":
			s.unproven("it has no cloud-init")
			return nil
		case ended && !s.marked:
			s.unproven("cloud-init has ended without Drover's mark, which the data of this server may not contain")
			return nil
		case ended:
			s.delivered(false, fmt.Sprintf("cloud-init on the server has ended (%s) without the bootstrap data: the driver or the cloud did not pass it on", told))
			return nil
		}
		// Ask once more: cloud-init may have ended between the two questions.
		ended = slices.Contains([]string{"done", "error", "disabled"}, told)
		if err := finder.Pause(ctx, wait); errors.Is(err, context.DeadlineExceeded) {
			s.unproven("cloud-init on it has not ended")
			return nil
		} else if err != nil {
			return err
		}
	}
}

// awaitCommands waits for a while until the commands of delivered data have ended.
func (s *session) awaitCommands(ctx context.Context, client *sshkeys.Client) error {
	for since, wait := time.Now(), pollInterval; time.Since(since) < commandsTimeout; wait = min(2*wait, maxPause) {
		if err := finder.Pause(ctx, wait); err != nil {
			return fmt.Errorf("waiting for the commands of the bootstrap data: %w", err)
		}
		told, code, err := s.askCloudInit(ctx, client)
		if err != nil {
			return fmt.Errorf("checking whether the bootstrap data's commands have ended: %w", err)
		}
		if told == "ran" {
			s.applied(code)
			return nil
		}
		if told == "unbegun" {
			s.cutShort()
			return nil
		}
	}
	return nil
}

// cutShort records that cloud-init never ran the commands of the bootstrap data.
func (s *session) cutShort() {
	s.delivered(false, "cloud-init on the server has ended without the commands of the bootstrap data: an earlier command in runcmd of the machine's own user data "+
		"ended the shell script that cloud-init makes of all commands (exit, exec, or set -e before a command that failed). Run such commands in a shell of their own: "+
		"sh -c '...'")
}

// applied records how the commands of the bootstrap data ended. The exit code proves a failure only
// for a script. The exit code of a cloud-config's last command says nothing about the other
// commands.
func (s *session) applied(code int) {
	const output = "the output is in /var/log/cloud-init-output.log there"
	summary, err := userdata.Inspect(s.bootstrap)
	switch {
	case code == 0:
		s.delivered(true, "cloud-init on the server has applied the bootstrap data")
	case err == nil && summary.Format == userdata.Script:
		s.delivered(true, fmt.Sprintf("the bootstrap script ended with exit code %d on the server: %s", code, output))
		s.result.Delivery.ExitCode = code
	default:
		s.delivered(true, fmt.Sprintf("cloud-init on the server has applied the bootstrap data, the last of whose commands ended with exit code %d: %s", code, output))
	}
}

// deliveryMark is the same in all attempts, and after a machine was restored.
func (s *session) deliveryMark() string {
	if uid := s.request.Tags[jobrunner.TagMachineUID]; uid != "" {
		return wordOf(uid)
	}
	return s.marker()
}

// askCloudInit returns "ran" with the exit code, "arrived", "unbegun" if cloud-init has ended
// before the commands of the bootstrap data, "absent", or cloud-init's own status. It needs no
// rights on the server. The mark of an earlier version has no code, which counts as 0.
func (s *session) askCloudInit(ctx context.Context, client *sshkeys.Client) (string, int, error) {
	file := sshkeys.Quote(s.options.DeliveredDir + "/" + s.deliveryMark())
	var out bytes.Buffer
	_, err := client.Run(ctx, sshkeys.Command{Stdout: &limited{to: &out, left: maxStatus}, Stderr: s.log, Line: fmt.Sprintf(
		"told() { cloud-init status 2>/dev/null | sed -n 's/^status: *//p'; }; "+
			"if test -e %[1]s.ran; then echo ran; cat %[1]s.ran; "+
			"elif test -e %[1]s; then case $(told) in done|error) grep -qsx %[2]s %[1]s && ! test -e %[1]s.began && ! test -e %[1]s.ran && echo unbegun || echo arrived;; "+
			"*) echo arrived;; esac; "+
			"elif command -v cloud-init >/dev/null 2>&1; then told; else echo absent; fi", file, userdata.Begins)})
	word, rest, _ := strings.Cut(strings.TrimSpace(out.String()), "\n")
	if !slices.Contains([]string{"ran", "arrived", "unbegun", "absent", "done", "error", "disabled"}, word) {
		word = "running"
	}
	code, parseErr := strconv.ParseUint(rest, 10, 8)
	if parseErr != nil {
		code = 0
	}
	return word, int(code), err
}

const maxStatus = 1 << 10

// limited keeps the first bytes of a server's output and drops the rest.
type limited struct {
	to   *bytes.Buffer
	left int
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	_, _ = l.to.Write(p[:n])
	return len(p), nil
}
