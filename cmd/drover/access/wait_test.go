package access_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/cmd/drover/access"
	"github.com/drover-project/drover/state"
)

func (w *world) replace(t *testing.T, data map[string][]byte) error {
	t.Helper()
	secret := stateSecret(data)
	_, err := w.api.Kube.CoreV1().Secrets("shop").Update(t.Context(), secret, updateOptions)
	return err
}

// TestRead_waitsForTheHostKey while the Job that made the server is about to record it, and for nothing else.
func TestRead_waitsForTheHostKey(t *testing.T) {
	var key []byte
	pending := func(until time.Duration) *world {
		return newWorld(t, func(data map[string][]byte) {
			key = data[state.SSHKnownHostsKey]
			delete(data, state.SSHKnownHostsKey)
			result, err := json.Marshal(state.Result{Operation: state.Create, Attempt: 1, Outcome: state.Succeeded, ContactUntil: time.Now().Add(until)})
			require.NoError(t, err)
			data[state.ResultKey] = result
		})
	}
	w := pending(time.Hour)
	done := make(chan struct{})
	go func() {
		defer close(done)
		data, err := access.Read(t.Context(), w.api, machine("uid-1"), w.login)
		assert.NoError(t, err)
		assert.Equal(t, string(key), string(data.KnownHosts))
	}()
	require.Eventually(t, func() bool { return len(w.told()) == 1 }, time.Minute, 10*time.Millisecond)
	require.Contains(t, w.told()[0], "the Job that made web-1 logs in to it just now, to record its host key: waiting for that, 3m0s at most")
	data := w.state(t).Data
	data[state.SSHKnownHostsKey] = key
	require.NoError(t, w.replace(t, data))
	<-done

	for name, c := range map[string]struct {
		until  time.Duration
		accept bool
	}{"the time is over": {until: -time.Second}, "the user accepts it himself": {until: time.Hour, accept: true}} {
		w := pending(c.until)
		w.login.AcceptNewHostKey = c.accept
		_, err := access.Read(t.Context(), w.api, machine("uid-1"), w.login)
		require.NoError(t, err, name)
		require.Empty(t, w.told(), name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w = pending(time.Hour)
	_, err := access.Read(ctx, w.api, machine("uid-1"), w.login)
	require.ErrorContains(t, err, "waiting until the host key of web-1 is recorded")
}
