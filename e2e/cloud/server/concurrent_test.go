package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/server"
)

func TestInstantKnowsNoOtherChange(t *testing.T) {
	backend := server.NewInstant()
	require.NoError(t, backend.Create(t.Context(), server.Spec{Name: "a"}))
	for _, change := range []server.Power{"", "explode", "POWER_ON", "power_cycle"} {
		require.EqualError(t, backend.Power(t.Context(), "a", change), fmt.Sprintf("changing power of a: there is no change %q", change))
		require.True(t, backend.Running("a"), "it goes on")
	}
	err := backend.Power(t.Context(), "b", server.PowerOn)
	require.EqualError(t, err, "changing power of b: server not found")
	require.ErrorIs(t, err, server.ErrNotFound)
	require.False(t, backend.Running("b"), "asking makes none")
}

// Any history of changes leaves what the last change of each server said.
func TestInstantAgreesWithAnyHistory(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		backend := server.NewInstant()
		want := map[string]bool{}
		for range 200 {
			name := fmt.Sprintf("s%d", random.IntN(5))
			_, there := want[name]
			switch random.IntN(4) {
			case 0:
				require.NoError(t, backend.Create(t.Context(), server.Spec{Name: name}))
				want[name] = true
			case 1:
				require.NoError(t, backend.Destroy(t.Context(), name))
				delete(want, name)
			case 2:
				on := random.IntN(2) == 0
				require.NoError(t, backend.Adopt(t.Context(), server.Spec{Name: name}, on))
				want[name] = on
			case 3:
				change := []server.Power{server.PowerOn, server.PowerOff, server.Shutdown, server.Reboot}[random.IntN(4)]
				err := backend.Power(t.Context(), name, change)
				require.Equal(t, there, err == nil)
				require.Equal(t, !there, errors.Is(err, server.ErrNotFound))
				if there {
					want[name] = change == server.PowerOn || change == server.Reboot
				}
			}
			require.Equal(t, want[name], backend.Running(name), "seed %d", seed)
		}
	}
}

func TestInstantUnderConcurrency(t *testing.T) {
	backend := server.NewInstant()
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for round := range 100 {
				name := fmt.Sprintf("s%d-%d", worker, round)
				require.NoError(t, backend.Create(t.Context(), server.Spec{Name: name}))
				require.NoError(t, backend.Power(t.Context(), name, server.PowerOff))
				require.False(t, backend.Running(name))
				require.NoError(t, backend.Power(t.Context(), name, server.PowerOn))
				require.True(t, backend.Running(name))
				require.NoError(t, backend.Destroy(t.Context(), name))
			}
		})
	}
	group.Wait()
}

func TestRequestsAndInfosTravelWhole(t *testing.T) {
	request := server.Request{Name: "plain", User: "ops", Keys: []string{"ssh-ed25519 AAAA"}, UserData: "#!/bin/sh\n"}
	text, err := json.Marshal(request)
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"plain","user":"ops","keys":["ssh-ed25519 AAAA"],"userData":"#!/bin/sh\n"}`, string(text))
	var again server.Request
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, request, again)

	for _, info := range []server.Info{
		{Name: "plain", Address: netip.MustParseAddr("198.18.1.1"), User: "ops", HostKey: "ssh-ed25519 BBBB", Running: true},
		{Name: "bare", Address: netip.MustParseAddr("198.18.1.2")},
	} {
		text, err := json.Marshal(info)
		require.NoError(t, err)
		var again server.Info
		require.NoError(t, json.Unmarshal(text, &again))
		require.Equal(t, info, again)
	}
	text, err = json.Marshal(server.Info{Name: "bare", Address: netip.MustParseAddr("198.18.1.2")})
	require.NoError(t, err)
	require.Equal(t, `{"name":"bare","address":"198.18.1.2","running":false}`, string(text))
}
