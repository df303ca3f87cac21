package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/inventory"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
)

const (
	// defaultPatience is how long a server is waited for that does not serve SSH yet: its cloud-init restarts the daemon, or
	// makes its host keys, shortly after the server was made.
	defaultPatience = 20 * time.Second
	// tries is how often it is tried in that time.
	tries = 50
	// maxContact bounds the wait for a Job's contact, whatever the state says of its end.
	maxContact      = 3 * time.Minute
	contactInterval = 500 * time.Millisecond
)

// connect logs in. A server that refuses connections, or ends them before it has shown its host key, is tried again for a
// while, for nothing of the login was told to it. An address, port or jump host that the user gave is not
// waited for: it may be wrong.
func (l Login) connect(ctx context.Context, machine string, access sshkeys.Access, options sshkeys.Options) (*sshkeys.Client, error) {
	client, err := sshkeys.Dial(ctx, access, options)
	if !errors.Is(err, sshkeys.ErrNotServing) || l.Address != "" || l.Port != 0 || access.Jump != "" {
		return client, err
	}
	how := "the connection was closed"
	if code, ok := errors.AsType[syscall.Errno](err); ok {
		how = code.Error()
	}
	patience := cmp.Or(max(l.Patience, 0), defaultPatience)
	l.note("%s does not serve SSH at %s yet (%s). SSH daemons restart shortly after a server was made: trying again for up to %s",
		machine, access.Address(), how, patience)
	started := time.Now()
	for time.Since(started) < patience {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting until %s serves SSH at %s: %w", machine, access.Address(), context.Cause(ctx))
		case <-time.After(patience / tries):
		}
		client, err = sshkeys.Dial(ctx, access, options)
		if err == nil {
			l.note("%s serves SSH now, after %s", machine, max(time.Since(started).Round(time.Second), time.Second))
		}
		if !errors.Is(err, sshkeys.ErrNotServing) {
			return client, err
		}
	}
	return nil, fmt.Errorf("%w; it was tried for %s whether SSH comes up", err, patience)
}

// awaitHostKey waits while the Job that made the server logs in to it, which it does when the machine is Ready, to record its host key.
func (l Login) awaitHostKey(ctx context.Context, api *inventory.API, m *facts.Machine, kept state.State) (state.State, error) {
	pending := func() time.Duration {
		if len(kept.KnownHosts) > 0 || l.AcceptNewHostKey {
			return 0
		}
		return min(time.Until(kept.Result.Value.ContactUntil), maxContact)
	}
	left := pending()
	if left <= 0 {
		return kept, nil
	}
	l.note("the Job that made %s logs in to it just now, to record its host key: waiting for that, %s at most", m.Name, left.Round(time.Second))
	for deadline := time.Now().Add(left); pending() > 0 && time.Now().Before(deadline); {
		select {
		case <-ctx.Done():
			return kept, fmt.Errorf("waiting until the host key of %s is recorded: %w", m.Name, context.Cause(ctx))
		case <-time.After(contactInterval):
		}
		secret, err := api.StateSecret(ctx, m)
		if err != nil {
			return kept, err
		}
		kept = state.Read(secret)
	}
	return kept, nil
}

func (l Login) note(format string, args ...any) {
	if l.Note != nil {
		l.Note(fmt.Sprintf(format, args...))
	}
}
