package operation

import (
	"context"
	"errors"
	"fmt"
	"time"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
)

const (
	defaultSSHTimeout = 300 * time.Second
	loginTimeout      = 15 * time.Second
)

func (s *session) access() sshkeys.Access {
	return sshkeys.Access{
		User: s.server.SSHUser, Host: s.server.SSHHost, Port: s.server.SSHPort,
		PrivateKey: s.privateKey, PublicKey: s.publicKey, KnownHosts: s.knownHosts,
	}
}

// meetServer records the host key at first contact. A server that cannot be reached from here may still be a good one.
func (s *session) meetServer(ctx context.Context) error {
	if s.makesNothing() || len(s.knownHosts) > 0 && !s.marked {
		return nil
	}
	if len(s.privateKey) == 0 || s.server.SSHHost == "" {
		s.note("no host key is recorded: there is no address or no SSH key to log in with")
		s.unproven("there is no address or no SSH key to log in to the server with")
		return nil
	}
	client, err := s.connect(ctx)
	if cancelled(err) {
		return err
	}
	if err != nil {
		s.note("no host key is recorded: %v", err)
		s.unproven("the Job could not log in to the server")
		return nil
	}
	defer func() { _ = client.Close() }()
	return s.proveDelivery(ctx, client)
}

func (s *session) sshTimeout() time.Duration {
	if seconds := s.request.SSHTimeoutSeconds; seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	return defaultSSHTimeout
}

// connect logs in, waiting until the server lets us. The host key is believed only once the login succeeded: before
// cloud-init has run, a server may show the host key of its image.
func (s *session) connect(ctx context.Context) (*sshkeys.Client, error) {
	limit := s.sshTimeout()
	s.log.printf("logging in to %s as %s", s.access().Address(), s.access().User)
	deadline := time.Now().Add(limit)
	for wait := pollInterval; ; wait = min(2*wait, maxPause) {
		client, err := s.tryLogin(ctx)
		if err == nil {
			return client, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if errors.Is(err, sshkeys.ErrHostKeyChanged) || errors.Is(err, sshkeys.ErrNoKey) {
			return nil, err
		}
		if sshkeys.IsRefused(err) && s.profile.NoServer {
			// The host was there before: nothing on it has yet to bring the key.
			return nil, failf(reasonUnauthorized, rkev1.ClassUnauthorized, "the host does not let user %s in with the key %s: authorize that key there, or "+
				"set the user and the key that it knows: %w", s.access().User, sshkeys.Fingerprint(s.publicKey), err)
		}
		if time.Now().Add(wait).After(deadline) {
			return nil, fmt.Errorf("the server did not let us log in within %s: %w", limit, err)
		}
		if err := pause(ctx, wait); err != nil {
			return nil, err
		}
	}
}

func (s *session) tryLogin(ctx context.Context) (*sshkeys.Client, error) {
	var learned []byte
	client, err := sshkeys.DialWith(ctx, s.access(), sshkeys.Options{Timeout: loginTimeout, Learn: func(line []byte) error {
		learned = line
		return nil
	}})
	if err == nil && learned != nil {
		s.knownHosts = learned
	}
	return client, err
}

// bootstrapServer makes sure that the bootstrap data is applied once. Drivers with a flag for user data have handed it over
// when they made the server.
func (s *session) bootstrapServer(ctx context.Context) error {
	if s.reached(state.PhaseBootstrapped) || len(s.bootstrap) == 0 || s.wayErr != nil || s.takesUserData() {
		s.advance(state.PhaseBootstrapped)
		return nil
	}
	if s.makesNothing() {
		s.note("driver %s makes no server, so the bootstrap data is not applied", s.request.Driver.Name)
		return nil
	}
	script, err := s.bootstrapScript()
	if err != nil {
		return err
	}
	if len(s.privateKey) == 0 {
		return failf(reasonKeyMissing, rkev1.ClassInvalid, "driver %s takes no user data, and without an SSH key the bootstrap data cannot be brought to the server", s.request.Driver.Name)
	}
	client, err := s.connect(ctx)
	if cancelled(err) {
		return err
	}
	if known, ok := errors.AsType[*failure](err); ok {
		return known
	}
	if err != nil {
		return fail(reasonUnreachable, rkev1.ClassTransient, err)
	}
	defer func() { _ = client.Close() }()
	if err := s.claimHost(ctx, client); err != nil {
		return err
	}
	if err := s.runOnServer(ctx, client, script); err != nil {
		return err
	}
	s.delivered(true, "the script has run on the server, brought there over SSH")
	s.advance(state.PhaseBootstrapped)
	return nil
}
