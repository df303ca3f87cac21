package access

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/inventory"
	"github.com/drover-project/drover/state"
)

const (
	// maxContact bounds the wait for a Job's contact, whatever the state says of its end.
	maxContact      = 3 * time.Minute
	contactInterval = 500 * time.Millisecond
)

// awaitHostKey waits while the Job that made the server logs in to it, which it does when the
// machine is Ready, to record its host key.
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
